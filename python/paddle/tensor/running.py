"""Functions of 2.6 on running results and windows along a dimension, made of what is there."""
import itertools

import numpy

import _trireme as _C

from .._style import check_axis, static_style
from .manipulation import concat, gather, moveaxis, reshape, split, stack, unsqueeze
from .creation import to_tensor
from .math import add, cumsum, divide, full, logsumexp, max, min, multiply, prod, scale, subtract
from .search import where

__all__ = ['cumprod', 'logcumsumexp', 'cummax', 'cummin', 'cumulative_trapezoid', 'vander', 'select_scatter', 'unfold',
           'histogram', 'combinations']


def _extent(function, x, axis):
    if x.shape[axis] < 0:
        raise ValueError(f'{function}: dimension {axis} of {x.name} has no known extent: declare it with a number')
    return x.shape[axis]


def _beginnings(function, x, axis, filling):
    """[..., n, n]: in row i the elements of x along axis up to i, `filling` behind them; and axis."""
    x, axis = (reshape(x, [-1]), 0) if axis is None else (x, check_axis(function, axis, x))
    count = _extent(function, x, axis)
    rows = unsqueeze(moveaxis(x, axis, -1), -2)
    seen = to_tensor(numpy.tri(count, dtype='bool'))
    return where(seen, rows, full(filling, rows)), axis


@static_style
def cumprod(x, dim=None, dtype=None, name=None):
    """Products from the start up to each element; dim None: of all elements in a row."""
    x = x if dtype is None else _C.cast(x, dtype)
    rows, axis = _beginnings('cumprod', x, dim, 1)
    return moveaxis(prod(rows, axis=-1), -1, axis)


@static_style
def logcumsumexp(x, axis=None, dtype=None, name=None):
    """The logarithm of sums of e^x from the start up to each element; axis None: of all elements in a row."""
    x = x if dtype is None else _C.cast(x, dtype)
    rows, axis = _beginnings('logcumsumexp', x, axis, -numpy.inf)
    return moveaxis(logsumexp(rows, axis=-1), -1, axis)


def _running(function, x, axis, dtype, reduce, filling):
    rows, axis = _beginnings(function, x, axis, filling)
    best = reduce(rows, axis=-1, keepdim=True)
    count = rows.shape[-1]
    places = to_tensor(numpy.broadcast_to(numpy.arange(count), (count, count)).astype('int64'))
    seen = to_tensor(numpy.tri(count, dtype='bool'))
    # Of several that are equal the last one counts.
    at = max(where(_C.logical_and(_C.compare('equal', rows, best), seen), places, full(-1, places)), axis=-1)
    return moveaxis(_C.squeeze(best, [-1]), -1, axis), moveaxis(_C.cast(at, dtype), -1, axis)


@static_style
def cummax(x, axis=None, dtype='int64', name=None):
    """(the largest element from the start up to each, where it stands); axis None: of all elements in a row."""
    return _running('cummax', x, axis, dtype, max, _least(x))


@static_style
def cummin(x, axis=None, dtype='int64', name=None):
    """(the smallest element from the start up to each, where it stands); axis None: of all elements in a row."""
    return _running('cummin', x, axis, dtype, min, -_least(x) - (0 if _fractional(x) else 1))


def _fractional(x):
    return _C.dtype_name(x.dtype).startswith('float')


def _least(x):
    """What nothing of this type is below."""
    kind = _C.dtype_name(x.dtype)
    return -numpy.inf if _fractional(x) else int(numpy.iinfo(kind).min)


@static_style
def cumulative_trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """The areas under the points y from the first up to each: at x, or dx apart."""
    if x is not None and dx is not None:
        raise ValueError('cumulative_trapezoid: give x or dx, not both')
    axis = check_axis('cumulative_trapezoid', axis, y)
    heights = _neighbours(y, axis, add)
    if x is None:
        return scale(cumsum(heights, axis=axis), 0.5 * (1.0 if dx is None else dx))
    if len(x.shape) == 1 and len(y.shape) > 1:
        x = reshape(x, [-1 if i == axis else 1 for i in range(len(y.shape))])
    return scale(cumsum(multiply(heights, _neighbours(x, axis if len(x.shape) > 1 else 0, subtract)), axis=axis), 0.5)


