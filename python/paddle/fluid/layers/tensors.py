"""Layers of tensors whose arguments and results fluid has in its own way."""
import numpy

import _trireme as _C

from ..framework import device_guard
from .apply import one

__all__ = ['where', 'reverse', 'diag', 'sign', 'unique', 'unique_with_counts', 'randint',
           'softshrink', 'log1p', 'zeros', 'ones', 'range', 'unstack', 'scatter', 'gather_nd',
           'strided_slice', 'sampling_id', 'uniform_random_batch_size_like']


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
    return one('reverse', {'X': x}, {'axis': [axis] if isinstance(axis, int) else list(axis)})


def diag(diagonal):
    """A square matrix with diagonal, a variable or an array, on its diagonal."""
    return one('diag', {'Diagonal': _tensor(diagonal)})


def sign(x):
    """-1, 0 or 1 for every element of a variable or an array."""
    return one('sign', {'X': _tensor(x)})


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
        found = _into(one('randint', inputs, attrs, name), out)
    found.stop_gradient = stop_gradient
    return found


def softshrink(x, alpha=None):
    """x moved towards 0 by alpha (0.5 when none is given), and not past it."""
    return one('softshrink', {'X': x}, {} if alpha is None else {'lambda': alpha})


def log1p(x, out=None, name=None):
    """log(1 + x)."""
    return _into(one('log1p', {'X': x}, name=name), out)


def zeros(shape, dtype, force_cpu=False, name=None):
    return _C.fill_constant(shape, dtype, 0.0, force_cpu, None, name)


def ones(shape, dtype, force_cpu=False, name=None):
    return _C.fill_constant(shape, dtype, 1.0, force_cpu, None, name)


def range(start, end, step, dtype, name=None):
    """Numbers from start to end (not included) by step."""
    def operand(value):
        if isinstance(value, _C.Variable):
            return value if value.dtype == _C.to_dtype(dtype) else _C.cast(value, dtype)
        return _C.fill_constant([1], dtype, value)
    return one('range', {'Start': operand(start), 'End': operand(end), 'Step': operand(step)},
               name=name)


def unstack(x, axis=0, num=None):
    if num is None:
        num = x.shape[axis]
        if num < 0:
            raise ValueError(f'unstack needs num: dimension {axis} of {x.name} is unknown')
    return _C.apply('unstack', {'X': x}, {'axis': axis, 'num': num}, out_counts={'Y': num})['Y']


def scatter(input, index, updates, name=None, overwrite=True):
    return one('scatter', {'X': input, 'Ids': index, 'Updates': updates},
               {'overwrite': overwrite}, name)


def gather_nd(input, index, name=None):
    return one('gather_nd', {'X': input, 'Index': index}, name=name)


def strided_slice(input, axes, starts, ends, strides):
    """Elements between starts and ends, some apart; each a list, of numbers or variables, or a variable."""
    # infer_flags: -1 where a bound is known when it runs.
    inputs, attrs = {'Input': input}, {'axes': list(axes), 'infer_flags': [1] * len(axes)}
    for what, given in (('Starts', starts), ('Ends', ends), ('Strides', strides)):
        if isinstance(given, _C.Variable):
            inputs[what + 'Tensor'] = given
            attrs['infer_flags'] = [-1] * len(axes)
        elif any(isinstance(one, _C.Variable) for one in given):
            inputs[what + 'TensorList'] = [one if isinstance(one, _C.Variable)
                                           else _C.fill_constant([1], 'int32', one) for one in given]
            attrs['infer_flags'] = [-1 if isinstance(one, _C.Variable) else flag
                                    for one, flag in zip(given, attrs['infer_flags'])]
        else:
            attrs[what.lower()] = list(given)
    return one('strided_slice', inputs, attrs)


def sampling_id(x, min=0.0, max=1.0, seed=0, dtype='float32'):
    """A class for each row, drawn by the row's probabilities: int64, as embeddings take it.

    The default of dtype is the original's, whose result was int64 all the same; another type is
    cast to.
    """
    ids = one('sampling_id', {'X': x}, dict(min=min, max=max, seed=seed))
    return ids if _C.to_dtype(dtype) in (ids.dtype, _C.to_dtype('float32')) else _C.cast(ids, dtype)


def uniform_random_batch_size_like(input, shape, dtype='float32', input_dim_idx=0, output_dim_idx=0,
                                   min=-1.0, max=1.0, seed=0):
    return one('uniform_random_batch_size_like', {'Input': input},
               dict(min=min, max=max, seed=seed, shape=list(shape), dtype=int(_C.to_dtype(dtype)),
                    input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx))
