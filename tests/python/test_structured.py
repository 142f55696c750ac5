"""Layers over images and volumes, norms, random fields, many classes, sequence measures."""

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers
rng = np.random.RandomState(0)


def value_of(exe, *outs, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(outs))


def lod(rows, lengths, dtype):
    return fluid.create_lod_tensor(np.array(rows, dtype).reshape(-1, 1), [lengths], fluid.CPUPlace())


def shapes(program):
    return {p.name: tuple(p.shape) for p in program.all_parameters()}


def trains(exe, loss, feed, rate=0.1, steps=15):
    fluid.optimizer.Adam(rate).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert losses[-1] < losses[0]


def test_conv2d_transpose_by_filter_and_by_output_size(exe, fresh):
    x = fluid.data('x', [2, 3, 4, 5])
    by_filter = layers.conv2d_transpose(x, 6, filter_size=3, stride=2, padding=1)
    by_output = layers.conv2d_transpose(x, 6, output_size=[9, 11], stride=2, act='relu')
    assert by_filter.shape == (2, 6, 7, 9) and by_output.shape == (2, 6, 9, 11)
    assert shapes(fresh[0]) == {'conv2d_transpose_0.w_0': (3, 6, 3, 3), 'conv2d_transpose_0.b_0': (6,),
                                'conv2d_transpose_1.w_0': (3, 6, 3, 3), 'conv2d_transpose_1.b_0': (6,)}
    a, b = value_of(exe, by_filter, by_output, x=rng.rand(2, 3, 4, 5).astype('float32'))
    assert a.shape == (2, 6, 7, 9) and b.min() == 0
    depthwise = layers.conv2d_transpose(x, 3, filter_size=2, groups=3, use_cudnn=False)
    assert depthwise.op.type == 'elementwise_add'
    assert 'depthwise_conv2d_transpose' in [op.type for op in fresh[0].global_block().ops]
    with pytest.raises(ValueError, match='neither filter_size nor output_size'):
        layers.conv2d_transpose(x, 6)


def test_a_transposed_convolution_of_one_pixel_is_the_filter(exe, fresh):
    x = fluid.data('x', [1, 1, 1, 1])
    weight = fluid.initializer.NumpyArrayInitializer(np.arange(4, dtype='float32').reshape(1, 1, 2, 2))
    out = layers.conv2d_transpose(x, 1, filter_size=2, param_attr=weight, bias_attr=False)
    got, = value_of(exe, out, x=np.full((1, 1, 1, 1), 2, 'float32'))
    assert got.tolist() == [[[[0, 2], [4, 6]]]]


def test_convolutions_over_volumes(exe, fresh):
    x = fluid.data('x', [None, 2, 4, 4, 4])
    down = layers.conv3d(x, 4, 3, stride=[1, 2, 2], padding=1, groups=2)
    up = layers.conv3d_transpose(down, 2, filter_size=2, stride=2, act='relu')
    assert down.shape == (-1, 4, 4, 2, 2) and up.shape == (-1, 2, 8, 4, 4)
    assert shapes(fresh[0])['conv3d_0.w_0'] == (4, 1, 3, 3, 3)
    trains(exe, layers.mean(layers.square(up)), {'x': rng.rand(2, 2, 4, 4, 4).astype('float32')}, 0.01)


def test_group_norm_has_parameters_only_when_asked(exe, fresh):
    x = fluid.data('x', [2, 4, 3, 3])
    plain = layers.group_norm(x, 2)
    assert shapes(fresh[0]) == {}
    layers.group_norm(x, 2, param_attr='scale', bias_attr='shift')
    assert shapes(fresh[0]) == {'scale': (4,), 'shift': (4,)}
    data = rng.rand(2, 4, 3, 3).astype('float32')
    got, = value_of(exe, plain, x=data)
    groups = data.reshape(2, 2, -1)
    want = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(got.reshape(2, 2, -1), want, atol=1e-4)


def test_instance_norm(exe, fresh):
    x = fluid.data('x', [2, 3, 4, 4])
    out = layers.instance_norm(x)
    assert shapes(fresh[0]) == {'instance_norm_0.w_0': (3,), 'instance_norm_0.b_0': (3,)}
    got, = value_of(exe, out, x=rng.rand(2, 3, 4, 4).astype('float32'))
    np.testing.assert_allclose(got.mean((2, 3)), 0, atol=1e-5)
    layers.instance_norm(x, param_attr=False, bias_attr=False)
    with pytest.raises(ValueError, match='set both to false'):
        layers.instance_norm(x, param_attr=False)


