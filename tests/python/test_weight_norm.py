"""WeightNormParamAttr and GradientMergeOptimizer: parameters in two parts, updates every few steps."""
import numpy as np
import pytest

import paddle.fluid as fluid

PLACE = fluid.CPUPlace()


def value(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


@pytest.fixture
def built():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        yield main, startup


@pytest.mark.parametrize('dim, lengths', [(None, (1, 1)), (0, (5, 1)), (1, (1, 3))])
def test_training_begins_at_the_direction(built, dim, lengths):
    main, startup = built
    x = fluid.data('x', [None, 5])
    out = fluid.layers.fc(x, 3, bias_attr=False, param_attr=fluid.WeightNormParamAttr(dim=dim, name='w'))
    exe = fluid.Executor(PLACE)
    exe.run(startup)
    direction, length = value('w_v'), value('w_g')
    assert sorted(param.name for param in main.all_parameters()) == ['w_g', 'w_v'] and length.shape == lengths
    axes = tuple(axis for axis in (0, 1) if axis != dim)
    np.testing.assert_allclose(length, np.sqrt((direction**2).sum(axes)).reshape(lengths), rtol=1e-5)
    feed = {'x': np.random.rand(4, 5).astype('float32')}
    np.testing.assert_allclose(exe.run(main, feed=feed, fetch_list=[out])[0], feed['x'] @ direction, rtol=1e-4,
                               atol=1e-6)  # sums of five numbers that may cancel


def test_the_length_alone_scales_the_weight(built):
    main, startup = built
    x = fluid.data('x', [None, 2])
    attr = fluid.WeightNormParamAttr(dim=1, name='w', initializer=fluid.initializer.Constant(3.0))
    out = fluid.layers.fc(x, 2, bias_attr=False, param_attr=attr)
    exe = fluid.Executor(PLACE)
    exe.run(startup)
    fluid.global_scope().find_var('w_g').get_tensor().set(np.float32([[1, 2]]), PLACE)
    found, = exe.run(main, feed={'x': np.float32([[1, 0]])}, fetch_list=[out])
    np.testing.assert_allclose(found, [[np.sqrt(0.5), 2 * np.sqrt(0.5)]], rtol=1e-5)


def test_a_dimension_that_is_not_there(built):
    with pytest.raises(ValueError, match='dim 2'):
        fluid.layers.fc(fluid.data('x', [None, 2]), 2, param_attr=fluid.WeightNormParamAttr(dim=2))


def merged(k, average, batches, optimizer=lambda: fluid.optimizer.Momentum(0.1, 0.9)):
    """The weights after each batch."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x, y = fluid.data('x', [None, 3]), fluid.data('y', [None, 1])
        guess = fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr('w', fluid.initializer.Constant(0.5)), bias_attr=False)
        loss = fluid.layers.mean(fluid.layers.square(guess - y))
        inner = optimizer()
        if k:
            inner = fluid.optimizer.GradientMergeOptimizer(inner, k_steps=k, avg=average)
        inner.minimize(loss)
        exe = fluid.Executor(PLACE)
        exe.run(startup)
        weights = []
        for feed in batches:
            exe.run(main, feed=feed)
            weights.append(value('w').copy())
    return weights


def batches(count, rows=2):
    numbers = np.random.RandomState(5)
    return [{'x': numbers.rand(rows, 3).astype('float32'), 'y': numbers.rand(rows, 1).astype('float32')}
            for _ in range(count)]


def joined(parts, k):
    return [{name: np.concatenate([part[name] for part in parts[i:i + k]]) for name in 'xy'}
            for i in range(0, len(parts), k)]


@pytest.mark.parametrize('optimizer', [lambda: fluid.optimizer.Momentum(0.1, 0.9), lambda: fluid.optimizer.Adam(0.05),
                                       lambda: fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1))])
def test_merged_gradients_update_as_one_batch_does(optimizer):
    parts = batches(6)
    small = merged(3, True, parts, optimizer)
    whole = merged(0, True, joined(parts, 3), optimizer)
    np.testing.assert_array_equal(small[0], np.full((3, 1), 0.5, 'float32'))
    np.testing.assert_array_equal(small[3], small[2])
    np.testing.assert_allclose([small[2], small[5]], whole, rtol=1e-5)


def test_without_the_mean_gradients_add_up():
    parts = batches(2)
    def sgd():
        return fluid.optimizer.SGD(0.1)
    alone = [0.5 - merged(0, True, [part], sgd)[0] for part in parts]
    np.testing.assert_allclose(0.5 - merged(2, False, parts, sgd)[1], alone[0] + alone[1], rtol=1e-5)


def test_one_step_is_the_inner_optimizer():
    np.testing.assert_array_equal(merged(1, True, batches(3)), merged(0, True, batches(3)))


def test_what_cannot_be_merged(built):
    with pytest.raises(AssertionError, match='k_steps is 0'):
        fluid.optimizer.GradientMergeOptimizer(fluid.optimizer.SGD(0.1), 0)
    ids = fluid.data('ids', [None, 1], 'int64')
    loss = fluid.layers.mean(fluid.layers.embedding(ids, [9, 3], is_sparse=True))
    with pytest.raises((ValueError, RuntimeError), match='is_sparse=False'):
        fluid.optimizer.GradientMergeOptimizer(fluid.optimizer.SGD(0.1), 2).minimize(loss)
