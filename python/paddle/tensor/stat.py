"""Statistics of 2.4."""
import _trireme as _C

from .._style import check_axis, one, static_style
from . import manipulation as _m
from . import math as _math
from .search import where as _where

__all__ = ['std', 'var', 'numel', 'median', 'quantile', 'nanmedian', 'nanquantile']


def _axes(x, axis):
    rank = len(x.shape)
    return list(range(rank)) if axis is None or axis == [] else [a % rank for a in (
        [axis] if isinstance(axis, int) else axis)]


def _count(x, axes):
    """How many elements go into one: a number, or a variable where an extent is unknown."""
    count = 1
    for axis in axes:
        if x.shape[axis] < 0:
            here = _C.cast(_C.shape(x), x.dtype)
            parts = [_C.slice(here, [0], [a], [a + 1]) for a in axes]
            out = parts[0]
            for part in parts[1:]:
                out = _C.elementwise('elementwise_mul', out, part, -1, None, None)
            out.stop_gradient = True
            return out
        count *= x.shape[axis]
    return count


@static_style
def var(x, axis=None, unbiased=True, keepdim=False, name=None):
    """The mean square of what lies between x and its mean; unbiased: by one less than their number."""
    axes = _axes(x, axis)
    apart = _C.elementwise('elementwise_sub', x, _C.reduce('reduce_mean', x, axes, True, None), -1, None, None)
    found = _C.reduce('reduce_mean', one('square', {'X': apart}), axes, keepdim, name)
    if not unbiased:
        return found
    count = _count(x, axes)
    if not isinstance(count, _C.Variable):
        return _C.scale(found, count / (count - 1) if count > 1 else float('nan'))
    return _C.elementwise('elementwise_mul', found, _C.elementwise(
        'elementwise_div', count, _C.scale(count, 1.0, -1.0), -1, None, None), -1, None, None)


@static_style
def std(x, axis=None, unbiased=True, keepdim=False, name=None):
    return one('sqrt', {'X': var(x, axis, unbiased, keepdim)}, {}, name)


@static_style
def numel(x, name=None):
    """How many elements x has: int64."""
    return one('size', {'Input': x}, {}, name)


def _in_order(x, axis):
    """(x sorted along its last dimension, axis, extent), that dimension being axis or all of x in a row."""
    if axis is None:
        x, axis = _C.reshape(x, [-1]), 0
    axis = check_axis('median or quantile', axis, x)
    if x.shape[axis] < 0:
        raise ValueError(f'{x.name} has shape {list(x.shape)}: dimension {axis} must be known')
    return _C.apply('argsort', {'X': x}, {'axis': axis}, None, 'sort')['Out'][0], axis, x.shape[axis]


def _kept(out, x, axis, at, keepdim):
    if not keepdim:
        return _C.squeeze(out, [at]) if axis is not None else out
    return _C.reshape(out, [1] * len(x.shape)) if axis is None else out


@static_style
def median(x, axis=None, keepdim=False, name=None):
    """The middle element; the mean of two where the number is even."""
    return _between(x, 0.5, axis, keepdim)


@static_style
def quantile(x, q, axis=None, keepdim=False):
    """The element below which a share q lies, between two where it falls between them."""
    if isinstance(q, (list, tuple)):
        return _C.stack([quantile(x, share, axis, keepdim) for share in q], 0)
    if isinstance(axis, (list, tuple)):
        raise NotImplementedError('quantile over several dimensions is not built: flatten them first')
    if not 0 <= q <= 1:
        raise ValueError(f'quantile: q must be between 0 and 1, got {q}')
    return _between(_C.cast(x, 'float64'), q, axis, keepdim)


def _between(x, q, axis, keepdim):
    ordered, at, count = _in_order(x, axis)
    place = q * (count - 1)
    low = int(place)
    high = low + 1 if low + 1 < count else low
    out = _C.elementwise('elementwise_add',
                         _C.scale(_C.slice(ordered, [at], [low], [low + 1]), 1 - (place - low)),
                         _C.scale(_C.slice(ordered, [at], [high], [high + 1]), place - low), -1, None, None)
    return _kept(out, x, axis, at, keepdim)


@static_style
def nanmedian(x, axis=None, keepdim=False, name=None):
    """The middle element of what is not NaN; NaN where nothing else is."""
    return _between_numbers(x, 0.5, axis, keepdim)


@static_style
def nanquantile(x, q, axis=None, keepdim=False):
    """The element below which a share q of what is not NaN lies."""
    if isinstance(q, (list, tuple)):
        return _C.stack([nanquantile(x, share, axis, keepdim) for share in q], 0)
    if not 0 <= q <= 1:
        raise ValueError(f'nanquantile: q must be between 0 and 1, got {q}')
    return _between_numbers(_C.cast(x, 'float64'), q, axis, keepdim)


def _between_numbers(x, q, axis, keepdim):
    """What is NaN is sorted behind all numbers; how many those are says where to look."""
    if isinstance(axis, (list, tuple)):
        raise NotImplementedError('nanmedian and nanquantile over several dimensions are not built: flatten them first')
    is_number = _C.compare('equal', x, x)
    ordered, at, _ = _in_order(_where(is_number, x, _math.full(float('inf'), x)), axis)
    there = _C.reshape(is_number, [-1]) if axis is None else is_number
    count = _C.reduce('reduce_sum', _C.cast(there, x.dtype), [at], True, None)
    end = _math.clip(_C.scale(count, 1.0, -1.0), min=0.0)
    place = _C.scale(end, q)
    low = _math.floor(place)
    share = _math.subtract(place, low)
    below, above = (_m.take_along_axis(ordered, _C.cast(each, 'int64'), at)
                    for each in (low, _math.minimum(_C.scale(low, 1.0, 1.0), end)))
    mixed = _math.add(_math.multiply(below, _C.scale(share, -1.0, 1.0)), _math.multiply(above, share))
    zero = _C.scale(share, 0.0)
    out = _where(_C.compare('equal', share, zero), below, mixed)  # one infinite element stays what it is
    nothing = _C.compare('equal', count, zero)
    return _kept(_where(nothing, _C.scale(zero, 1.0, float('nan')), out), x, axis, at, keepdim)
