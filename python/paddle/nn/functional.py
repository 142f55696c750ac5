"""Functions of paddle.nn.functional that build static programs."""
import _trireme as _C

from .._style import static_style, unary as _unary

__all__ = ['cross_entropy', 'softmax_with_cross_entropy', 'mse_loss', 'square_error_cost', 'softmax',
           'relu', 'sigmoid', 'tanh', 'leaky_relu', 'relu6', 'elu', 'softsign', 'softplus', 'gelu',
           'dropout', 'one_hot', 'label_smooth', 'log_loss', 'embedding']


def _mean_or_sum(loss, reduction):
    if reduction == 'none':
        return loss
    if reduction not in ('mean', 'sum'):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return _C.reduce('reduce_' + reduction, loss, None, False, None, reduction)


@static_style
def cross_entropy(input, label, weight=None, ignore_index=-100, reduction='mean', soft_label=False,
                  axis=-1, use_softmax=True, name=None):
    if weight is not None:
        raise NotImplementedError('cross_entropy: weight is not built yet')
    if use_softmax:
        loss = _C.softmax_with_cross_entropy(input, label, soft_label, ignore_index, True, False, axis)
    else:
        loss = _C.cross_entropy(input, label, soft_label, ignore_index)
    return _mean_or_sum(loss, reduction)


softmax_with_cross_entropy = static_style(_C.softmax_with_cross_entropy)
square_error_cost = static_style(_C.square_error_cost)
log_loss = static_style(_C.log_loss)


@static_style
def mse_loss(input, label, reduction='mean', name=None):
    return _mean_or_sum(_C.square_error_cost(input, label), reduction)


@static_style
def softmax(x, axis=-1, dtype=None, name=None):
    if dtype is not None:
        x = _C.cast(x, dtype)
    return _C.softmax(x, False, name, axis)


relu = _unary('relu')
sigmoid = _unary('sigmoid')
tanh = _unary('tanh')
relu6 = _unary('relu6')
softsign = _unary('softsign')
softplus = _unary('softplus')
gelu = _unary('gelu')


@static_style
def leaky_relu(x, negative_slope=0.01, name=None):
    return _C.apply('leaky_relu', {'X': x}, {'alpha': negative_slope}, name)['Out'][0]


@static_style
def elu(x, alpha=1.0, name=None):
    return _C.apply('elu', {'X': x}, {'alpha': alpha}, name)['Out'][0]


def _dropout_along(x, p, axes, training, mode, name):
    """One draw per index of `axes`: along the other axes all is kept or dropped together."""
    rank = len(x.shape)
    if not all(0 <= axis < rank for axis in axes):
        raise ValueError(f'dropout: axis is {axes}, but x has {rank} dimensions, from 0 to {rank - 1}')
    others = [axis for axis in range(rank) if axis not in axes]
    ones = _C.ones_like(_C.slice(x, others, [0] * len(others), [1] * len(others)) if others else x)
    return _C.elementwise('elementwise_mul', x, _C.dropout(ones, p, not training, None, name, mode))


@static_style
def dropout(x, p=0.5, axis=None, training=True, mode='upscale_in_train', name=None):
    mode = 'downgrade_in_infer' if mode == 'downscale_in_infer' else mode  # fluid's word for it
    if axis is not None:
        return _dropout_along(x, p, [axis] if isinstance(axis, int) else list(axis), training, mode, name)
    return _C.dropout(x, p, not training, None, name, mode)


@static_style
def one_hot(x, num_classes, name=None):
    return _C.one_hot_v2(x, num_classes)


@static_style
def label_smooth(label, prior_dist=None, epsilon=0.1, name=None):
    return _C.label_smooth(label, prior_dist, epsilon, 'float32', name)


@static_style
def embedding(x, weight, padding_idx=None, sparse=False, name=None):
    attrs = {'is_sparse': sparse, 'padding_idx': -1 if padding_idx is None else padding_idx}
    return _C.apply('lookup_table_v2', {'Ids': x, 'W': weight}, attrs, name, 'embedding')['Out'][0]
