"""Which release's habits a call follows where fluid 1.8 and paddle.static 2.4 differ."""
import functools

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


def unary(op):
    """A function of 2.4 that applies an op of one operand to every element."""
    @static_style
    def function(x, name=None):
        return _C.apply(op, {'X': x}, {}, name, op)['Out'][0]
    function.__name__ = op
    function.__doc__ = f'{op}, element by element.'
    return function