@pytest.mark.parametrize('mode, shape', [('all', (1,)), ('channel', (1, 2, 1, 1)),
                                         ('element', (1, 2, 3, 3))])
def test_prelu(exe, fresh, mode, shape):
    x = fluid.data('x', [None, 2, 3, 3])
    out = layers.prelu(x, mode)
    assert shapes(fresh[0]) == {'prelu_0.w_0': shape}
    got, = value_of(exe, out, x=np.full((1, 2, 3, 3), -4, 'float32'))
    assert (got == -1).all()
    with pytest.raises(ValueError, match='channel'):
        layers.prelu(x, 'any')


def test_a_random_field_learns_its_tags(exe, fresh):
    words = fluid.data('words', [None, 1], 'int64', lod_level=1)
    tags = fluid.data('tags', [None, 1], 'int64', lod_level=1)
    scores = layers.fc(fluid.layers.embedding(words, [10, 8]), 3)
    cost = layers.linear_chain_crf(scores, tags, fluid.ParamAttr(name='crfw'))
    path = layers.crf_decoding(scores, fluid.ParamAttr(name='crfw'))
    assert shapes(fresh[0])['crfw'] == (5, 3)
    right = layers.crf_decoding(scores, fluid.ParamAttr(name='crfw'), label=tags)
    measures = layers.chunk_eval(path, tags, 'plain', 3)
    fluid.optimizer.Adam(0.1).minimize(layers.mean(cost))
    exe.run(fresh[1])
    feed = {'words': lod([1, 2, 3, 4, 5], [3, 2], 'int64'), 'tags': lod([0, 1, 2, 1, 0], [3, 2], 'int64')}
    for _ in range(30):
        exe.run(feed=feed)
    found, agrees, f1 = exe.run(feed=feed, fetch_list=[path, right, measures[2]], return_numpy=False)
    assert np.array(found).ravel().tolist() == [0, 1, 2, 1, 0]
    assert np.array(agrees).ravel().tolist() == [1] * 5
    assert np.array(f1).tolist() == [1]
    with pytest.raises(Exception, match='there is no parameter other'):
        layers.crf_decoding(scores, fluid.ParamAttr(name='other'))


@pytest.mark.parametrize('sampler', ['uniform', 'log_uniform', 'custom_dist'])
def test_nce_trains(exe, fresh, sampler):
    x, y = fluid.data('x', [None, 4]), fluid.data('y', [None, 1], 'int64')
    dist = [0.4, 0.3, 0.2, 0.05, 0.05] if sampler == 'custom_dist' else None
    cost = layers.nce(x, y, 5, num_neg_samples=3, sampler=sampler, custom_dist=dist, seed=1)
    assert shapes(fresh[0])['nce_0.w_0'] == (5, 4)
    feed = {'x': rng.rand(6, 4).astype('float32'), 'y': rng.randint(0, 5, (6, 1)).astype('int64')}
    trains(exe, layers.mean(cost), feed)


def test_hsigmoid_trains(exe, fresh):
    x, y = fluid.data('x', [None, 4]), fluid.data('y', [None, 1], 'int64')
    cost = layers.hsigmoid(x, y, 6)
    assert shapes(fresh[0]) == {'hierarchical_sigmoid_0.w_0': (5, 4), 'hierarchical_sigmoid_0.b_0': (5, 1)}
    with pytest.raises(ValueError, match='go together'):
        layers.hsigmoid(x, y, 6, is_custom=True)
    feed = {'x': rng.rand(6, 4).astype('float32'), 'y': rng.randint(0, 6, (6, 1)).astype('int64')}
    trains(exe, layers.mean(cost), feed)


