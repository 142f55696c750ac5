"""Functions of 2.4 that make variables out of numbers."""
import math
import numbers as _numbers

import numpy

import _trireme as _C

from .._style import one, static_style
from ..fluid import layers as _layers

__all__ = ['full', 'zeros', 'ones', 'zeros_like', 'ones_like', 'full_like', 'empty', 'empty_like', 'arange',
           'linspace', 'logspace', 'eye', 'meshgrid', 'tril', 'triu', 'tril_indices', 'triu_indices', 'diag',
           'diagflat', 'diag_embed', 'assign', 'clone', 'to_tensor', 'create_parameter']


def dtype_or_default(dtype):
    return _C.get_default_dtype() if dtype is None else dtype


@static_style
def full(shape, fill_value, dtype=None, name=None):
    """fill_value everywhere."""
    return _C.fill_constant(shape, dtype_or_default(dtype), fill_value, False, None, name)


@static_style
def zeros(shape, dtype=None, name=None):
    return _C.fill_constant(shape, dtype_or_default(dtype), 0.0, False, None, name)


@static_style
def ones(shape, dtype=None, name=None):
    return _C.fill_constant(shape, dtype_or_default(dtype), 1.0, False, None, name)


@static_style
def zeros_like(x, dtype=None, name=None):
    return full_like(x, 0.0, dtype, name)


@static_style
def ones_like(x, dtype=None, name=None):
    return full_like(x, 1.0, dtype, name)


@static_style
def full_like(x, fill_value, dtype=None, name=None):
    """fill_value everywhere, in the shape of x and, where no dtype is given, its type."""
    out = one('fill_any_like', {'X': x}, {'value': float(fill_value),
                                          'dtype': int(x.dtype if dtype is None else _C.to_dtype(dtype))}, name,
              'full_like')
    out.stop_gradient = True
    return out


@static_style
def empty(shape, dtype=None, name=None):
    """A variable whose values nobody has set; here they are 0."""
    return _C.fill_constant(shape, dtype_or_default(dtype), 0.0, False, None, name)


@static_style
def empty_like(x, dtype=None, name=None):
    """empty in the shape of x."""
    return full_like(x, 0.0, dtype, name)


def _whole(value):
    return isinstance(value, int) or isinstance(value, _C.Variable) and value.dtype in (
        _C.to_dtype('int32'), _C.to_dtype('int64'))


@static_style
def arange(start=0, end=None, step=1, dtype=None, name=None):
    """Numbers from start to end (not included) by step: int64 if all three are whole."""
    if end is None:
        start, end = 0, start
    if dtype is None:
        dtype = 'int64' if all(map(_whole, (start, end, step))) else _C.get_default_dtype()
    out = _layers.range(start, end, step, dtype, name)
    if not any(isinstance(bound, _C.Variable) for bound in (start, end, step)):
        out.desc.set_shape([max(0, math.ceil((end - start) / step))])
    return out


@static_style
def linspace(start, stop, num, dtype=None, name=None):
    """num numbers, evenly from start to stop."""
    out = _layers.linspace(start, stop, num, 'float32' if dtype is None else dtype)
    if not isinstance(num, _C.Variable):
        out.desc.set_shape([num])
    return out


@static_style
def logspace(start, stop, num, base=10.0, dtype=None, name=None):
    """base to the power of num numbers, evenly from start to stop."""
    powers = linspace(start, stop, num, dtype)
    return one('exp', {'X': _C.scale(powers, float(numpy.log(base)))}, {}, name, 'logspace')


@static_style
def eye(num_rows, num_columns=None, dtype=None, name=None):
    """Ones on the diagonal of a matrix."""
    return _layers.eye(num_rows, num_columns, dtype=dtype_or_default(dtype))


@static_style
def meshgrid(*args, **kwargs):
    """The coordinates of a grid: one variable per operand."""
    inputs = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    return _layers.meshgrid(inputs, kwargs.get('name'))


