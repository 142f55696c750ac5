"""paddle.nn.Layer and what static programs of 2.x build: what records do not hold."""
import warnings

import numpy as np
import pytest

import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle import static


@pytest.fixture(autouse=True)
def as_2_x(environment):
    paddle.enable_static()


def run(outs, feed=None, program=None):
    exe = static.Executor()
    exe.run(static.default_startup_program())
    return exe.run(program, feed=feed or {}, fetch_list=outs)


def test_a_number_has_one_dimension():
    x = paddle.ones([2, 3, 4])
    sums = [paddle.mean(x), paddle.sum(x), paddle.max(x), paddle.prod(x)]
    assert [each.shape for each in sums] == [(1,)] * 4
    assert [value.shape for value in run(sums)] == [(1,)] * 4


def test_weights_in_a_row_are_not_needed():
    lstm = nn.LSTM(4, 5)
    out, _ = lstm(paddle.ones([2, 3, 4]))
    first, = run([out])
    state = {name: np.array(value) for name, value in static.default_main_program().state_dict().items()}
    assert not any('lstm_0' in name for name in state)
    with pytest.warns(UserWarning, match='no variable lstm_0.w_0'):
        static.set_program_state(static.default_main_program(), {**state, 'lstm_0.w_0': np.zeros(200, 'float32')})
    again, = static.Executor().run(fetch_list=[out])
    np.testing.assert_array_equal(again, first)


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.rest = nn.LayerList([nn.Linear(3, 3), nn.Dropout(0.5)])
        self.shift = self.create_parameter([3], is_bias=True)
        self.register_buffer('seen', paddle.zeros([1]), persistable=False)

    def forward(self, x):
        for layer in self.rest:
            x = layer(self.first(x) if layer is self.rest[0] else x)
        return x + self.shift


def test_a_layer_knows_what_is_in_it():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == ['shift', 'first.weight', 'first.bias', 'rest.0.weight',
                                                            'rest.0.bias']
    assert list(net.state_dict()) == ['shift', 'first.weight', 'first.bias', 'rest.0.weight', 'rest.0.bias']
    assert [name for name, _ in net.named_sublayers()] == ['first', 'rest', 'rest.0', 'rest.1']
    assert net.full_name() == 'net_0' and net.first.weight.name == 'linear_0.w_0'
    assert [name for name, _ in net.named_buffers()] == ['seen']
    assert 'Linear(in_features=4, out_features=3' in repr(net)
    del net.shift
    assert not hasattr(net, 'shift') and len(net.parameters()) == 4
    net.first = nn.Identity()
    assert len(net.parameters()) == 2


def test_training_and_testing_build_different_ops():
    x = static.data('x', [2, 4], 'float32')
    net = Net()
    net.eval()
    assert not net.rest[1].training
    tested = net(x)
    net.train()
    trained = net(x)
    outs = run([tested, trained], {'x': np.ones([2, 4], 'float32')})
    weights = [np.array(p.get_value()) for p in net.state_dict().values()]
    plain = (np.ones([2, 4]) @ weights[1] + weights[2]) @ weights[3] + weights[4]
    np.testing.assert_allclose(outs[0], plain, rtol=1e-5)
    assert ((np.abs(outs[1]) < 1e-7) | np.isclose(outs[1], 2 * plain, rtol=1e-5)).all()


def test_a_parameter_used_twice_is_one():
    shared = nn.Linear(3, 3)
    net = nn.Sequential(shared, nn.Tanh(), shared)
    assert len(net.parameters()) == 2
    x = static.data('x', [2, 3], 'float32')
    loss = paddle.mean(net(x))
    grads = static.append_backward(loss)
    assert sorted(p.name for p, _ in grads) == ['linear_0.b_0', 'linear_0.w_0']


