"""Functions of 2.4 as methods of variables: x.mean(), x.reshape([2, -1])."""
import numpy

import _trireme as _C
from _trireme import Variable

from .._style import static_style
from ..fluid import layers as _layers
from ..fluid.layers.math_op_patch import _set_operator
from . import attribute, creation, linalg, logic, manipulation, math, random, running, search, stat

# What has no variable for its first argument.
_NO_METHODS = {'full', 'zeros', 'ones', 'empty', 'arange', 'linspace', 'logspace', 'eye', 'meshgrid', 'tril_indices',
               'triu_indices', 'assign', 'to_tensor', 'create_parameter', 'einsum', 'multi_dot', 'broadcast_tensors',
               'broadcast_shape', 'multiplex', 'add_n', 'scatter_nd', 'is_tensor', 'rand', 'randn', 'uniform', 'normal',
               'standard_normal', 'randint', 'randint_like', 'randperm', 'where', 'shape', 'atleast_1d', 'atleast_2d',
               'atleast_3d', 'zeros_like', 'ones_like', 'full_like', 'empty_like', 'shard_index', 'diag_embed'}
_PARTS = (attribute, creation, linalg, logic, manipulation, math, random, running, search, stat)


def _where(self, x=None, y=None, name=None):
    return search.where(self, x, y, name)


def _dim(self):
    """How many dimensions."""
    return len(self.shape)


@static_style
def _of_bits(function, self, other):
    return function(self, other)


def _gathered(x, places):
    """The rows of x at places, a variable of any shape."""
    rows = _C.gather(x, manipulation.reshape(places, [-1]))
    if len(places.shape) == 1:
        return rows
    return manipulation.reshape(rows, [d if d >= 0 else -1 for d in places.shape] + list(x.shape[1:]))


def _with_new_axes(x, keys):
    """x[...] with None for new dimensions of extent 1."""
    given = sum(key is not None and key is not Ellipsis for key in keys)
    out = x[tuple(key for key in keys if key is not None)] if given else x
    axes, at = [], 0
    for key in keys:
        if key is None:
            axes.append(at)
        at += len(x.shape) - given if key is Ellipsis else not isinstance(key, int)
    return manipulation.unsqueeze(out, axes)


@static_style
def _getitem(self, key):
    keys = key if isinstance(key, tuple) else (key,)
    if any(k is None for k in keys):
        return _with_new_axes(self, keys)
    if len(keys) == 1 and isinstance(keys[0], (list, numpy.ndarray)):
        return _getitem(self, _C.assign(numpy.asarray(keys[0])))
    if len(keys) == 1 and isinstance(keys[0], Variable):
        if _C.dtype_name(keys[0].dtype) != 'bool':
            return _gathered(self, keys[0])
        if len(keys[0].shape) == len(self.shape):
            return search.masked_select(self, keys[0])
        return _layers.gather_nd(self, search.nonzero(keys[0]))
    return _C.index(self, key)


def _setitem(self, key, value):
    raise NotImplementedError(f'{self.name}[...] = value is not built in Trireme: use paddle.where, paddle.scatter or '
                              'paddle.concat, which give a new variable')


def _item(self, *args):
    raise NotImplementedError(f'variable {self.name} has no value until it runs: fetch it with Executor.run')


def add_methods(in_place):
    """What Variable has under a name already stays: those are fluid's, and 2.4 has them too."""
    Variable.where = _where
    for part in _PARTS:
        for name in part.__all__:
            if name not in _NO_METHODS and not hasattr(Variable, name):
                setattr(Variable, name, getattr(part, name))
    for name in in_place:
        if not hasattr(Variable, name):
            setattr(Variable, name, getattr(Variable, name[:-1]))
    Variable.dim = Variable.ndimension = _dim
    Variable.ndim = property(_dim)
    Variable.T = property(lambda self: manipulation.transpose(self, list(range(len(self.shape)))[::-1]))
    _set_operator('__and__', lambda self, other: _of_bits(logic.bitwise_and, self, other))
    _set_operator('__or__', lambda self, other: _of_bits(logic.bitwise_or, self, other))
    _set_operator('__xor__', lambda self, other: _of_bits(logic.bitwise_xor, self, other))
    _set_operator('__invert__', lambda self: logic.bitwise_not(self))
    _set_operator('__abs__', lambda self: math.abs(self))
    Variable.item = Variable.tolist = _item
    Variable.__getitem__, Variable.__setitem__ = _getitem, _setitem
