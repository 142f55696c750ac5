"""fluid.gradients of what fluid.gradients gave, and training through it."""
import numpy as np
import paddle.fluid as fluid
import pytest


@pytest.fixture(autouse=True)
def fresh():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), \
            fluid.scope_guard(fluid.Scope()):
        yield


def fetch(feed, *outs):
    return fluid.Executor(fluid.CPUPlace()).run(feed=feed, fetch_list=list(outs))


def cube():
    x = fluid.data('x', [3], 'float32')
    x.stop_gradient = False
    return x, fluid.layers.elementwise_mul(fluid.layers.square(x), x)


def test_the_second_gradient_of_a_cube():
    x, y = cube()
    first, = fluid.gradients([y], [x])
    second, = fluid.gradients([first], [x])
    at = np.array([1.0, -2.0, 0.5], 'float32')
    a, b = fetch({'x': at}, first, second)
    np.testing.assert_allclose(a, 3 * at ** 2, rtol=1e-6)
    np.testing.assert_allclose(b, 6 * at, rtol=1e-6)


def test_a_third_gradient_is_refused_by_name():
    x, y = cube()
    second, = fluid.gradients(fluid.gradients([y], [x]), [x])
    with pytest.raises(Exception, match='there is no gradient of .*_grad_grad'):
        fluid.gradients([second], [x])


def test_what_cannot_be_differentiated_twice_is_named():
    x = fluid.data('x', [2, 1, 4, 4], 'float32')
    x.stop_gradient = False
    y = fluid.layers.pool2d(x, 2, 'max')
    first, = fluid.gradients([fluid.layers.square(y)], [x])
    second = fluid.gradients([first], [x])
    with pytest.raises(Exception, match='pool2d_grad'):
        fetch({'x': np.arange(32, dtype='float32').reshape(2, 1, 4, 4)}, *second)


def penalised(critic, shape):
    """A loss with the squared length of the critic's gradient."""
    x = fluid.data('x', shape, 'float32')
    x.stop_gradient = False
    score = critic(x)
    gradient, = fluid.gradients([score], [x])
    return fluid.layers.reduce_mean(fluid.layers.square(gradient)) + 0.1 * fluid.layers.reduce_mean(score)


def dense(x):
    hidden = fluid.layers.tanh(fluid.layers.fc(x, size=5))
    return fluid.layers.fc(fluid.layers.layer_norm(hidden), size=1)


def pictures(x):
    hidden = fluid.layers.tanh(fluid.layers.conv2d(x, 3, 3, padding=1))
    hidden = fluid.layers.batch_norm(fluid.layers.conv2d(hidden, 4, 3, stride=2))
    return fluid.layers.fc(fluid.layers.sigmoid(hidden), size=1)


@pytest.mark.parametrize('critic, shape', [(dense, [4, 3]), (pictures, [3, 2, 5, 5])])
def test_parameters_get_the_gradients_of_a_penalty(critic, shape):
    startup, main = fluid.default_startup_program(), fluid.default_main_program()
    startup.random_seed = 3
    loss = penalised(critic, shape)
    pairs = fluid.backward.append_backward(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.global_scope()
    exe.run(startup)
    feed = {'x': np.random.RandomState(0).normal(size=shape).astype('float32')}
    analytic = exe.run(main, feed=feed, fetch_list=[g for _, g in pairs])
    checked = 0
    for (parameter, _), gradient in zip(pairs, analytic):
        tensor = scope.find_var(parameter.name).get_tensor()
        value = np.array(tensor)
        for i in np.random.RandomState(1).permutation(value.size)[:4]:
            found = []
            for step in (1e-2, -1e-2):
                moved = value.copy()
                moved.reshape(-1)[i] += step
                tensor.set(moved, fluid.CPUPlace())
                found.append(exe.run(main, feed=feed, fetch_list=[loss])[0].item())
            tensor.set(value, fluid.CPUPlace())
            numeric = (found[0] - found[1]) / 2e-2
            assert gradient.reshape(-1)[i] == pytest.approx(numeric, rel=0.03, abs=2e-3), parameter.name
            checked += 1
    assert checked > 10


def test_a_list_with_a_variable_that_wants_no_gradient():
    x, fixed = fluid.data('x', [2, 3], 'float32'), fluid.data('fixed', [2, 3], 'float32')
    x.stop_gradient = False
    joined = fluid.layers.concat([fixed, x], axis=0)
    first, = fluid.gradients([fluid.layers.square(joined) * joined], [x])
    second, = fluid.gradients([first], [x])
    at = np.arange(6, dtype='float32').reshape(2, 3)
    np.testing.assert_allclose(fetch({'x': at, 'fixed': at + 1}, second)[0], 6 * at, rtol=1e-6)
