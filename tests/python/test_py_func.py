"""py_func and Print."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers


def output(name, shape, dtype='float32'):
    return fluid.default_main_program().current_block().create_var(name=name, shape=shape, dtype=dtype)


def test_a_python_function_runs_with_its_gradient(exe, fresh):
    x = fluid.data('x', [None, 2])
    x.stop_gradient = False
    out = output('out', [-1, 2])
    seen = []

    def back(x, y, dy):
        seen.append([np.array(t).tolist() for t in (x, y, dy)])
        return np.array(dy) * 2 * np.array(x)

    assert layers.py_func(lambda x: np.array(x) ** 2, x, out, back) is out
    loss = layers.reduce_sum(out)
    grad, = fluid.gradients(loss, x)
    got = exe.run(feed={'x': np.array([[1, 3]], 'float32')}, fetch_list=[out, grad])
    assert got[0].tolist() == [[1, 9]] and got[1].tolist() == [[2, 6]]
    assert seen == [[[[1, 3]], [[1, 9]], [[1, 1]]]]


def test_skipped_variables_do_not_reach_the_gradient(exe, fresh):
    x = fluid.data('x', [None, 2])
    x.stop_gradient = False
    out = output('out', [-1, 2])
    layers.py_func(np.tanh, x, out, lambda y, dy: np.array(dy) * (1 - np.array(y) ** 2),
                   skip_vars_in_backward_input=x)
    grad, = fluid.gradients(layers.reduce_sum(out), x)
    data = np.array([[0.5, -1]], 'float32')
    got, = exe.run(feed={'x': data}, fetch_list=[grad])
    np.testing.assert_allclose(got, 1 - np.tanh(data) ** 2, rtol=1e-6)
    with pytest.raises(ValueError, match='neither in x nor in out'):
        layers.py_func(np.tanh, x, out, np.tanh, skip_vars_in_backward_input='other')


def test_what_the_function_raises_is_what_run_raises(exe, fresh):
    problem = KeyError('mine')

    def fail(x):
        raise problem

    x = fluid.data('x', [None, 2])
    layers.py_func(fail, x, output('out', [-1, 2]))
    with pytest.raises(KeyError) as raised:
        exe.run(feed={'x': np.ones((1, 2), 'float32')}, fetch_list=['out'])
    assert raised.value is problem


def test_a_function_may_look_without_a_result_and_keep_what_it_saw(exe, fresh):
    x = fluid.data('x', [None, 2])
    y = x * 2.0
    kept = []
    layers.py_func(kept.append, y, None)
    out = y + 1.0
    for i in range(2):
        exe.run(feed={'x': np.full((1, 2), i, 'float32')}, fetch_list=[out])
    assert [np.array(t).tolist() for t in kept] == [[[0, 0]], [[2, 2]]]


def test_a_wrong_number_of_results_is_named(exe, fresh):
    x = fluid.data('x', [None, 2])
    layers.py_func(lambda x: (1, 2), x, output('out', [-1, 2]))
    with pytest.raises(ValueError, match='returned 2 values for 1 outputs'):
        exe.run(feed={'x': np.ones((1, 2), 'float32')}, fetch_list=['out'])
    with pytest.raises(TypeError, match='must be a function'):
        layers.py_func(3, x, x)


def test_print_shows_the_value_and_its_gradient(exe, fresh, capfd):
    x = fluid.data('x', [2])
    x.stop_gradient = False
    out = layers.Print(x, message='here', summarize=1, first_n=1)
    grad, = fluid.gradients(layers.reduce_sum(out), x)
    for _ in range(2):
        exe.run(feed={'x': np.array([1, 2], 'float32')}, fetch_list=[out, grad])
    text = capfd.readouterr().out
    assert text.count('message: here') == 2  # the value once, the gradient once
    assert 'shape: [2]' in text and 'data: [1]' in text


def test_static_names_it_too(exe):
    x, out = fluid.data('x', [2]), output('out', [2])
    for function in (paddle.static.py_func, paddle.static.nn.py_func):
        assert function(lambda x: np.array(x) + 1, x, out) is out
        assert exe.run(feed={'x': np.float32([1, 2])}, fetch_list=[out])[0].tolist() == [2, 3]
