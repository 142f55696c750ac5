"""fluid.contrib.layers: recurrent stacks of small ops, fused layers, and layers of later releases."""
import _trireme as _C
from _trireme import BasicGRUUnit, BasicLSTMUnit, basic_gru, basic_lstm, fused_bn_add_act

from . import fused, texts, trees
from .fused import *
from .texts import *
from .trees import *

__all__ = ['BasicGRUUnit', 'basic_gru', 'BasicLSTMUnit', 'basic_lstm', 'fused_bn_add_act',
           'sparse_embedding'] + fused.__all__ + texts.__all__ + trees.__all__

_TABLES = ('MemorySparseTable', 'CommonSparseTable', 'SSDSparseTable')


def sparse_embedding(input, size, padding_idx=None, is_test=False, entry=None,
                     table_class='MemorySparseTable', param_attr=None, dtype='float32', slot=None):
    """A table whose rows parameter servers may hold; in one process, an embedding with is_sparse."""
    if entry is not None:
        raise NotImplementedError('sparse_embedding: entry (which rows are let in) is not built yet '
                                  'in Trireme: leave it None')
    if table_class not in _TABLES:
        raise ValueError(f'sparse_embedding knows no table_class {table_class!r}: choose '
                         f'{", ".join(_TABLES[:-1])} or {_TABLES[-1]}')
    return _C.sparse_embedding(input, size, padding_idx, param_attr, dtype)


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.fluid.contrib.layers.{name} is not built yet in Trireme')
