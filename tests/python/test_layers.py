"""Layers: those that make parameters, those made from the op table, control flow, schedules."""
import inspect

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers


def value_of(exe, out, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=[out])[0]


def test_forwarding_layers_have_the_rows_signature_and_doc():
    assert str(inspect.signature(layers.leaky_relu)) == '(x, alpha=0.02, name=None)'
    assert str(inspect.signature(layers.tanh)) == '(x, name=None)'
    assert 'Args:' in layers.tanh.__doc__
    assert layers.tanh is layers.tanh
    with pytest.raises(AttributeError):
        layers.no_such_layer


def test_a_forwarding_layer_names_its_result(fresh, exe):
    x = fluid.data('x', [None, 2])
    out = layers.leaky_relu(x, 0.5)
    assert out.name == 'leaky_relu_0.tmp_0'
    assert layers.relu(x, name='mine').name == 'mine.tmp_0'
    assert value_of(exe, out, x=np.array([[-2, 2]], 'float32')).tolist() == [[-1, 2]]


def test_lenet_trains(exe, fresh):
    main, startup = fresh
    startup.random_seed = 1
    image = fluid.data('image', [None, 1, 12, 12])
    label = fluid.data('label', [None, 1], 'int64')
    conv = fluid.nets.simple_img_conv_pool(image, 4, 3, pool_size=2, pool_stride=2, act='relu')
    conv = layers.batch_norm(conv)
    predict = layers.fc(layers.dropout(conv, 0.1), 3, act='softmax')
    loss = layers.mean(layers.cross_entropy(predict, label))
    accuracy = layers.accuracy(predict, label)
    test = main.clone(for_test=True)
    fluid.optimizer.Adam(0.01).minimize(loss)
    exe.run(startup)
    rng = np.random.RandomState(0)
    labels = rng.randint(0, 3, (48, 1)).astype('int64')
    images = (rng.rand(48, 1, 12, 12) + labels[:, :, None, None]).astype('float32')
    feed = {'image': images, 'label': labels}
    losses = [exe.run(main, feed=feed, fetch_list=[loss])[0].item() for _ in range(30)]
    assert losses[-1] < losses[0] / 2
    assert exe.run(test, feed=feed, fetch_list=[accuracy])[0].item() > 0.6


def test_sparse_embedding_gradients_can_be_fetched(exe, fresh):
    main, startup = fresh
    ids = fluid.layers.data('ids', [1], dtype='int64')
    table = layers.embedding(ids, [10, 4], is_sparse=True, param_attr='table')
    loss = layers.mean(table)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(startup)
    rows, = exe.run(main, feed={'ids': np.array([[1], [3], [1]])}, fetch_list=['table@GRAD'],
                    return_numpy=False)
    assert isinstance(rows, fluid.core.SelectedRows) and rows.height() == 10
    assert sorted(set(rows.rows())) == [1, 3]


def test_sequences_of_words(exe, fresh):
    main, startup = fresh
    words = fluid.layers.data('words', [1], dtype='int64', lod_level=1)
    emb = fluid.layers.embedding(words, [20, 8])
    conv = fluid.nets.sequence_conv_pool(emb, num_filters=6, filter_size=3, act='tanh',
                                         pool_type='max')
    hidden, _ = layers.dynamic_lstm(layers.fc(emb, 16), 16)
    last = layers.sequence_last_step(hidden)
    exe.run(startup)
    tensor = fluid.create_lod_tensor([[1, 2, 3], [4]], [[3, 1]], fluid.CPUPlace())
    a, b = exe.run(main, feed={'words': tensor}, fetch_list=[conv, last])
    assert a.shape == (2, 6) and b.shape == (2, 4)


def test_switch_takes_the_first_case_that_holds(exe, fresh):
    main, startup = fresh
    step = fluid.data('step', [1])
    out = layers.create_global_var([1], 0.0, 'float32', persistable=True)
    two = layers.fill_constant([1], 'float32', 2.0)
    with layers.Switch() as switch:
        with switch.case(step < two):
            layers.assign(layers.fill_constant([1], 'float32', 10.0), out)
        with switch.default():
            layers.assign(layers.fill_constant([1], 'float32', 20.0), out)
    exe.run(startup)
    for value, wanted in ((1.0, 10.0), (3.0, 20.0)):
        assert exe.run(main, feed={'step': np.array([value], 'float32')},
                       fetch_list=[out])[0].item() == wanted


def test_a_schedule_of_ops_changes_the_rate(exe, fresh):
    main, startup = fresh
    x = fluid.data('x', [None, 2])
    rate = layers.piecewise_decay([2], [0.5, 0.25])
    loss = layers.mean(layers.fc(x, 1))
    fluid.optimizer.SGD(rate).minimize(loss)
    exe.run(startup)
    feed = {'x': np.ones((1, 2), 'float32')}
    rates = [exe.run(main, feed=feed, fetch_list=[rate])[0].item() for _ in range(4)]
    assert rates == [0.5, 0.5, 0.25, 0.25]


def test_a_schedule_on_the_host_changes_the_rate(exe, fresh):
    main, startup = fresh
    x = paddle.static.data('x', [None, 2])
    loss = paddle.mean(paddle.static.nn.fc(x, 1))
    schedule = paddle.optimizer.lr.StepDecay(0.5, step_size=1, gamma=0.5)
    paddle.optimizer.Momentum(schedule, 0.9).minimize(loss)
    exe.run(startup)
    rates = []
    for _ in range(3):
        rates.append(exe.run(main, feed={'x': np.ones((1, 2), 'float32')},
                             fetch_list=[main._scheduled_rate])[0].item())
        schedule.step()
    assert rates == [0.5, 0.25, 0.125]
    assert paddle.optimizer.lr.NoamDecay(64, 10)() >= 0


