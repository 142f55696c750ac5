"""Comparisons and truth values of 2.4."""
import _trireme as _C

from .._style import one, static_style

__all__ = ['equal', 'not_equal', 'less_than', 'less_equal', 'greater_than', 'greater_equal', 'equal_all', 'allclose',
           'isclose', 'logical_and', 'logical_or', 'logical_not', 'logical_xor', 'bitwise_and', 'bitwise_or',
           'bitwise_xor', 'bitwise_not', 'is_empty', 'is_tensor']


def _compare(op):
    @static_style
    def function(x, y, name=None):
        if not isinstance(y, _C.Variable):
            y = _C.fill_constant([1], x.dtype, y)
        return _C.compare(op, x, y)
    function.__name__ = op
    function.__doc__ = f'{op}, element by element; a bool variable.'
    return function


equal = _compare('equal')
not_equal = _compare('not_equal')
less_than = _compare('less_than')
less_equal = _compare('less_equal')
greater_than = _compare('greater_than')
greater_equal = _compare('greater_equal')


@static_style
def equal_all(x, y, name=None):
    """Whether all elements are equal."""
    if len(x.shape) != len(y.shape):
        return _C.fill_constant([1], 'bool', False)
    return _C.reduce('reduce_all', _C.compare('equal', x, y), None, False, name)


@static_style
def allclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False, name=None):
    """Whether all elements are nearly equal."""
    return one('allclose', {'Input': x, 'Other': y}, {'rtol': rtol, 'atol': atol, 'equal_nan': equal_nan}, name)


@static_style
def isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False, name=None):
    """Whether |x - y| <= atol + rtol * |y|, element by element."""
    apart = one('abs', {'X': _C.elementwise('elementwise_sub', x, y, -1, None, None)})
    near = _C.compare('less_equal', apart, _C.scale(one('abs', {'X': y}), rtol, atol))
    near = _C.logical_or(near, _C.compare('equal', x, y))  # infinities
    if equal_nan:
        near = _C.logical_or(near, _C.logical_and(_C.compare('not_equal', x, x), _C.compare('not_equal', y, y)))
    return near


def _truth(x):
    return x if _C.dtype_name(x.dtype) == 'bool' else _C.cast(x, 'bool')


@static_style
def logical_and(x, y, out=None, name=None):
    return _C.logical_and(_truth(x), _truth(y), out)


@static_style
def logical_or(x, y, out=None, name=None):
    return _C.logical_or(_truth(x), _truth(y), out)


@static_style
def logical_not(x, out=None, name=None):
    return _C.logical_not(_truth(x), out)


@static_style
def logical_xor(x, y, out=None, name=None):
    found = one('logical_xor', {'X': _truth(x), 'Y': _truth(y)}, {}, name)
    return found if out is None else _C.assign(found, out)


def _bits(op, logical):
    @static_style
    def function(x, y=None, out=None, name=None):
        if _C.dtype_name(x.dtype) != 'bool':
            raise NotImplementedError(f'{op} of {_C.dtype_name(x.dtype)} is not built in Trireme: it is there for bool')
        operands = (x,) if op == 'bitwise_not' else (x, y)
        return logical(*operands, out=out)
    function.__name__ = op
    function.__doc__ = f'{op} of truth values.'
    return function


bitwise_and = _bits('bitwise_and', logical_and)
bitwise_or = _bits('bitwise_or', logical_or)
bitwise_xor = _bits('bitwise_xor', logical_xor)


@static_style
def bitwise_not(x, out=None, name=None):
    """The other truth value."""
    return _bits('bitwise_not', logical_not)(x, None, out)


@static_style
def is_empty(x, name=None):
    """Whether x has no elements."""
    return one('is_empty', {'X': x}, {}, name)


def is_tensor(x):
    """Whether x is a variable of a program."""
    return isinstance(x, _C.Variable)