def test_states_go_from_layer_to_layer():
    one, two = nn.Linear(4, 3), nn.Linear(4, 3)
    run([])
    values = {key: np.array(var.get_value()) + 1 for key, var in one.state_dict().items()}
    with pytest.warns(UserWarning, match='bias is not loaded'):
        missing, unexpected = two.set_state_dict({'weight': values['weight'], 'other': np.ones(1)})
    assert missing == ['bias'] and unexpected == ['other']
    np.testing.assert_array_equal(np.array(two.weight.get_value()), values['weight'])
    with pytest.raises(ValueError, match='has shape'):
        two.set_state_dict({'weight': np.ones([2, 2], 'float32'), 'bias': values['bias']})


def test_hooks():
    layer, seen = nn.ReLU(), []
    before = layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0] * 2.0,))
    layer.register_forward_post_hook(lambda layer, inputs, output: seen.append(output) or output + 1.0)
    x = paddle.to_tensor([-1.0, 3.0])
    doubled = layer(x)
    before.remove()
    plain = layer(x)
    outs = run([doubled, plain])
    assert outs[0].tolist() == [1.0, 7.0] and outs[1].tolist() == [1.0, 4.0] and len(seen) == 2


def test_containers():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(net) == 3 and isinstance(net[1], nn.ReLU) and len(net[:2]) == 2
    layers = nn.LayerList([nn.ReLU() for _ in range(2)])
    layers.insert(1, nn.Tanh())
    layers.extend([nn.Sigmoid()])
    assert [type(layer).__name__ for layer in layers] == ['ReLU', 'Tanh', 'ReLU', 'Sigmoid']
    del layers[0]
    assert isinstance(layers[0], nn.Tanh) and isinstance(layers[-1], nn.Sigmoid)
    with pytest.raises(IndexError, match='there are 3'):
        layers[3]
    named = nn.LayerDict({'a': nn.ReLU()})
    named['b'] = nn.Tanh()
    assert list(named.keys()) == ['a', 'b'] and 'a' in named and isinstance(named.pop('b'), nn.Tanh)


def test_batch_norm_moves_its_statistics():
    x = static.data('x', [None, 3, 2, 2], 'float32')
    norm = nn.BatchNorm2D(3, momentum=0.8)
    out = norm(x)
    test = static.default_main_program().clone(for_test=True)
    images = np.random.RandomState(1).rand(5, 3, 2, 2).astype('float32')
    run([out], {'x': images})
    mean = images.mean((0, 2, 3))
    np.testing.assert_allclose(np.array(norm._mean.get_value()), 0.2 * mean, rtol=1e-5)
    before = np.array(norm._variance.get_value())
    found, = static.Executor().run(test, feed={'x': images}, fetch_list=[out])
    np.testing.assert_allclose(found, (images - 0.2 * mean[:, None, None]) / np.sqrt(before[:, None, None] + 1e-5),
                               rtol=1e-4)
    np.testing.assert_array_equal(np.array(norm._variance.get_value()), before)


def test_sync_batch_norm_takes_the_place_of_batch_norm():
    net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.Sequential(nn.BatchNorm2D(4)))
    weight = net[1][0].weight
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert isinstance(net[1][0], nn.SyncBatchNorm) and net[1][0].weight is weight


def test_a_decoder_with_caches_gives_what_it_gives_at_once():
    layer = nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0)
    decoder = nn.TransformerDecoder(layer, 2)
    x, memory = static.data('x', [2, 3, 6], 'float32'), static.data('m', [2, 4, 6], 'float32')
    mask = paddle.to_tensor(np.triu(np.full([3, 3], -1e9, 'float32'), 1))
    whole = decoder(x, memory, tgt_mask=mask)
    cache, steps = None, []
    for place in range(3):
        if cache is None:
            cache = decoder.gen_cache(memory)
        out, cache = decoder(x[:, place:place + 1], memory, cache=cache)
        steps.append(out)
    random = np.random.RandomState(0)
    feed = {'x': random.rand(2, 3, 6).astype('float32'), 'm': random.rand(2, 4, 6).astype('float32')}
    at_once, by_steps = run([whole, paddle.concat(steps, 1)], feed)
    np.testing.assert_allclose(by_steps, at_once, rtol=1e-4, atol=1e-5)