def _neighbours(x, axis, function):
    return function(_C.slice(x, [axis], [1], [2 ** 31 - 1]), _C.slice(x, [axis], [0], [-1]))


@static_style
def vander(x, n=None, increasing=False, name=None):
    """Powers of each element, n of them: from n - 1 down to 0, or up with increasing."""
    count = _extent('vander', x, 0) if n is None else n
    if len(x.shape) != 1 or count < 1:
        raise ValueError(f'vander: give a vector, and n of 1 or more; got {x.shape} and {n}')
    powers = [full(1, x)]  # by products: the slope of x to the power of 0 is 0, at 0 too
    while len(powers) < count:
        powers.append(multiply(powers[-1], x))
    powers = powers[:count]
    return stack(powers if increasing else powers[::-1], axis=-1)


@static_style
def select_scatter(x, values, axis, index, name=None):
    """x with values in place of its slice number index along axis."""
    axis = check_axis('select_scatter', axis, x)
    extent = _extent('select_scatter', x, axis)
    if not -extent <= index < extent:
        raise ValueError(f'select_scatter: index is {index}, but dimension {axis} has {extent} slices')
    index %= extent
    sizes = [size for size in (index, 1, extent - index - 1) if size]
    parts = split(x, sizes, axis=axis) if len(sizes) > 1 else [x]
    parts[1 if index else 0] = unsqueeze(values, axis)
    return concat(parts, axis=axis)


@static_style
def unfold(x, axis, size, step, name=None):
    """Windows of `size` elements along axis, `step` apart; what a window holds is the last dimension."""
    axis = check_axis('unfold', axis, x)
    extent = _extent('unfold', x, axis)
    if not 0 < size <= extent or step < 1:
        raise ValueError(f'unfold: size is {size} and step {step}, but dimension {axis} has {extent} elements')
    starts = numpy.arange(0, extent - size + 1, step)
    places = to_tensor((starts[:, None] + numpy.arange(size)).reshape(-1).astype('int64'))
    taken = gather(x, places, axis=axis)
    shape = [0 if i < axis else extent for i, extent in enumerate(x.shape)]
    apart = reshape(taken, shape[:axis] + [len(starts), size] + [extent for extent in x.shape[axis + 1:]])
    return moveaxis(apart, axis + 1, -1)


@static_style
def histogram(input, bins=100, min=0, max=0, name=None):
    """How many elements lie in each of `bins` equal parts from min to max; both 0: from the least to the largest."""
    if min > max or bins < 1:
        raise ValueError(f'histogram: min is {min}, max {max} and bins {bins}')
    x = _C.cast(reshape(input, [-1]), 'float64')
    if min == max == 0:
        low, high = (_C.reduce(kind, x, None, True, None) for kind in ('reduce_min', 'reduce_max'))
    else:
        low, high = (_C.fill_constant([1], 'float64', float(number)) for number in (min, max))
    # All elements alike: they lie in the middle of a part that is one wide to each side.
    alike = _C.cast(_C.compare('equal', low, high), 'float64')
    low, high = subtract(low, alike), add(high, alike)
    part = _C.cast(divide(scale(subtract(x, low), float(bins)), subtract(high, low)), 'int64')
    part = _C.cast(_C.clip(_C.cast(part, 'float64'), 0.0, bins - 1.0), 'int64')
    within = _C.logical_and(_C.compare('greater_equal', x, low), _C.compare('less_equal', x, high))
    hits = _C.compare('equal', unsqueeze(part, -1), to_tensor(numpy.arange(bins, dtype='int64')))
    hits = multiply(_C.cast(hits, 'int64'), unsqueeze(_C.cast(within, 'int64'), -1))
    return _C.reduce('reduce_sum', hits, [0], False, name)


@static_style
def combinations(x, r=2, with_replacement=False, name=None):
    """Every way to take r elements of a vector, in order: [ways, r]."""
    count = _extent('combinations', x, 0)
    if len(x.shape) != 1 or r < 0:
        raise ValueError(f'combinations: give a vector, and r of 0 or more; got {x.shape} and {r}')
    take = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    ways = list(take(range(count), r))
    if not ways or not r:
        raise ValueError(f'combinations: there is no way to take {r} of {count} elements')
    return reshape(gather(x, to_tensor(numpy.array(ways, 'int64').reshape(-1)), axis=0), [len(ways), r])
