"""Functions of 2.4 that order, find and choose."""
import _trireme as _C

from .._style import check_axis, one, static_style
from ..fluid import layers as _layers

__all__ = ['argmax', 'argmin', 'argsort', 'sort', 'topk', 'nonzero', 'where', 'index_select', 'index_sample',
           'masked_select', 'searchsorted', 'bucketize', 'kthvalue']


def _arg(op, name):
    @static_style
    def function(x, axis=None, keepdim=False, dtype='int64', name=None):
        if dtype is None:
            raise ValueError(f"{function.__name__}: dtype must be 'int32' or 'int64'")
        attrs = {'axis': 0 if axis is None else axis, 'keepdims': keepdim and axis is not None,
                 'dtype': int(_C.to_dtype(dtype))}
        flat = _C.reshape(x, [-1]) if axis is None else x
        out = one(op, {'X': flat}, attrs, name, function.__name__)
        return _C.reshape(out, [1] * len(x.shape)) if axis is None and keepdim else out
    function.__name__ = name
    function.__doc__ = f'{name} along axis; None: of x in a row.'
    return function


argmax = _arg('arg_max', 'argmax')
argmin = _arg('arg_min', 'argmin')


def _sorted(x, axis, descending, name, layer):
    outs = _C.apply('argsort', {'X': x}, {'axis': axis, 'descending': descending}, name, layer)
    return outs['Out'][0], outs['Indices'][0]


@static_style
def argsort(x, axis=-1, descending=False, name=None):
    """Where each element of the sorted x stood."""
    return _sorted(x, axis, descending, name, 'argsort')[1]


@static_style
def sort(x, axis=-1, descending=False, name=None):
    return _sorted(x, axis, descending, name, 'sort')[0]


@static_style
def topk(x, k, axis=None, largest=True, sorted=True, name=None):
    """(the k largest elements along axis, where they stood)."""
    inputs, attrs = {'X': x}, {'axis': -1 if axis is None else axis, 'largest': largest, 'sorted': sorted}
    if isinstance(k, _C.Variable):
        inputs['K'] = k
    else:
        attrs['k'] = k
    outs = _C.apply('top_k_v2', inputs, attrs, name, 'topk')
    return outs['Out'][0], outs['Indices'][0]


@static_style
def nonzero(x, as_tuple=False):
    """The places where x is not 0: [n, rank], or for every dimension [n, 1]."""
    condition = x if _C.dtype_name(x.dtype) == 'bool' else _C.compare('not_equal', x, _C.zeros_like(x))
    return _layers.nonzero(condition, as_tuple)


def _alike(variables):
    shapes = [list(v.shape) for v in variables]
    return all(shape == shapes[0] for shape in shapes)


@static_style
def where(condition, x=None, y=None, name=None):
    """x where the condition holds, y elsewhere; without them, the places where it holds."""
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError('where: give x and y, or neither')
    typed = next((v for v in (x, y) if isinstance(v, _C.Variable)), None)
    dtype = typed.dtype if typed is not None else _C.to_dtype('int64' if isinstance(x, int) and isinstance(y, int)
                                                              else 'float32')
    x, y = (v if isinstance(v, _C.Variable) else _C.fill_constant([1], dtype, v) for v in (x, y))
    if not _alike([condition, x, y]):
        from .manipulation import broadcast_tensors
        condition, x, y = broadcast_tensors([condition, x, y])
    return one('where', {'Condition': condition, 'X': x, 'Y': y}, {}, name)


@static_style
def index_select(x, index, axis=0, name=None):
    """The slices of x along axis that index names."""
    return one('index_select', {'X': x, 'Index': index}, {'dim': axis}, name)


@static_style
def index_sample(x, index):
    """Of every row of x, the elements that the row of index names."""
    return one('index_sample', {'X': x, 'Index': index})


@static_style
def masked_select(x, mask, name=None):
    """The elements of x where the mask is true, in a row."""
    if not _alike([x, mask]):
        from .manipulation import broadcast_tensors
        x, mask = broadcast_tensors([x, mask])
    places = one('where_index', {'Condition': _C.reshape(mask, [-1])}, {}, None, 'masked_select')
    return _C.gather(_C.reshape(x, [-1]), _C.reshape(places, [-1]))


@static_style
def searchsorted(sorted_sequence, values, out_int32=False, right=False, name=None):
    """How many elements of the sorted sequence are below each value; right: or equal to it."""
    below = _C.compare('less_equal' if right else 'less_than', _C.unsqueeze(sorted_sequence, [-2]),
                       _C.unsqueeze(values, [-1]))
    return _C.reduce('reduce_sum', _C.cast(below, 'int32' if out_int32 else 'int64'), [-1], False, name)


@static_style
def bucketize(x, sorted_sequence, out_int32=False, right=False, name=None):
    """searchsorted with its operands the other way round."""
    below = _C.compare('less_equal' if right else 'less_than', sorted_sequence, _C.unsqueeze(x, [-1]))
    return _C.reduce('reduce_sum', _C.cast(below, 'int32' if out_int32 else 'int64'), [-1], False, name)


@static_style
def kthvalue(x, k, axis=None, keepdim=False, name=None):
    """(the k-th smallest element along axis, where it stood)."""
    axis = check_axis('kthvalue', -1 if axis is None else axis, x)
    found = [_C.slice(v, [axis], [k - 1], [k]) for v in _sorted(x, axis, False, name, 'kthvalue')]
    return tuple(found if keepdim else [_C.squeeze(v, [axis]) for v in found])