def test_gru_unit_and_lstmp(exe, fresh):
    x, h = fluid.data('x', [None, 6]), fluid.data('h', [None, 2])
    hidden, reset, gate = layers.gru_unit(x, h, 6)
    assert (hidden.shape, reset.shape, gate.shape) == ((-1, 2), (-1, 2), (-1, 6))
    rows = fluid.data('rows', [None, 8], lod_level=1)
    projection, cell = layers.dynamic_lstmp(rows, 8, 3)
    assert shapes(fresh[0])['lstmp_0.w_0'] == (3, 8) and shapes(fresh[0])['lstmp_0.w_1'] == (2, 3)
    sequence = fluid.create_lod_tensor(rng.rand(5, 8).astype('float32'), [[2, 3]], fluid.CPUPlace())
    exe.run(fresh[1])
    feed = {'x': rng.rand(2, 6).astype('float32'), 'h': rng.rand(2, 2).astype('float32'), 'rows': sequence}
    got = exe.run(feed=feed, fetch_list=[hidden, projection, cell], return_numpy=False)
    assert [np.array(t).shape for t in got] == [(2, 2), (5, 3), (5, 2)]


def test_edit_distance_and_ctc(exe, fresh):
    a = fluid.data('a', [None, 1], 'int64', lod_level=1)
    b = fluid.data('b', [None, 1], 'int64', lod_level=1)
    distance, count = layers.edit_distance(a, b, normalized=False)
    without, _ = layers.edit_distance(a, b, normalized=False, ignored_tokens=[9])
    feed = {'a': lod([1, 2, 9, 4], [3, 1], 'int64'), 'b': lod([1, 3, 4], [2, 1], 'int64')}
    got = value_of(exe, distance, count, without, **feed)
    assert got[0].tolist() == [[2], [0]] and got[1].tolist() == [2] and got[2].tolist() == [[1], [0]]

    steps = fluid.data('steps', [None, 3], lod_level=1)
    labels = fluid.data('labels', [None, 1], 'int32', lod_level=1)
    loss = layers.warpctc(steps, labels)
    decoded = layers.ctc_greedy_decoder(steps, blank=0)
    scores = fluid.create_lod_tensor(np.eye(3, dtype='float32')[[1, 1, 0, 2]], [[4]], fluid.CPUPlace())
    feed.update(steps=scores, labels=lod([1, 2], [2], 'int32'))
    got = exe.run(feed=feed, fetch_list=[loss, decoded], return_numpy=False)
    assert np.array(got[0]).shape == (1, 1) and np.array(got[1]).ravel().tolist() == [1, 2]


def test_one_step_of_beam_search(exe, fresh):
    ids, scores = fluid.data('ids', [None, 1], 'int64', 2), fluid.data('scores', [None, 1], lod_level=2)
    more = fluid.data('more', [None, 3], lod_level=2)
    selected, best, parents = layers.beam_search(ids, scores, None, more, 2, 0, return_parent_idx=True)
    place = fluid.CPUPlace()
    feed = {'ids': fluid.create_lod_tensor(np.array([[1]], 'int64'), [[1], [1]], place),
            'scores': fluid.create_lod_tensor(np.array([[0.5]], 'float32'), [[1], [1]], place),
            'more': fluid.create_lod_tensor(np.array([[0.1, 0.6, 0.3]], 'float32'), [[1], [1]], place)}
    got = exe.run(feed=feed, fetch_list=[selected, best, parents], return_numpy=False)
    assert np.array(got[0]).ravel().tolist() == [1, 2]
    assert np.array(got[2]).ravel().tolist() == [0, 0]


def test_static_nn_has_them_under_its_names(fresh):
    paddle.enable_static()
    x = paddle.static.data('x', [2, 4, 3, 3])
    assert paddle.static.nn.conv2d_transpose(x, 2, filter_size=2).shape == (2, 2, 4, 4)
    assert paddle.static.nn.group_norm(x, 2).shape == (2, 4, 3, 3)
    assert paddle.static.nn.instance_norm(x).shape == (2, 4, 3, 3)
    assert paddle.static.nn.prelu(x, 'channel').shape == (2, 4, 3, 3)


# ---- small layers that make parameters

def trained(exe, loss, feed, steps=15):
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert losses[-1] < losses[0], losses