@static_style
def tril(x, diagonal=0, name=None):
    """The matrix with zeros above a diagonal."""
    return _layers.tril(x, diagonal, name)


@static_style
def triu(x, diagonal=0, name=None):
    """The matrix with zeros below a diagonal."""
    return _layers.triu(x, diagonal, name)


def _triangle(indices, dtype):
    return _C.cast(_C.assign(numpy.stack(indices).astype('int64')), dtype)


@static_style
def tril_indices(row, col, offset=0, dtype='int64'):
    """[2, n]: where a matrix's lower triangle is."""
    return _triangle(numpy.tril_indices(row, offset, col), dtype)


@static_style
def triu_indices(row, col=None, offset=0, dtype='int64'):
    """[2, n]: where a matrix's upper triangle is."""
    return _triangle(numpy.triu_indices(row, offset, row if col is None else col), dtype)


@static_style
def diag(x, offset=0, padding_value=0, name=None):
    """The diagonal of a matrix, or a matrix with a vector on its diagonal and padding_value elsewhere."""
    if len(x.shape) == 1:
        return _with_diagonal(x, offset, padding_value, name)
    from .linalg import diagonal
    return diagonal(x, offset)


def _with_diagonal(x, offset, padding_value, name):
    """The vector times a matrix of ones on the diagonal, which has a gradient."""
    if x.shape[0] < 0:
        raise ValueError(f'diag: the length of {x.name} must be known')
    mask = numpy.eye(x.shape[0] + abs(offset), k=offset, dtype='float32')
    rows = mask[:x.shape[0]] if offset > 0 else mask[-x.shape[0]:]
    out = _C.elementwise('elementwise_mul', _C.unsqueeze(x, [1]), _C.cast(_C.assign(rows), x.dtype), -1, None, None)
    if offset:
        out = one('pad', {'X': out}, {'paddings': [0, offset, 0, 0] if offset > 0 else [-offset, 0, 0, 0],
                                      'pad_value': 0.0})
    if padding_value:
        elsewhere = _C.cast(_C.assign(float(padding_value) * (1 - mask)), x.dtype)
        out = _C.elementwise('elementwise_add', out, elsewhere, -1, None, name)
    return out


@static_style
def diagflat(x, offset=0, name=None):
    """A matrix with all of x on a diagonal."""
    return _with_diagonal(_C.reshape(x, [-1]) if len(x.shape) != 1 else x, offset, 0, name)


@static_style
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Vectors on the diagonals of matrices."""
    return _layers.diag_embed(input, offset, dim1, dim2)


@static_style
def assign(x, output=None):
    """A copy of a variable, or a constant of numbers and arrays."""
    if not isinstance(x, (_C.Variable, numpy.ndarray)):
        x = numpy.array(x)
        x = x.astype('float32') if x.dtype == numpy.float64 else x
        x = x.reshape(1) if x.ndim == 0 else x
    return _C.assign(x, output)


@static_style
def clone(x, name=None):
    """A copy through which gradients flow."""
    return _C.assign(x)


@static_style
def to_tensor(data, dtype=None, place=None, stop_gradient=True):
    """A constant of the program: data is numbers or an array. What changes from run to run is fed."""
    if not isinstance(data, _C.Variable):
        if isinstance(data, _numbers.Number) or isinstance(data, (list, tuple)):
            array = numpy.array(data)
            if dtype is None and array.dtype == numpy.float64:
                array = array.astype(_C.dtype_name(_C.get_default_dtype()))
        else:
            array = numpy.asarray(data)
        if dtype is not None and array.dtype == numpy.float64:  # constants have no more digits
            array = array.astype('float32')
        data = _C.assign(array.reshape(1) if array.ndim == 0 else array)
    out = data if dtype is None or data.dtype == _C.to_dtype(dtype) else _C.cast(data, dtype)
    out.stop_gradient = stop_gradient
    return out


@static_style
def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    return _C.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)
