"""Layers of element by element arithmetic and comparison."""
import _trireme as _C

from .apply import one

__all__ = ['elementwise_add', 'elementwise_sub', 'elementwise_mul', 'elementwise_div',
           'elementwise_max', 'elementwise_min', 'elementwise_pow', 'elementwise_mod',
           'elementwise_floordiv', 'less_than', 'less_equal', 'greater_than', 'greater_equal',
           'equal', 'not_equal', 'logical_xor', 'sum', 'pow', 'relu6', 'hard_sigmoid']


def _elementwise(op):
    def layer(x, y, axis=-1, act=None, name=None):
        return _C.elementwise(op, x, y, axis, act, name)
    layer.__name__, layer.__doc__ = op, f"{op}: y's dimensions meet x's from axis on."
    return layer


def _compare(op):
    def layer(x, y, force_cpu=None, cond=None, name=None):
        if isinstance(force_cpu, _C.Variable):  # all but less_than take (x, y, cond)
            force_cpu, cond = None, force_cpu
        return _C.compare(op, x, y, cond)
    layer.__name__, layer.__doc__ = op, f'{op}, element by element; a bool variable.'
    return layer


elementwise_add = _elementwise('elementwise_add')
elementwise_sub = _elementwise('elementwise_sub')
elementwise_mul = _elementwise('elementwise_mul')
elementwise_div = _elementwise('elementwise_div')
elementwise_max = _elementwise('elementwise_max')
elementwise_min = _elementwise('elementwise_min')
elementwise_pow = _elementwise('elementwise_pow')
elementwise_mod = _elementwise('elementwise_mod')
elementwise_floordiv = _elementwise('elementwise_floordiv')
less_than = _compare('less_than')
less_equal = _compare('less_equal')
greater_than = _compare('greater_than')
greater_equal = _compare('greater_equal')
equal = _compare('equal')
not_equal = _compare('not_equal')


def logical_xor(x, y, out=None, name=None):
    found = one('logical_xor', {'X': x, 'Y': y}, name=name)
    return found if out is None else _C.assign(found, out)


def sum(x):
    """The sum of several tensors."""
    return _C.apply('sum', {'X': x}, {}, layer='sum')['Out'][0]


def pow(x, factor=1.0, name=None):
    if isinstance(factor, _C.Variable):
        return one('pow', {'X': x, 'FactorTensor': factor}, name=name)
    return one('pow', {'X': x}, {'factor': factor}, name)


def relu6(x, threshold=6.0, name=None):
    return one('relu6', {'X': x}, {'threshold': threshold}, name)


def hard_sigmoid(x, slope=0.2, offset=0.5, name=None):
    return one('hard_sigmoid', {'X': x}, {'slope': slope, 'offset': offset}, name)