def weight_of(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def test_bilinear_tensor_product(exe):
    x, y = fluid.data('x', [None, 3]), fluid.data('y', [None, 4])
    out = fluid.layers.bilinear_tensor_product(x, y, size=5)
    assert out.shape == (-1, 5)
    exe.run(fluid.default_startup_program())
    feed = {'x': np.random.rand(2, 3).astype('float32'), 'y': np.random.rand(2, 4).astype('float32')}
    weight = weight_of('bilinear_tensor_product_0.w_0')
    assert weight_of('bilinear_tensor_product_0.b_0').shape == (1, 5)
    expected = np.einsum('nm,kmj,nj->nk', feed['x'], weight, feed['y'])
    # Terms of both signs may cancel: what is left is as exact as the terms, not as itself.
    terms = np.einsum('nm,kmj,nj->nk', feed['x'], abs(weight), feed['y'])
    got = exe.run(feed=feed, fetch_list=[out])[0]
    np.testing.assert_array_less(abs(got - expected), 1e-6 * terms)
    trained(exe, fluid.layers.mean(fluid.layers.square(out - 1.0)), feed)
    with pytest.raises(ValueError, match='size is 0'):
        fluid.layers.bilinear_tensor_product(x, y, size=0)


def test_row_conv(exe):
    x = fluid.data('x', [None, 2], lod_level=1)
    out = fluid.layers.row_conv(x, future_context_size=2, act='tanh')
    exe.run(fluid.default_startup_program())
    weight = weight_of('row_conv_0.w_0')
    assert weight.shape == (3, 2)
    rows = np.random.rand(5, 2).astype('float32')
    feed = {'x': fluid.create_lod_tensor(rows, [[4, 1]], fluid.CPUPlace())}
    got = np.array(exe.run(feed=feed, fetch_list=[out], return_numpy=False)[0])
    expected = [sum(rows[t + k] * weight[k] for k in range(3) if t + k < 4) for t in range(4)]
    np.testing.assert_allclose(got, np.tanh(expected + [rows[4] * weight[0]]), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match='future_context_size is -1'):
        fluid.layers.row_conv(x, -1)


def test_spectral_norm(exe, fresh):
    weight = fluid.layers.create_parameter([6, 4, 2], 'float32', name='weight')
    out = fluid.layers.spectral_norm(weight, dim=1, power_iters=30)
    u, v = [p for p in fresh[0].all_parameters() if p.name.startswith('spectral_norm')]
    assert u.shape == (4,) and v.shape == (12,) and u.stop_gradient and v.stop_gradient
    exe.run(fresh[1])
    # One singular value stands out: thirty rounds come as near to it as float32 can.
    matrix = np.random.rand(4, 12).astype('float32') + 1
    fluid.global_scope().find_var('weight').get_tensor().set(
        matrix.reshape(4, 6, 2).transpose(1, 0, 2).copy(), fluid.CPUPlace())
    got, = exe.run(fetch_list=[out])
    np.testing.assert_allclose(got, weight_of('weight') / np.linalg.svd(matrix)[1][0], rtol=1e-5)
    with pytest.raises(ValueError, match='dim is 3'):
        fluid.layers.spectral_norm(weight, dim=3)
    assert paddle.static.nn.spectral_norm is not None


def test_lstm_unit_is_a_step_of_an_lstm(exe):
    x, h, c = (fluid.data(name, [None, size]) for name, size in (('x', 3), ('h', 2), ('c', 2)))
    hidden, cell = fluid.layers.lstm_unit(x, h, c, forget_bias=1.0)
    exe.run(fluid.default_startup_program())
    feed = {name: np.random.rand(2, size).astype('float32') for name, size in
            (('x', 3), ('h', 2), ('c', 2))}
    gates = np.concatenate([feed['x'], feed['h']], 1) @ weight_of('fc_0.w_0')
    i, f, o, g = np.split(gates, 4, 1)
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    expected = sigmoid(f + 1) * feed['c'] + sigmoid(i) * np.tanh(g)
    got = exe.run(feed=feed, fetch_list=[hidden, cell])
    np.testing.assert_allclose(got[1], expected, rtol=1e-5)
    np.testing.assert_allclose(got[0], sigmoid(o) * np.tanh(expected), rtol=1e-5)
    trained(exe, fluid.layers.mean(fluid.layers.square(hidden)), feed)
    with pytest.raises(ValueError, match='cell_t_prev'):
        fluid.layers.lstm_unit(x, x, c)
