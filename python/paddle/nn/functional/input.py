"""Functions of paddle.nn.functional that take indices."""
import _trireme as _C

from ..._style import one, static_style

__all__ = ['one_hot', 'embedding']


@static_style
def one_hot(x, num_classes, name=None):
    """Ones at the places that x says."""
    return _C.one_hot_v2(x, num_classes)


@static_style
def embedding(x, weight, padding_idx=None, sparse=False, name=None):
    """The rows of weight that x names; row padding_idx gives zeros and is not trained."""
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise ValueError(f'embedding: padding_idx is {padding_idx}, and the weight has {rows} rows')
    place = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else rows + padding_idx
    return one('lookup_table_v2', {'Ids': x, 'W': weight}, {'is_sparse': sparse, 'padding_idx': place}, name,
               'embedding')
