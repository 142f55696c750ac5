"""Where 1.8 and 2.x compute differently, each surface follows its own version."""
import numpy as np

import paddle
import paddle.fluid as fluid


def step_of(adam, exe):
    """How far one step of Adam with a gradient of 0.1 moves a parameter."""
    weight = fluid.data('weight', [1], 'float32')
    parameter = fluid.layers.create_parameter([1], 'float32', name='p',
                                              default_initializer=fluid.initializer.Constant(0.5))
    adam.minimize(fluid.layers.elementwise_mul(weight, parameter))
    exe.run(fluid.default_startup_program())
    exe.run(feed={'weight': np.array([0.1], 'float32')})
    return float(np.array(fluid.global_scope().find_var('p').get_tensor())[0]) - 0.5


def test_fluids_adam_adds_epsilon_as_it_is(exe):
    # The number that PaddlePaddle 1.8.5 gives.
    assert np.isclose(step_of(fluid.optimizer.Adam(0.01, epsilon=0.01), exe), 0.49759748578 - 0.5, rtol=1e-4)


def test_adam_of_2_corrects_epsilon(exe):
    # The rule of the paper: the first step is rate * g / (|g| + epsilon).
    assert np.isclose(step_of(paddle.optimizer.Adam(0.01, epsilon=0.01), exe), -0.01 * 0.1 / 0.11, rtol=1e-4)


def divided(exe):
    x, y = fluid.data('x', [4], 'int64'), fluid.data('y', [4], 'int64')
    feed = {'x': np.array([7, -7, 7, -7]), 'y': np.array([2, 2, -2, -2])}
    return [list(found) for found in exe.run(feed=feed, fetch_list=[x // y, x % y])]


def test_integers_divide_towards_zero_in_fluid(exe, environment):
    assert divided(exe) == [[3, -3, -3, 3], [1, -1, 1, -1]]


def test_integers_divide_down_in_2(exe, environment):
    paddle.enable_static()
    assert divided(exe) == [[3, -4, -4, 3], [1, 1, -1, -1]]
