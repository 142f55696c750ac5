"""What variables of 2.4 are: shapes, ranks, kinds of numbers."""
import _trireme as _C

from .._style import static_style
from ..fluid import layers as _layers

__all__ = ['shape', 'rank', 'is_floating_point', 'is_integer', 'is_complex']


@static_style
def shape(input):
    """The extents as a variable, known when it runs."""
    return _C.shape(input)


@static_style
def rank(input):
    """How many dimensions input has, as a variable."""
    return _layers.rank(input)


def is_floating_point(x):
    return _C.dtype_name(x.dtype).startswith(('float', 'bfloat'))


def is_integer(x):
    return _C.dtype_name(x.dtype).startswith(('int', 'uint'))


def is_complex(x):
    """No variable is: complex numbers are not built."""
    return False