def test_gradients_and_clips(exe, fresh):
    main, startup = fresh
    x = fluid.data('x', [None, 2])
    x.stop_gradient = False
    y = layers.reduce_sum(x * x)
    grad, = fluid.gradients(y, x)
    assert value_of(exe, grad, x=np.array([[1, 2]], 'float32')).tolist() == [[2, 4]]
    with pytest.raises(TypeError):
        fluid.append_backward('loss')
    w = layers.fc(x, 1, bias_attr=False)
    clip = fluid.clip.GradientClipByGlobalNorm(1.0)
    ops, pairs = fluid.optimizer.SGD(0.1, grad_clip=clip).minimize(layers.mean(w))
    assert ops and pairs[0][1].name.endswith('@GRAD')


def test_clips_are_shown_as_they_are_made():
    clip = fluid.clip
    assert str(clip.GradientClipByValue(2.0, -0.5)) == 'GradientClipByValue(max=2, min=-0.5)'
    assert str(clip.GradientClipByNorm(1.5)) == 'GradientClipByNorm(clip_norm=1.5)'
    assert str(clip.GradientClipByGlobalNorm(3.0)) == 'GradientClipByGlobalNorm(clip_norm=3)'
    assert str(clip.ErrorClipByValue(2.0)) == 'ErrorClipByValue(max=2.0, min=-2.0)'


def test_layers_of_the_users_own(fresh, exe):
    from paddle.fluid.layer_helper import LayerHelper

    def doubled_fc(input, size, act=None, name=None):
        helper = LayerHelper('doubled_fc', **locals())
        w = helper.create_parameter(None, [input.shape[1], size], 'float32',
                                    default_initializer=fluid.initializer.Constant(1.0))
        out = helper.create_variable_for_type_inference('float32')
        helper.append_op(type='mul', inputs={'X': input, 'Y': w}, outputs={'Out': out})
        return helper.append_activation(out * 2.0)
    out = doubled_fc(fluid.data('x', [None, 3]), 2, act='relu')
    assert value_of(exe, out, x=np.ones((1, 3), 'float32')).tolist() == [[6, 6]]
    assert fluid.default_main_program().all_parameters()[0].name == 'doubled_fc_0.w_0'


def test_what_is_not_built_says_so():
    with pytest.raises(NotImplementedError):
        fluid.optimizer.DGCMomentumOptimizer(0.1, 0.9, 0)


def test_star_import_brings_every_layer():
    names = {}
    exec('from paddle.fluid.layers import *', names)
    assert {'fc', 'relu', 'elementwise_add', 'piecewise_decay', 'sequence_pool'} <= set(names)


def test_an_error_in_a_layer_made_of_an_op_names_the_users_line():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data('x', [None, 4])
        y = fluid.layers.log(x)  # the line
    fluid.set_flags({'FLAGS_check_nan_inf': True})
    try:
        with pytest.raises(RuntimeError, match=r'test_layers.py:\d+ .*\n.*y = fluid.layers.log\(x\)  # the line'):
            fluid.Executor(fluid.CPUPlace()).run(main, feed={'x': -np.ones((1, 4), 'float32')}, fetch_list=[y])
    finally:
        fluid.set_flags({'FLAGS_check_nan_inf': False})


def test_softshrink_and_log1p_take_the_arguments_of_1_8(exe, fresh):
    x = fluid.data('x', [3])
    out = layers.fill_constant([3], 'float32', 0.0)
    assert layers.log1p(x, out=out) is out
    found = exe.run(feed={'x': np.array([-2, 0.25, 3], 'float32') / 2},
                    fetch_list=[layers.softshrink(x), layers.softshrink(x, alpha=1.25)])
    np.testing.assert_array_equal(found, [[-0.5, 0, 1], [0, 0, 0.25]])
    found, = exe.run(feed={'x': np.array([0, 1, 3], 'float32')}, fetch_list=[out])
    np.testing.assert_allclose(found, np.log([1, 2, 4]), rtol=1e-6)


def test_randint_takes_the_arguments_of_1_8(exe, fresh):
    rows = layers.fill_constant([1], 'int64', 3)
    out = layers.fill_constant([400], 'int64', 9)
    drawn = [layers.randint(2, 5, [400]), layers.randint(4, shape=[400], dtype='int32'), layers.randint(7),
             layers.randint(0, 5, [rows, 2]), layers.randint(0, 5, [400], out=out)]
    assert drawn[4] is out
    found = exe.run(fetch_list=drawn)
    assert set(found[0]) == {2, 3, 4} and found[0].dtype == np.int64
    assert set(found[1]) == {0, 1, 2, 3} and found[1].dtype == np.int32
    assert found[2].shape == (1,) and found[3].shape == (3, 2)
    assert set(found[4]) == {0, 1, 2, 3, 4}
    with pytest.raises(ValueError, match='low is 5 and must be below high, 5'):
        layers.randint(5, 5)
    with pytest.raises(TypeError, match='int32 or int64, not float32'):
        layers.randint(5, dtype='float32')
    with pytest.raises(ValueError, match='device must be'):
        layers.randint(5, device='tpu')
