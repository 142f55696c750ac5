"""Layers of whole tensors that fluid took over from numpy: products, parts, fills and comparisons."""
import builtins

import _trireme as _C

from ..framework import device_guard
from .apply import one
from .elementwise import elementwise_add, elementwise_mul, equal
from .images import image_resize
from .reduction import reduce_sum
from .tensors import range as _range
from .tensors import where

__all__ = ['addcmul', 'arange', 'clamp', 'cross', 'diag_embed', 'dist', 'elementwise_equal', 'eye', 'flip',
           'fsp_matrix', 'full', 'full_like', 'index_select', 'interpolate', 'kron', 'linspace', 'log_softmax',
           'logsumexp', 'meshgrid', 'multiplex', 'nonzero', 'randn', 'rank', 'roll', 'scatter_nd',
           'scatter_nd_add', 'shard_index', 't', 'trace', 'tril', 'triu']

INFINITE = float('inf')


def _into(found, out):
    return found if out is None else _C.assign(found, out)


def _on(device):
    if device not in (None, '', 'cpu', 'gpu'):
        raise ValueError(f"device must be 'cpu', 'gpu' or None, got {device!r}")
    return device_guard(device)


# ---- products and sums

def addcmul(input, tensor1, tensor2, value=1.0, out=None, name=None):
    """input + value * tensor1 * tensor2."""
    product = _C.scale(elementwise_mul(tensor1, tensor2), scale=float(value))
    return _into(elementwise_add(input, product, name=name), out)


def cross(input, other, dim=None):
    """The cross products along dim, or the first dimension of extent 3."""
    return one('cross', {'X': input, 'Y': other}, {} if dim is None else {'dim': dim})


def dist(x, y, p=2):
    """The p norm of x - y: [1]."""
    return one('dist', {'X': x, 'Y': y}, {'p': float(p)})


def kron(x, y, out=None, name=None):
    """Kronecker's product: x with every element times y in its place."""
    return _into(one('kron', {'X': x, 'Y': y}, name=name), out)


def fsp_matrix(x, y):
    """What maps of two layers have in common: [batch, channels of x, channels of y]."""
    return one('fsp', {'X': x, 'Y': y}, layer='fsp_matrix')


def logsumexp(x, dim=None, keepdim=False, out=None, name=None):
    """log of the sum of exp(x) along dim; of all elements where dim is None."""
    total = reduce_sum(one('exp', {'X': x}), dim=dim, keep_dim=keepdim)
    return _into(one('log', {'X': total}, name=name), out)


def log_softmax(input, axis=None, dtype=None, name=None):
    """log of the softmax along axis (the last one); cast to dtype first where that is given."""
    given = input if dtype is None else _C.cast(input, dtype)
    return one('log', {'X': _C.softmax(given, axis=-1 if axis is None else axis)}, name=name)


def trace(input, offset=0, dim1=0, dim2=1, out=None, name=None):
    """The sum of a diagonal of dim1 and dim2."""
    return _into(one('trace', {'Input': input}, dict(offset=offset, dim1=dim1, dim2=dim2), name), out)


# ---- elements in other places

def flip(input, dims, name=None):
    """input with the order along one dimension, or several, turned round."""
    return one('flip', {'X': input}, {'dims': [dims] if isinstance(dims, int) else list(dims)}, name)


def roll(input, shifts, dims=None):
    """input moved along dims; without dims, as if it were a vector."""
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if dims is not None:
        dims = [dims] if isinstance(dims, int) else list(dims)
        return one('roll', {'X': input}, {'shifts': shifts, 'dims': dims})
    moved = one('roll', {'X': _C.reshape(input, [-1, 1])}, {'shifts': shifts, 'dims': [0]})
    return _C.reshape(moved, list(input.shape))


def _triangle(input, diagonal, lower, name):
    if not isinstance(diagonal, int):
        raise TypeError(f'diagonal is {diagonal!r}: give a whole number')
    return one('tril_triu', {'X': input}, {'diagonal': diagonal, 'lower': lower}, name,
               'tril' if lower else 'triu')


def tril(input, diagonal=0, name=None):
    """input with zeros above a diagonal."""
    return _triangle(input, diagonal, True, name)


