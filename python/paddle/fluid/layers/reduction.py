"""Layers that go along a dimension or over all: sums, extremes, order, norms, tests."""
import _trireme as _C

from .apply import one

__all__ = ['reduce_sum', 'reduce_mean', 'reduce_max', 'reduce_min', 'reduce_prod', 'reduce_all',
           'reduce_any', 'argmax', 'argmin', 'argsort', 'cumsum', 'l2_normalize', 'isfinite',
           'has_inf', 'has_nan']


def _reduce(op):
    def layer(input, dim=None, keep_dim=False, name=None):
        return _C.reduce(op, input, dim, keep_dim, name)
    layer.__name__, layer.__doc__ = op, f'{op} over dim; None: over all dimensions.'
    return layer


reduce_sum = _reduce('reduce_sum')
reduce_mean = _reduce('reduce_mean')
reduce_max = _reduce('reduce_max')
reduce_min = _reduce('reduce_min')
reduce_prod = _reduce('reduce_prod')
reduce_all = _reduce('reduce_all')
reduce_any = _reduce('reduce_any')


def argmax(x, axis=0):
    return one('arg_max', {'X': x}, {'axis': axis})


def argmin(x, axis=0):
    return one('arg_min', {'X': x}, {'axis': axis})


def argsort(input, axis=-1, descending=False, name=None):
    """(sorted, where each element stood)."""
    outs = _C.apply('argsort', {'X': input}, {'axis': axis, 'descending': descending}, name)
    return outs['Out'][0], outs['Indices'][0]


def cumsum(x, axis=None, exclusive=None, reverse=None):
    """Sums from the start of the axis up to each element; None: the last axis."""
    return one('cumsum', {'X': x}, {'axis': -1 if axis is None else axis,
                                    'exclusive': bool(exclusive), 'reverse': bool(reverse)})


def l2_normalize(x, axis, epsilon=1e-12, name=None):
    axis = 0 if len(x.shape) == 1 else axis
    return one('norm', {'X': x}, {'axis': 1 if axis is None else axis, 'epsilon': epsilon}, name,
               'l2_normalize')


def isfinite(x):
    return one('isfinite', {'X': x})


def has_inf(x):
    return one('isinf', {'X': x}, layer='isinf')


def has_nan(x):
    return one('isnan', {'X': x}, layer='isnan')
