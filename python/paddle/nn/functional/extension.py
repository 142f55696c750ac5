"""Functions of paddle.nn.functional for sequences, beams and attention."""
import _trireme as _C

from ..._style import one, static_style
from ...fluid import layers as _layers

__all__ = ['sequence_mask', 'gather_tree', 'diag_embed', 'scaled_dot_product_attention', 'sparse_attention']


@static_style
def sequence_mask(x, maxlen=None, dtype='int64', name=None):
    """Ones as far as each sequence goes, zeros behind: [..., maxlen] of lengths [...]."""
    return _layers.sequence_mask(x, maxlen, dtype, name)


@static_style
def gather_tree(ids, parents):
    """The words of whole beams, walked back from their ends."""
    return one('gather_tree', {'Ids': ids, 'Parents': parents})


@static_style
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Vectors on the diagonals of matrices."""
    return _layers.diag_embed(input, offset, dim1, dim2)


@static_style
def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, training=True,
                                 name=None):
    """softmax(query * key / sqrt(width)) * value; all are [batch, length, heads, width]."""
    from .common import dropout
    query, key, value = (_C.transpose(x, [0, 2, 1, 3]) for x in (query, key, value))
    scores = one('matmul_v2', {'X': _C.scale(query, query.shape[-1] ** -0.5), 'Y': key}, {'trans_y': True})
    if attn_mask is not None:
        scores = _C.elementwise('elementwise_add', scores, attn_mask, -1, None, None)
    if is_causal:
        # Ones on and below the diagonal; -1e9 is as good as no score at all.
        seen = _layers.tril(_C.ones_like(scores))
        seen.stop_gradient = True
        scores = _C.elementwise('elementwise_add', scores, _C.scale(seen, 1e9, -1e9), -1, None, None)
    weights = dropout(_C.softmax(scores), dropout_p, training=training) if dropout_p else _C.softmax(scores)
    return _C.transpose(one('matmul_v2', {'X': weights, 'Y': value}), [0, 2, 1, 3], name)


def sparse_attention(*args, **kwargs):
    raise NotImplementedError('sparse_attention is not built in Trireme: use scaled_dot_product_attention with '
                              'a mask')