def triu(input, diagonal=0, name=None):
    """input with zeros below a diagonal."""
    return _triangle(input, diagonal, False, name)


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Rows of input, a variable or an array, on diagonals of matrices. Gradients end here."""
    given = input if isinstance(input, _C.Variable) else _C.assign(input)
    found = one('diag_embed', {'Input': given}, dict(offset=offset, dim1=dim1, dim2=dim2))
    found.stop_gradient = True
    return found


def t(input, name=None):
    """A matrix turned over; a vector as it is."""
    if len(input.shape) > 2:
        raise ValueError(f'{input.name} has shape {list(input.shape)}: t takes a vector or a matrix')
    return input if len(input.shape) < 2 else _C.transpose(input, [1, 0], name=name)


def index_select(input, index, dim=0):
    """The slices of input along dim that index names."""
    return one('index_select', {'X': input, 'Index': index}, {'dim': dim})


def multiplex(inputs, index):
    """Row i of inputs[index[i]]."""
    return one('multiplex', {'X': inputs, 'Ids': index})


def scatter_nd_add(ref, index, updates, name=None):
    """ref with every block of updates added where its tuple of indices points to."""
    return one('scatter_nd_add', {'X': ref, 'Index': index, 'Updates': updates}, name=name)


def scatter_nd(index, updates, shape, name=None):
    """Zeros of this shape with updates added where index points to."""
    zeros = _C.fill_constant(list(shape), updates.dtype, 0.0)
    return scatter_nd_add(zeros, index, updates, name)


def meshgrid(input, name=None):
    """Vectors as coordinates of a grid: for each of them its number at every point."""
    if not isinstance(input, (list, tuple)):
        raise TypeError('meshgrid takes a list of variables')
    return _C.apply('meshgrid', {'X': list(input)}, {}, name, out_counts={'Out': len(input)})['Out']


def nonzero(input, as_tuple=False):
    """The places where input is not 0: [n, rank], or for every dimension [n, 1]."""
    places = where(input)
    if not as_tuple:
        return places
    rank = len(input.shape)
    if rank == 1:
        return (places,)
    return tuple(_C.slice(places, axes=[1], starts=[i], ends=[i + 1]) for i in builtins.range(rank))


def shard_index(input, index_num, nshards, shard_id, ignore_value=-1):
    """The place in its shard of each index of this shard, ignore_value elsewhere."""
    return one('shard_index', {'X': input}, dict(index_num=index_num, nshards=nshards, shard_id=shard_id,
                                                 ignore_value=ignore_value))


# ---- made from numbers

def full(shape, fill_value, out=None, dtype=None, device=None, stop_gradient=True, name=None):
    """fill_value everywhere."""
    with _on(device):
        found = _C.fill_constant(shape, 'float32' if dtype is None else dtype, fill_value, False, out, name)
    found.stop_gradient = stop_gradient
    return found


def full_like(input, fill_value, out=None, dtype=None, device=None, stop_gradient=True, name=None):
    """fill_value everywhere, in the shape of input and, where no dtype is given, its type."""
    dtype = input.dtype if dtype is None else _C.to_dtype(dtype)
    with _on(device):
        found = _into(one('fill_any_like', {'X': input}, {'value': float(fill_value), 'dtype': int(dtype)},
                          name, 'full_like'), out)
    found.stop_gradient = stop_gradient
    return found


def arange(start, end, step=1, dtype=None, name=None):
    """Numbers from start to end (not included) by step."""
    return _range(start, end, step, 'float32' if dtype is None else dtype, name)


def linspace(start, stop, num, dtype):
    """num numbers, evenly from start to stop; each a number or a variable."""
    def operand(value, dtype):
        return value if isinstance(value, _C.Variable) else _C.fill_constant([1], dtype, value)
    return one('linspace', {'Start': operand(start, dtype), 'Stop': operand(stop, dtype),
                            'Num': operand(num, 'int32')})


def eye(num_rows, num_columns=None, batch_shape=None, dtype='float32'):
    """Ones on the diagonal of a matrix, or of a batch of them."""
    attrs = {'num_rows': num_rows, 'num_columns': num_rows if num_columns is None else num_columns,
             'dtype': int(_C.to_dtype(dtype))}
    found = one('eye', {}, attrs)
    for extent in reversed(batch_shape or []):
        if extent < 1:
            raise ValueError(f'batch_shape is {batch_shape}: give numbers above 0')
        found = _C.stack([found] * extent, axis=0)
    found.stop_gradient = True
    return found


def randn(shape, out=None, dtype=None, device=None, stop_gradient=True, name=None):
    """Numbers from the normal distribution around 0 with deviation 1."""
    with _on(device):
        found = _into(_C.gaussian_random(shape, dtype='float32' if dtype is None else dtype), out)
    found.stop_gradient = stop_gradient
    return found


def rank(input):
    """How many dimensions input has: int32, of no dimensions."""
    return one('assign_value', {}, {'shape': [], 'dtype': int(_C.to_dtype('int32')),
                                    'int32_values': [len(input.shape)]}, layer='rank')


# ---- bounds and comparisons

def clamp(input, min=None, max=None, output=None, name=None):
    """input cut to [min, max]; each a number, a variable, or None for no bound."""
    if min is None and max is None:
        raise ValueError('clamp needs min, max or both')
    inputs, attrs = {'X': input}, {}
    for slot, given, bound in (('Min', min, -INFINITE), ('Max', max, INFINITE)):
        attrs[slot.lower()] = bound if given is None or isinstance(given, _C.Variable) else float(given)
        if isinstance(given, _C.Variable):
            inputs[slot] = given
    return _into(one('clip', inputs, attrs, name, 'clamp'), output)


def elementwise_equal(x, y, name=None):
    """Whether elements are equal."""
    return equal(x, y)


def interpolate(input, out_shape=None, scale=None, name=None, resample='BILINEAR', actual_shape=None,
                align_corners=True, align_mode=1, data_format='NCHW'):
    """image_resize under another name."""
    return image_resize(input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode,
                        data_format)
