"""Losses of paddle.nn.functional that compare labels with classes."""
import _trireme as _C

from ..._style import one, static_style

__all__ = ['cross_entropy', 'softmax_with_cross_entropy', 'binary_cross_entropy',
           'binary_cross_entropy_with_logits', 'nll_loss', 'ctc_loss', 'hsigmoid_loss', 'dice_loss', 'log_loss',
           'npair_loss', 'sigmoid_focal_loss', 'margin_cross_entropy', 'rnnt_loss']


def reduced(loss, reduction):
    """The loss itself, its mean or its sum."""
    if reduction == 'none':
        return loss
    if reduction not in ('mean', 'sum'):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return _C.reduce('reduce_' + reduction, loss, None, False, None, reduction)


def multiply(x, y):
    return _C.elementwise('elementwise_mul', x, y, -1, None, None)


def add(x, y):
    return _C.elementwise('elementwise_add', x, y, -1, None, None)


def subtract(x, y):
    return _C.elementwise('elementwise_sub', x, y, -1, None, None)


def divide(x, y):
    return _C.elementwise('elementwise_div', x, y, -1, None, None)


def at_least(x, number):
    return _C.elementwise('elementwise_max', x, _C.fill_constant([1], x.dtype, number), -1, None, None)


def positive(x):
    """x where it is above 0, else 0."""
    return one('relu', {'X': x})


def log(x):
    return one('log', {'X': x})


softmax_with_cross_entropy = static_style(_C.softmax_with_cross_entropy)
log_loss = static_style(_C.log_loss)


def _weighted_mean(loss, weights):
    """The sum of the loss by the sum of its weights; 0 where nothing counts."""
    total = _C.reduce('reduce_sum', weights, None, False, None)
    nothing = _C.cast(_C.compare('equal', total, _C.fill_constant([1], total.dtype, 0.0)), total.dtype)
    nothing.stop_gradient = True
    return divide(_C.reduce('reduce_sum', loss, None, False, None), add(total, nothing))


def _weights_of(label, weight, valid):
    """The weight of each label's class; 0 where the label is ignored."""
    safe = multiply(label, _C.cast(valid, label.dtype))
    found = _C.reshape(_C.gather(weight, _C.reshape(safe, [-1])), [0] + [-1 if d < 0 else d for d in label.shape[1:]]) \
        if len(label.shape) > 1 else _C.gather(weight, safe)
    return multiply(found, _C.cast(valid, weight.dtype))


@static_style
def cross_entropy(input, label, weight=None, ignore_index=-100, reduction='mean', soft_label=False, axis=-1,
                  use_softmax=True, label_smoothing=0.0, name=None):
    """-log of the probability of each label's class; use_softmax=False: input has probabilities already."""
    if reduction not in ('mean', 'sum', 'none'):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    if soft_label and ignore_index > 0:
        raise ValueError('cross_entropy: a soft label has no index to ignore: leave ignore_index out')
    rank = len(input.shape)
    axis = axis % rank
    if label_smoothing > 0:
        classes = input.shape[axis]
        if not soft_label:
            hard = _C.squeeze(label, [axis]) if len(label.shape) == rank else label
            label, soft_label = _C.one_hot_v2(hard, classes), True
            if axis != rank - 1:
                label = _C.transpose(label, [*range(axis), rank - 1, *range(axis, rank - 1)])
        label = _C.label_smooth(label, None, label_smoothing, input.dtype, None)
    if soft_label:
        return _soft_cross_entropy(input, label, weight, reduction, axis, use_softmax)
    flat = len(label.shape) == rank - 1
    if flat:
        label = _C.unsqueeze(label, [axis])
    loss = _hard_cross_entropy(input, label, ignore_index, axis, use_softmax)
    valid = _C.compare('not_equal', label, _C.fill_constant([1], label.dtype, ignore_index))
    valid.stop_gradient = True
    if weight is not None:
        if weight.shape[0] != input.shape[axis]:
            raise ValueError(f'cross_entropy: {weight.shape[0]} weights for {input.shape[axis]} classes')
        weights = _weights_of(label, weight, valid)
        loss = multiply(loss, weights)
    elif ignore_index >= 0:
        weights = _C.cast(valid, loss.dtype)
    # The default, -100, is no index: labels of -100 lose nothing, and count in the mean.
    if reduction == 'mean' and (weight is not None or ignore_index >= 0):
        return _weighted_mean(loss, weights)
    return reduced(_C.squeeze(loss, [axis]) if flat and reduction == 'none' else loss, reduction)


def _hard_cross_entropy(input, label, ignore_index, axis, use_softmax):
    if use_softmax:
        return _C.softmax_with_cross_entropy(input, label, False, ignore_index, True, False, axis)
    rank = len(input.shape)
    if axis != rank - 1:
        order = [*range(axis), *range(axis + 1, rank), axis]
        back = [*range(axis), rank - 1, *range(axis, rank - 1)]
        loss = _C.cross_entropy(_C.transpose(input, order), _C.transpose(label, order), False, ignore_index)
        return _C.transpose(loss, back)
    return _C.cross_entropy(input, label, False, ignore_index)


def _soft_cross_entropy(input, label, weight, reduction, axis, use_softmax):
    if use_softmax:
        loss = _C.softmax_with_cross_entropy(input, label, True, -100, True, False, axis)
    else:
        loss = _C.scale(_C.reduce('reduce_sum', multiply(label, log(input)), [axis], True, None), -1.0)
    if weight is None:
        return reduced(loss, reduction)
    shape = [1] * len(input.shape)
    shape[axis] = weight.shape[0]
    weights = _C.reduce('reduce_sum', multiply(label, _C.reshape(weight, shape)), [axis], True, None)
    loss = multiply(loss, weights)
    return _weighted_mean(loss, weights) if reduction == 'mean' else reduced(loss, reduction)


