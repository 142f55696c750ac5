"""Operators on variables: x + y, x * 2, x < y, x[1:3], x.astype('int64')."""
import _trireme as _C
from _trireme import Variable

from .. import framework


def _binary(op, reverse):
    def method(self, other):
        before = _C.use_static_style(framework._print_as_2_4)
        try:
            return _C.math_op(op, self, other, reverse)
        finally:
            _C.use_static_style(before)
    return method


def _division(op):
    """x // y and x % y: 2.x rounds integers down, 1.8 towards 0."""
    def method(self, other):
        found = _C.math_op(op, self, other, False)
        if framework._print_as_2_4:
            found.block.ops[-1]._set_attr('rounds_down', True)
        return found
    return method


_OPERATORS = {
    '__add__': ('elementwise_add', False), '__radd__': ('elementwise_add', True),
    '__sub__': ('elementwise_sub', False), '__rsub__': ('elementwise_sub', True),
    '__mul__': ('elementwise_mul', False), '__rmul__': ('elementwise_mul', True),
    '__truediv__': ('elementwise_div', False), '__rtruediv__': ('elementwise_div', True),
    '__div__': ('elementwise_div', False), '__rdiv__': ('elementwise_div', True),
    '__pow__': ('elementwise_pow', False), '__rpow__': ('elementwise_pow', True),
    '__eq__': ('equal', False), '__ne__': ('not_equal', False),
    '__lt__': ('less_than', False), '__le__': ('less_equal', False),
    '__gt__': ('greater_than', False), '__ge__': ('greater_equal', False),
}


def _astype(self, dtype):
    """This variable cast to another element type."""
    return _C.cast(self, dtype)


def _matmul(self, other):
    return _C.apply('matmul_v2', {'X': self, 'Y': other}, {}, layer='matmul_v2')['Out'][0]


def _set_operator(name, method):
    method.__name__, method.__qualname__ = name, f'Variable.{name}'
    setattr(Variable, name, method)


def monkey_patch_variable():
    for name, (op, reverse) in _OPERATORS.items():
        _set_operator(name, _binary(op, reverse))
    _set_operator('__floordiv__', _division('elementwise_floordiv'))
    _set_operator('__mod__', _division('elementwise_mod'))
    # Assigning __eq__ does not take __hash__ away, but variables are told apart by identity.
    Variable.__hash__ = object.__hash__
    _set_operator('__neg__', lambda self: _C.negative(self))
    Variable.__matmul__ = _matmul
    _set_operator('__getitem__', lambda self, key: _C.index(self, key))
    Variable.astype = _astype
    Variable.__array_ufunc__ = None  # numpy leaves array + variable to the variable


def _not_iterable(self):
    raise TypeError(f'variable {self.name} cannot be iterated: its size is known when it runs')


Variable.__iter__ = _not_iterable
