"""Layers of tensors whose arguments and results fluid has in its own way."""
import numpy

import _trireme as _C

from ..framework import device_guard

__all__ = ['where', 'reverse', 'diag', 'sign', 'unique', 'unique_with_counts', 'randint', 'softshrink',
           'log1p']


def _one(op, inputs, attrs=None, name=None):
    return _C.apply(op, inputs, attrs or {}, name, op)['Out'][0]


def _into(found, out):
    return found if out is None else _C.assign(found, out)


def _tensor(value):
    """A variable as it is; an array becomes one."""
    return _C.assign(value) if isinstance(value, numpy.ndarray) else value


def where(condition):
    """The places where condition holds: int64 [n, rank]."""
    return _C.apply('where_index', {'Condition': condition}, {}, None, 'where')['Out'][0]


def reverse(x, axis):
    """x with the order along one dimension, or several, turned round."""
    return _one('reverse', {'X': x}, {'axis': [axis] if isinstance(axis, int) else list(axis)})


def diag(diagonal):
    """A square matrix with diagonal, a variable or an array, on its diagonal."""
    return _one('diag', {'Diagonal': _tensor(diagonal)})


def sign(x):
    """-1, 0 or 1 for every element of a variable or an array."""
    return _one('sign', {'X': _tensor(x)})


def unique(x, dtype='int32'):
    """(every value of x once, for every element of x which of them it is)."""
    outs = _C.apply('unique', {'X': x}, {'dtype': int(_C.to_dtype(dtype)), 'return_inverse': True}, None,
                    'unique', out_counts={'Index': 1})
    return outs['Out'][0], outs['Index'][0]


def unique_with_counts(x, dtype='int32'):
    """(every value of x once, for every element of x which of them it is, how often each is there)."""
    outs = _C.apply('unique_with_counts', {'X': x}, {'dtype': int(_C.to_dtype(dtype))}, None,
                    'unique_with_counts')
    return outs['Out'][0], outs['Index'][0], outs['Count'][0]


def randint(low, high=None, shape=None, out=None, dtype=None, device=None, stop_gradient=False, seed=0,
            name=None):
    """Whole numbers from low to below high; with high None, from 0 to below low."""
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f'randint: low is {low} and must be below high, {high}')
    dtype = _C.to_dtype('int64' if dtype is None else dtype)
    if dtype not in (_C.to_dtype('int32'), _C.to_dtype('int64')):
        raise TypeError(f'randint draws int32 or int64, not {_C.dtype_name(dtype)}')
    if device not in (None, '', 'cpu', 'gpu'):
        raise ValueError(f"randint: device must be 'cpu', 'gpu' or None, got {device!r}")
    inputs, attrs = {}, {'low': low, 'high': high, 'seed': seed, 'dtype': int(dtype)}
    if isinstance(shape, _C.Variable):
        inputs['ShapeTensor'] = shape
    elif any(isinstance(extent, _C.Variable) for extent in shape or ()):
        inputs['ShapeTensorList'] = [extent if isinstance(extent, _C.Variable)
                                     else _C.fill_constant([1], 'int64', extent) for extent in shape]
    else:
        attrs['shape'] = [1] if shape is None else list(shape)
    with device_guard(device):
        found = _into(_one('randint', inputs, attrs, name), out)
    found.stop_gradient = stop_gradient
    return found


def softshrink(x, alpha=None):
    """x moved towards 0 by alpha (0.5 when none is given), and not past it."""
    return _one('softshrink', {'X': x}, {} if alpha is None else {'lambda': alpha})


def log1p(x, out=None, name=None):
    """log(1 + x)."""
    return _into(_one('log1p', {'X': x}, name=name), out)