@static_style
def nll_loss(input, label, weight=None, ignore_index=-100, reduction='mean', name=None):
    """-input at the label's class; input has logarithms of probabilities, classes in dimension 1."""
    if len(input.shape) < 2 or len(label.shape) != len(input.shape) - 1:
        raise ValueError(f'nll_loss: input has shape {list(input.shape)}, label {list(label.shape)}: give '
                         '[batch, classes, ...] and [batch, ...]')
    rank, classes = len(input.shape), input.shape[1]
    valid = _C.compare('not_equal', label, _C.fill_constant([1], label.dtype, ignore_index))
    valid.stop_gradient = True
    chosen = _C.one_hot_v2(multiply(label, _C.cast(valid, label.dtype)), classes)
    weights = _C.cast(valid, input.dtype) if weight is None else _weights_of(label, weight, valid)
    by_class = input if rank == 2 else _C.transpose(input, [0, *range(2, rank), 1])
    found = _C.reduce('reduce_sum', multiply(by_class, chosen), [rank - 1], False, None)
    loss = multiply(_C.scale(found, -1.0), weights)
    return _weighted_mean(loss, weights) if reduction == 'mean' else reduced(loss, reduction)


@static_style
def binary_cross_entropy(input, label, weight=None, reduction='mean', name=None):
    """-label * log(input) - (1 - label) * log(1 - input); a logarithm counts as -100 at least."""
    def safe_log(x):
        return at_least(log(x), -100.0)
    loss = _C.scale(add(multiply(label, safe_log(input)),
                        multiply(_C.scale(label, -1.0, 1.0), safe_log(_C.scale(input, -1.0, 1.0)))), -1.0)
    return reduced(loss if weight is None else multiply(loss, weight), reduction)


@static_style
def binary_cross_entropy_with_logits(logit, label, weight=None, reduction='mean', pos_weight=None, name=None):
    """binary_cross_entropy of sigmoid(logit), computed without its rounding; pos_weight: of label 1."""
    if pos_weight is None:
        loss = one('sigmoid_cross_entropy_with_logits', {'X': logit, 'Label': label}, {})
    else:  # label * pos_weight * -log(sigmoid) + (1 - label) * -log(1 - sigmoid), put together
        of_one = _C.scale(multiply(label, _C.scale(pos_weight, 1.0, -1.0)), 1.0, 1.0)
        loss = subtract(multiply(_C.scale(label, -1.0, 1.0), logit), multiply(of_one, one('logsigmoid', {'X': logit})))
    return reduced(loss if weight is None else multiply(loss, weight), reduction)


@static_style
def ctc_loss(log_probs, labels, input_lengths, label_lengths, blank=0, reduction='mean', norm_by_times=False):
    """-log of the probability of all ways to write the labels: log_probs are [time, batch, classes + 1]."""
    outs = _C.apply('warpctc', {'Logits': log_probs, 'Label': labels, 'LogitsLength': input_lengths,
                                'LabelLength': label_lengths}, {'blank': blank, 'norm_by_times': norm_by_times},
                    None, 'warpctc')
    loss = _C.squeeze(outs['Loss'][0], [-1])
    if reduction == 'mean':
        return _C.reduce('reduce_mean', divide(loss, _C.cast(label_lengths, loss.dtype)), None, False, None)
    return reduced(loss, reduction)


@static_style
def hsigmoid_loss(input, label, num_classes, weight, bias=None, path_table=None, path_code=None, is_sparse=False,
                  name=None):
    """The loss of a tree of yes-or-no questions: [batch, 1]."""
    return one('hierarchical_sigmoid', {'X': input, 'W': weight, 'Bias': bias, 'PathTable': path_table,
                                        'PathCode': path_code, 'Label': label},
               {'num_classes': num_classes, 'is_sparse': is_sparse}, name, 'hsigmoid')


@static_style
def dice_loss(input, label, epsilon=1e-5, name=None):
    """1 - twice what input and label share, by what they have."""
    from ...fluid import layers
    return layers.dice_loss(input, label, epsilon)


@static_style
def npair_loss(anchor, positive, labels, l2_reg=0.002):
    """Softmax over the likeness of each anchor to every positive."""
    from ...fluid import layers
    return layers.npair_loss(anchor, positive, labels, l2_reg)


@static_style
def sigmoid_focal_loss(logit, label, normalizer=None, alpha=0.25, gamma=2.0, reduction='sum', name=None):
    """binary_cross_entropy_with_logits that counts less where the answer is right already."""
    loss = one('sigmoid_cross_entropy_with_logits', {'X': logit, 'Label': label}, {})
    share = one('sigmoid', {'X': logit})
    other = _C.scale(label, -1.0, 1.0)
    right = add(multiply(share, label), multiply(_C.scale(share, -1.0, 1.0), other))
    balance = add(_C.scale(label, alpha), _C.scale(other, 1 - alpha))
    loss = multiply(multiply(balance, loss), one('pow', {'X': _C.scale(right, -1.0, 1.0)}, {'factor': gamma}))
    return reduced(loss if normalizer is None else divide(loss, normalizer), reduction)


def margin_cross_entropy(*args, **kwargs):
    raise NotImplementedError('margin_cross_entropy is not built in Trireme: take the margin from the logits '
                              'and use cross_entropy')


def rnnt_loss(*args, **kwargs):
    raise NotImplementedError('rnnt_loss is not built in Trireme: use ctc_loss')
