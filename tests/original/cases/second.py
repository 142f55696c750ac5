"""Gradients of gradients: first ones, and those of the sum of their squares.

Of the ops here the original has them. It ends them in silence at others (tanh, sigmoid, matmul, concat).
"""
import paddle.fluid as fluid
from case import L, case


def _second(name, build, *inputs):
    """inputs: keyword arguments of Case.x; build: what is differentiated, of the variables."""
    def twice(c):
        c.gradients = False
        variables = [c.x(**arguments) for arguments in inputs]
        first = fluid.gradients(build(*variables), variables)
        total = L.sums([L.reduce_sum(L.square(g)) for g in first])
        second = fluid.gradients(total, variables)
        return first + [g for g in second if g is not None]
    twice.__module__ = __name__
    case(twice, 'second_of_' + name)


_plain = dict(shape=[3, 4], low=-2.0, high=2.0)
_positive = dict(shape=[3, 4], low=0.5, high=2.0)
_fixed = dict(shape=[4, 5], fixed=True)


def _cubed(x):
    return L.elementwise_mul(L.square(x), x)


_second('square', L.square, _plain)
_second('sqrt', lambda x: L.sqrt(x), _positive)
_second('relu', lambda x: L.square(L.relu(x)), _plain)
_second('leaky_relu', lambda x: L.square(L.leaky_relu(x, 0.2)), _plain)
_second('elu', lambda x: L.square(L.elu(x, 0.7)), _plain)
_second('mul', lambda x, y: _cubed(L.mul(x, y)), dict(shape=[3, 4]), _fixed)
_second('elementwise_add', lambda x, y: _cubed(L.elementwise_add(x, y)), _plain, dict(shape=[4], fixed=True))
_second('elementwise_sub', lambda x, y: _cubed(L.elementwise_sub(x, y)), _plain, _plain)
_second('elementwise_mul', lambda x, y: _cubed(L.elementwise_mul(x, y)), _plain, dict(shape=[4], fixed=True))
_second('elementwise_div', lambda x, y: _cubed(L.elementwise_div(x, y)), _plain, _positive)
_second('reduce_sum', lambda x: _cubed(L.reduce_sum(x, dim=1)), _plain)
_second('reduce_mean', lambda x: _cubed(L.reduce_mean(x, dim=[0])), _plain)
_second('reshape', lambda x: _cubed(L.reshape(x, [-1, 2])), _plain)
_second('expand', lambda x: _cubed(L.expand(x, [2, 1])), _plain)


@case
def second_of_conv2d(c):
    c.gradients = False
    x, weights = c.x([2, 3, 5, 5]), c.x([4, 3, 3, 3], fixed=True)
    block = fluid.default_main_program().global_block()
    out = block.create_var(name='convolved', dtype='float32', shape=[-1, 4, 5, 5])
    block.append_op(type='conv2d', inputs={'Input': [x], 'Filter': [weights]}, outputs={'Output': [out]},
                    attrs={'strides': [1, 1], 'paddings': [1, 1], 'dilations': [1, 1], 'groups': 1,
                           'use_cudnn': False, 'use_mkldnn': False, 'data_format': 'NCHW',
                           'padding_algorithm': 'EXPLICIT'})
    first = fluid.gradients(L.square(out), [x, weights])
    total = L.sums([L.reduce_sum(L.square(g)) for g in first])
    return first + fluid.gradients(total, [x, weights])
