"""Which release's habits a call follows where fluid 1.8 and paddle.static 2.4 differ."""
import functools
import operator

import _trireme as _C


def static_style(function):
    """Inside, layers behave as in 2.4: initializers are appended to the startup program, and so on."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        before = _C.use_static_style(True)
        try:
            return function(*args, **kwargs)
        finally:
            _C.use_static_style(before)
    return call


def unary(op, name=None):
    """A function of 2.4 that applies an op of one operand to every element."""
    name = name or op

    @static_style
    def function(x, name=None):
        return _C.apply(op, {'X': x}, {}, name, op)['Out'][0]
    function.__name__ = name
    function.__doc__ = f'{name}, element by element.'
    return function


def one(op, inputs, attrs=None, name=None, layer=None, out='Out'):
    """The first variable of the slot `out` of a new op; inputs and attributes that are None are left out."""
    inputs = {slot: given for slot, given in inputs.items() if given is not None}
    attrs = {key: value for key, value in (attrs or {}).items() if value is not None}
    return _C.apply(op, inputs, attrs, name, layer or op)[out][0]


def numbers(value, count, what):
    """One number for all dimensions, or one for each."""
    values = [value] * count if isinstance(value, int) else list(value)
    values = values * count if len(values) == 1 else values
    if len(values) != count:
        raise ValueError(f'{what} is {value!r}: give one number or {count}')
    return values


def check_axis(function, axis, x):
    """The number of a dimension of x, counted from the front; one that x does not have is an error."""
    rank = len(x.shape)
    try:
        axis = operator.index(axis)
    except TypeError:
        raise TypeError(f'{function}: axis must be a whole number, got {type(axis).__name__}') from None
    if not -rank <= axis < rank:
        raise ValueError(f'{function}: axis is {axis}, but {x.name} has {rank} dimensions {list(x.shape)}: '
                         f'give a number from {-rank} to {rank - 1}')
    return axis % rank


def not_here(name, instead):
    """A function that says why it cannot be, and what to use."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(f'{name} is not built in Trireme: {instead}')
    refuse.__name__ = refuse.__qualname__ = name.split('.')[-1]
    refuse.__doc__ = f'Not built: {instead}.'
    return refuse
