"""Optimizers, averages and wrappers through their Python names."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

FEED = {'x': np.ones((2, 3), 'float32')}


def net():
    x = fluid.data('x', [None, 3])
    hidden = fluid.layers.fc(x, 4, act='tanh')
    return hidden, fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1)))


def weight():
    return np.array(fluid.global_scope().find_var('fc_0.w_0').get_tensor())


OPTIMIZERS = {
    'SGD': lambda: fluid.optimizer.SGD(0.1),
    'Momentum': lambda: fluid.optimizer.Momentum(0.05, 0.9, use_nesterov=True),
    'LarsMomentum': lambda: fluid.optimizer.LarsMomentum(0.05, 0.9),
    'Adagrad': lambda: fluid.optimizer.Adagrad(0.1),
    'DecayedAdagrad': lambda: fluid.optimizer.DecayedAdagrad(0.1),
    'Adadelta': lambda: fluid.optimizer.Adadelta(1.0, rho=0.5),
    'Adam': lambda: fluid.optimizer.Adam(0.05),
    'Adamax': lambda: fluid.optimizer.Adamax(0.05),
    'RMSProp': lambda: fluid.optimizer.RMSProp(0.01, centered=True),
    'Ftrl': lambda: fluid.optimizer.Ftrl(0.1),
    'Lamb': lambda: fluid.optimizer.Lamb(0.05),
    'paddle.Adam': lambda: paddle.optimizer.Adam(0.05, weight_decay=0.01),
    'paddle.SGD': lambda: paddle.optimizer.SGD(0.1, grad_clip=paddle.nn.ClipGradByNorm(1.0)),
}


@pytest.mark.parametrize('name', OPTIMIZERS)
def test_the_loss_falls(exe, fresh, name):
    main, startup = fresh
    startup.random_seed = 3
    _, loss = net()
    ops, pairs = OPTIMIZERS[name]().minimize(loss)
    assert len(pairs) == 4 and len(ops) >= 4
    exe.run(startup)
    losses = [exe.run(main, feed=FEED, fetch_list=[loss])[0].item() for _ in range(12)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize('make', [
    lambda: fluid.optimizer.ExponentialMovingAverage(0.9),
    lambda: fluid.optimizer.ModelAverage(0.5, min_average_window=2, max_average_window=4)])
def test_averages_are_applied_and_taken_back(exe, fresh, make):
    main, startup = fresh
    _, loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    average = make()
    if hasattr(average, 'update'):
        average.update()
    exe.run(startup)
    for _ in range(5):
        exe.run(main, feed=FEED)
    trained = weight()
    with average.apply(exe):
        assert not np.array_equal(weight(), trained)
    assert np.array_equal(weight(), trained)


def test_recompute_trains_as_without(exe, fresh):
    def trained(wrap):
        main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 5
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), \
                fluid.scope_guard(fluid.Scope()):
            hidden, loss = net()
            wrap(fluid.optimizer.SGD(0.1), hidden).minimize(loss)
            exe.run(startup)
            for _ in range(3):
                exe.run(main, feed=FEED)
            return weight()

    def recomputed(inner, hidden):
        optimizer = fluid.optimizer.RecomputeOptimizer(inner)
        optimizer._set_checkpoints([hidden])
        return optimizer
    assert np.array_equal(trained(lambda inner, hidden: inner), trained(recomputed))


def test_lookahead_and_error_clip(exe, fresh):
    main, startup = fresh
    hidden, loss = net()
    hidden.error_clip = fluid.clip.ErrorClipByValue(max=0.01)
    fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1), 0.5, 2).minimize(loss)
    assert 'clip' in [op.type for op in main.global_block().ops]
    exe.run(startup)
    exe.run(main, feed=FEED)
    assert set(main.state_dict('param')) == {'fc_0.w_0', 'fc_0.b_0', 'fc_1.w_0', 'fc_1.b_0'}


def test_wrong_rates_are_type_errors():
    with pytest.raises(TypeError):
        fluid.optimizer.SGD('fast')
    with pytest.raises(TypeError):
        paddle.optimizer.SGD('fast')


def test_append_lars_gives_every_parameter_a_rate_of_its_own():
    fluid.default_startup_program().random_seed = 7
    x = fluid.layers.data(name='x', shape=[3])
    hidden = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name='w', learning_rate=0.5), bias_attr=False)
    loss = fluid.layers.mean(fluid.layers.fc(hidden, 2, param_attr='v', bias_attr=False))
    sgd = fluid.optimizer.SGD(learning_rate=100.0)  # not used: every parameter has its own
    params_grads = sgd.backward(loss)
    rate = fluid.layers.fill_constant([1], 'float32', 0.1)
    fluid.layers.learning_rate_scheduler.append_LARS(params_grads, rate, weight_decay=0.25)
    sgd.apply_gradients(params_grads)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    names = [param.name for param, _ in params_grads]
    before = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in names}
    grads = exe.run(feed={'x': np.ones((5, 3), 'float32')}, fetch_list=[grad for _, grad in params_grads])
    for (param, _), grad, factor in zip(params_grads, grads, (0.5, 1.0)):
        assert isinstance(param.optimize_attr['learning_rate'], fluid.Variable)
        norm = np.linalg.norm(before[param.name])
        own = 0.1 * factor * norm / (np.linalg.norm(grad) + 0.25 * norm)
        np.testing.assert_allclose(np.array(fluid.global_scope().find_var(param.name).get_tensor()),
                                   before[param.name] - own * grad, rtol=1e-5)


def test_what_is_written_into_optimize_attr_stays():
    x = fluid.layers.data(name='x', shape=[3])
    fluid.layers.fc(x, 4, param_attr='w', bias_attr=False)
    w = fluid.default_main_program().global_block().var('w')
    w.optimize_attr['learning_rate'] = 0.25
    assert w.optimize_attr['learning_rate'] == 0.25