def test_dropout_along_axes():
    x = static.data('x', [None, 40, 3], 'float32')  # 40: all alike once in 2^39 runs
    outs = run([F.dropout(x, 0.5, axis=1), F.dropout2d(paddle.unsqueeze(x, 3), 0.5)], {'x': np.ones([64, 40, 3], 'float32')})
    rows, maps = outs[0], outs[1][..., 0]
    assert set(np.unique(rows)) == {0.0, 2.0} and (rows == rows[:1, :, :1]).all()
    assert (maps == maps[:, :, :1]).all() and 0.3 < (maps == 0).mean() < 0.7
    with pytest.raises(ValueError, match='between 0 and 1'):
        F.dropout(x, 1.5)


def test_indices_of_2_x():
    x = static.data('x', [3, 4], 'float32')
    values = np.arange(12, dtype='float32').reshape(3, 4)
    rows, mask = paddle.to_tensor(np.array([2, 0])), x > 4.5
    outs = run([x[None, 1], x[:, None, 1:3], x[..., 0, None], x[rows], x[[2, 0]], x[mask], x.T, x[x[:, 0] > 3.0]],
               {'x': values})
    wanted = [values[None, 1], values[:, None, 1:3], values[..., 0, None], values[[2, 0]], values[[2, 0]],
              values[values > 4.5], values.T, values[1:]]
    for out, right in zip(outs, wanted):
        assert out.shape == right.shape
        np.testing.assert_array_equal(out, right)
    with pytest.raises(NotImplementedError, match='paddle.where'):
        x[0] = 1.0


def test_operators_of_2_x():
    x, y = static.data('x', [None, 3], 'float32'), static.data('y', [None, 1], 'float32')
    n = static.data('n', [None], 'int64')
    truth = x > 1.0
    values = np.array([[0, 1, 2], [3, 4, 5]], 'float32')
    outs = run([x + y, y - x, n / 2, n // 2, -n % 3, truth & (x < 4.0), truth | (x < 0.5), ~truth, abs(-x), x @ x.T],
               {'x': values, 'y': values[:, :1], 'n': np.array([3, 5, 8])})
    wanted = [values + values[:, :1], values[:, :1] - values, [1.5, 2.5, 4.0], [1, 2, 4], [0, 1, 1],
              (values > 1) & (values < 4), (values > 1) | (values < 0.5), values <= 1, values, values @ values.T]
    for out, right in zip(outs, wanted):
        np.testing.assert_allclose(out, right)


def test_covariances_and_powers():
    values = np.random.RandomState(2).rand(3, 6).astype('float32')
    x = paddle.to_tensor(values)
    outs = run([paddle.linalg.cov(x), paddle.linalg.cov(x, rowvar=False, ddof=False), paddle.index_fill(x, paddle.to_tensor(
        np.array([0, 4])), 1, 9.0)])
    np.testing.assert_allclose(outs[0], np.cov(values), rtol=1e-4)
    np.testing.assert_allclose(outs[1], np.cov(values, rowvar=False, ddof=0), rtol=1e-4)
    values[:, [0, 4]] = 9
    np.testing.assert_array_equal(outs[2], values)


def test_initializers_of_2_x():
    square = nn.Linear(5, 3, weight_attr=nn.initializer.Orthogonal(gain=2.0))
    conv = nn.Conv2D(2, 4, 3, weight_attr=nn.initializer.Dirac(groups=2), groups=1, bias_attr=False)
    nn.initializer.set_global_initializer(nn.initializer.Constant(0.25), nn.initializer.Constant(0.5))
    try:
        plain = nn.Linear(2, 2)
    finally:
        nn.initializer.set_global_initializer(None)
    assert plain.weight.name == 'linear_1.w_0'
    run([])
    q = np.array(square.weight.get_value())
    np.testing.assert_allclose(q.T @ q, 4 * np.eye(3), atol=1e-5)
    filters = np.array(conv.weight.get_value())
    assert filters.sum() == 4 and filters[2, 0, 1, 1] == 1 and filters[3, 1, 1, 1] == 1
    assert (np.array(plain.weight.get_value()) == 0.25).all() and (np.array(plain.bias.get_value()) == 0.5).all()


def test_summary_counts_parameters(capsys):
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1D(3))
    assert paddle.summary(net) == {'total_params': 15 + 12, 'trainable_params': 15 + 6}
    assert '0.weight' in capsys.readouterr().out


