"""Loops and branches, with gradients."""
import numpy as np

import paddle.fluid as fluid
from case import L, case


@case
def while_counts(c):
    i, limit = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 5)
    total = L.fill_constant([1], 'float32', 1.0)
    going = L.less_than(i, limit)
    with L.While(going).block():
        L.assign(L.scale(total, 1.5), total)
        L.increment(i, 1, in_place=True)
        L.less_than(i, limit, cond=going)
    return [total, i]


@case
def while_with_arrays_and_gradients(c):
    x = [c.x([2, 3]) for _ in range(3)]
    array, results = L.create_array('float32'), L.create_array('float32')
    for k, one in enumerate(x):
        L.array_write(one, L.fill_constant([1], 'int64', k), array)
    i, limit = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 3)
    i.stop_gradient = True
    memory = L.fill_constant([2, 3], 'float32', 0.5)
    memory.stop_gradient = False
    L.array_write(memory, i, results)
    going = L.less_than(i, limit)
    with L.While(going).block():
        read, before = L.array_read(array, i), L.array_read(results, i)
        now = L.tanh(L.elementwise_add(read, before))
        i = L.increment(i, 1, in_place=True)
        L.array_write(now, i, results)
        L.less_than(i, limit, cond=going)
    return L.array_read(results, limit)


@case
def while_loop(c):
    i, limit = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 4)
    x = c.x([2, 3], grad=False)
    i, out = L.while_loop(lambda i, y: L.less_than(i, limit),
                          lambda i, y: [L.increment(i), L.scale(y, 1.25)], [i, x])
    return [out]


@case
def cond_true(c):
    x, y = c.x([2, 3]), c.x([2, 3])
    return L.cond(L.less_than(L.reduce_mean(x), L.fill_constant([1], 'float32', 5.0)),
                  lambda: L.elementwise_add(x, y), lambda: L.elementwise_mul(x, y))


@case
def cond_false(c):
    x, y = c.x([2, 3]), c.x([2, 3])
    return L.cond(L.less_than(L.reduce_mean(x), L.fill_constant([1], 'float32', -5.0)),
                  lambda: L.elementwise_add(x, y), lambda: L.elementwise_mul(x, y))


@case
def cond_of_several(c):
    x, y = c.x([2, 3]), c.x([2, 3])
    pred = L.greater_than(L.reduce_sum(y), L.reduce_sum(x))
    return list(L.cond(pred, lambda: (L.tanh(x), L.fc(y, 2, param_attr='w', bias_attr=False)),
                       lambda: (L.sigmoid(x), L.fc(x, 2, param_attr='w', bias_attr=False))))


@case
def case_of_three(c):
    x = c.x([2, 3])
    total = L.reduce_sum(x)
    return L.case([(L.less_than(total, L.fill_constant([1], 'float32', -9.0)), lambda: L.scale(x, 2.0)),
                   (L.less_than(total, L.fill_constant([1], 'float32', 9.0)), lambda: L.tanh(x))],
                  default=lambda: L.square(x))


@case
def switch_case(c):
    x = c.x([2, 3])
    return L.switch_case(L.fill_constant([1], 'int32', 2),
                         {1: lambda: L.scale(x, 2.0), 2: lambda: L.square(x)}, default=lambda: L.tanh(x))


@case
def switch_case_default(c):
    x = c.x([2, 3])
    return L.switch_case(L.fill_constant([1], 'int32', 7),
                         {1: lambda: L.scale(x, 2.0), 2: lambda: L.square(x)}, default=lambda: L.tanh(x))


@case
def switch(c):
    step = c.given(np.array([3.0], 'float32'), fixed=True)
    rate = L.create_global_var([1], 0.0, 'float32', persistable=True, name='rate')
    with L.Switch() as choose:
        with choose.case(L.less_than(step, L.fill_constant([1], 'float32', 2.0))):
            L.assign(L.fill_constant([1], 'float32', 0.1), rate)
        with choose.case(L.less_than(step, L.fill_constant([1], 'float32', 5.0))):
            L.assign(L.fill_constant([1], 'float32', 0.01), rate)
        with choose.default():
            L.assign(L.fill_constant([1], 'float32', 0.001), rate)
    return L.scale(rate, 1.0)


@case
def if_else(c):
    x = c.x([5, 3])
    first = L.slice(x, axes=[1], starts=[0], ends=[1])
    branches = L.IfElse(L.less_than(first, L.fill_constant_batch_size_like(first, [-1, 1], 'float32', 0.0)))
    with branches.true_block():
        branches.output(L.scale(branches.input(x), 3.0))
    with branches.false_block():
        branches.output(L.fc(branches.input(x), 3, param_attr='w', act='tanh'))
    return branches()


@case
def if_else_trained(c):
    x, y = c.x([6, 3]), c.x([6, 1])
    first = L.slice(x, axes=[1], starts=[0], ends=[1])
    branches = L.IfElse(L.less_than(first, L.fill_constant_batch_size_like(first, [-1, 1], 'float32', 0.0)))
    with branches.true_block():
        branches.output(L.fc(branches.input(x), 1))
    with branches.false_block():
        branches.output(L.fc(L.fc(branches.input(x), 4, act='relu'), 1))
    out, = branches()
    return c.train(L.reduce_mean(L.square_error_cost(out, y)))


@case
def nested_cond_trained(c):
    x, y = c.x([4, 3]), c.x([4, 1])
    hidden = L.fc(x, 3)
    total = L.reduce_sum(x)
    total.stop_gradient = True

    def inner():
        return L.cond(L.less_than(total, L.fill_constant([1], 'float32', 0.5)), lambda: L.tanh(hidden),
                      lambda: L.sigmoid(hidden))
    chosen = L.cond(L.less_than(total, L.fill_constant([1], 'float32', 2.0)), inner, lambda: L.relu(hidden))
    return c.train(L.reduce_mean(L.square_error_cost(L.fc(chosen, 1), y)))


@case
def array_of_tensors(c):
    x = c.x([2, 3])
    array = L.create_array('float32')
    zero, one = L.fill_constant([1], 'int64', 0), L.fill_constant([1], 'int64', 1)
    L.array_write(x, zero, array)
    L.array_write(L.scale(x, 2.0), one, array)
    return [L.elementwise_mul(L.array_read(array, zero), L.array_read(array, one)), L.array_length(array)]


@case
def py_func(c):
    x = c.x([2, 3])
    out = fluid.default_main_program().current_block().create_var(name='made', dtype='float32', shape=[-1, 3])
    return L.py_func(lambda a: np.array(a) * 2.0, x, out,
                     backward_func=lambda a, b, g: np.array(g) * 2.0)