X = [None, 3, 8, 8]


@pytest.mark.parametrize('wrong, message', [
    (lambda x: F.conv2d(x, paddle.ones([4, 2, 3, 3])), '3 channels, and the filter'),
    (lambda x: nn.Conv2D(3, 4, 3, groups=2), 'cannot be cut into 2 groups'),
    (lambda x: nn.Conv2D(3, 4, 3, padding_mode='mirror'), 'padding_mode'),
    (lambda x: F.linear(x, paddle.ones([5, 2])), 'the weight'),
    (lambda x: nn.BatchNorm1D(3)(x), 'BatchNorm1D takes 2 or 3 dimensions'),
    (lambda x: nn.MultiHeadAttention(7, 2), 'cannot be cut into 2 heads'),
    (lambda x: nn.LSTM(3, 4, direction='backward'), "'forward' or 'bidirect'"),
    (lambda x: nn.LSTMCell(3, 0), 'hidden_size'),
    (lambda x: F.pad(x, [1, 2, 3]), '3 numbers'),
    (lambda x: F.interpolate(x), 'size or scale_factor'),
    (lambda x: F.interpolate(x, size=[4, 4], mode='lanczos'), 'lanczos'),
    (lambda x: F.cross_entropy(x, x, reduction='max'), 'reduction'),
    (lambda x: nn.MSELoss('max'), 'reduction'),
    (lambda x: nn.Embedding(4, 3, padding_idx=4), 'padding_idx is 4'),
    (lambda x: F.layer_norm(x, [7]), 'not the end of the shape'),
    (lambda x: nn.GroupNorm(2, 3), 'cannot be cut'),
    (lambda x: paddle.expand(x, [2, 5, 8, 8]), 'only extents of 1'),
    (lambda x: paddle.einsum('ij,jk->ik', x, x), 'does not fit'),
    (lambda x: nn.SimpleRNNCell(3, 4, activation='sigmoid'), "'tanh' or 'relu'"),
    (lambda x: paddle.flatten(x, 2, 1), 'behind stop_axis'),
    (lambda x: paddle.where(x > 0, x), 'give x and y'),
    (lambda x: nn.initializer.calculate_gain('gelu'), 'no gain is known'),
    (lambda x: paddle.optimizer.AdamW(0.1, weight_decay='much'), 'must be a number'),
])
def test_wrong_uses_say_what_is_wrong(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        wrong(static.data('x', X, 'float32'))


@pytest.mark.parametrize('dynamic, instead', [
    (lambda: paddle.disable_static(), 'enable_static'),
    (lambda: paddle.grad(None, None), 'static.gradients'),
    (lambda: paddle.Model(None), 'Executor'),
    (lambda: paddle.amp.auto_cast().__enter__(), 'static.amp.decorate'),
    (lambda: paddle.amp.GradScaler(), 'static.amp.decorate'),
    (lambda: nn.Linear(2, 2).to('gpu'), 'Executor'),
    (lambda: paddle.optimizer.SGD(0.1).step(), 'minimize'),
    (lambda: paddle.optimizer.LBFGS(), 'Adam'),
    (lambda: static.data('x', [2], 'float32').item(), 'Executor.run'),
    (lambda: F.rnnt_loss(), 'ctc_loss'),
    (lambda: paddle.linalg.svd(None), 'numpy'),
    (lambda: F.interpolate(static.data('x', X, 'float32'), size=[4, 4], mode='bicubic'), 'bilinear'),
])
def test_what_needs_dynamic_mode_says_what_to_use(dynamic, instead):
    with pytest.raises(NotImplementedError, match=instead):
        dynamic()


def test_pools_of_volumes_say_where_their_numbers_were(exe):
    x = static.data('x', [2, 3, 4, 4, 6])
    largest, where = F.max_pool3d(x, 2, return_mask=True)
    also, there = F.adaptive_max_pool3d(x, [2, 2, 3], return_mask=True)
    numbers = np.random.rand(2, 3, 4, 4, 6).astype('float32')
    found = exe.run(feed={'x': numbers}, fetch_list=[largest, where, also, there, F.max_unpool3d(largest, where, 2)])
    windows = numbers.reshape(2, 3, 2, 2, 2, 2, 3, 2).max((3, 5, 7))
    flat = numbers.reshape(2, 3, -1)
    for values, places in (found[:2], found[2:4]):
        np.testing.assert_array_equal(values, windows)
        np.testing.assert_array_equal(np.take_along_axis(flat, places.reshape(2, 3, -1).astype(int), 2).reshape(windows.shape),
                                      windows)
    is_largest = numbers == windows.repeat(2, 2).repeat(2, 3).repeat(2, 4)
    np.testing.assert_array_equal(found[4], np.where(is_largest, numbers, 0))


def test_medians_and_quantiles_without_what_is_no_number():
    numbers = np.random.RandomState(1).randn(4, 5).astype('float32')
    numbers[numbers > 0.8] = np.nan
    numbers[2], numbers[0, 0] = np.nan, np.inf
    x = static.data('x', [4, 5])
    found = run([paddle.nanmedian(x), paddle.nanmedian(x, 1), paddle.nanmedian(x, 0, keepdim=True),
                 paddle.nanquantile(x, 0.3, 1), paddle.nanquantile(x, [0.0, 1.0], 0)], {'x': numbers})
    exact = numbers.astype('float64')
    with np.errstate(all='ignore'), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        wanted = [np.nanmedian(exact), np.nanmedian(exact, 1), np.nanmedian(exact, 0, keepdims=True),
                  np.nanquantile(exact, 0.3, 1), np.nanquantile(exact, [0, 1], 0)]
    for mine, known in zip(found, wanted):
        np.testing.assert_allclose(mine, np.reshape(known, mine.shape), rtol=1e-6)
    with pytest.raises(ValueError, match='q must be between 0 and 1'):
        paddle.nanquantile(x, 2)
    with pytest.raises(NotImplementedError, match='several dimensions'):
        paddle.nanmedian(x, [0, 1])


def test_common_divisors_and_multiples():
    x, y = static.data('x', [None, 3], 'int64'), static.data('y', [3], 'int64')
    ours = np.array([[12, 0, -18], [7, 2 ** 40 + 6, 0]])
    other = np.array([18, 0, 24])
    divisors, multiples = run([paddle.gcd(x, y), paddle.lcm(x, y)], {'x': ours, 'y': other})
    assert divisors.tolist() == np.gcd(ours, other).tolist() and multiples.tolist() == np.lcm(ours, other).tolist()
    big, = run([paddle.gcd(x, y)], {'x': np.full((1, 3), 2 ** 53 + 1), 'y': np.full(3, 3 * (2 ** 53 + 1))})
    assert big.tolist() == [[2 ** 53 + 1] * 3]
    with pytest.raises(TypeError, match='gcd takes int32 or int64'):
        paddle.gcd(static.data('z', [3]), y)
