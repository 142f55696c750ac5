"""Losses as layers."""
from .. import functional as F
from .layers import Layer

__all__ = ['BCELoss', 'BCEWithLogitsLoss', 'CrossEntropyLoss', 'CTCLoss', 'CosineEmbeddingLoss', 'GaussianNLLLoss',
           'HSigmoidLoss', 'HingeEmbeddingLoss', 'KLDivLoss', 'L1Loss', 'MSELoss', 'MarginRankingLoss',
           'MultiLabelSoftMarginLoss', 'MultiMarginLoss', 'NLLLoss', 'PoissonNLLLoss', 'RNNTLoss', 'SmoothL1Loss',
           'SoftMarginLoss', 'TripletMarginLoss', 'TripletMarginWithDistanceLoss']


class _Loss(Layer):
    _function = None

    def _set(self, **how):
        Layer.__init__(self)
        reduction = how.get('reduction', 'mean')
        if reduction not in ('mean', 'sum', 'none') and not (reduction == 'batchmean' and type(self) is KLDivLoss):
            raise ValueError(f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self._how = how

    def forward(self, input, label):
        return type(self)._function(input, label, **self._how)


class _TwoArguments(_Loss):
    """Losses that only take reduction."""

    def __init__(self, reduction='mean', name=None):
        self._set(reduction=reduction, name=name)


class L1Loss(_TwoArguments):
    _function = F.l1_loss


class SoftMarginLoss(_TwoArguments):
    _function = F.soft_margin_loss


class MSELoss(_Loss):
    _function = F.mse_loss

    def __init__(self, reduction='mean'):
        self._set(reduction=reduction)


class KLDivLoss(_Loss):
    _function = F.kl_div

    def __init__(self, reduction='mean'):
        self._set(reduction=reduction)


class SmoothL1Loss(_Loss):
    _function = F.smooth_l1_loss

    def __init__(self, reduction='mean', delta=1.0, name=None):
        self._set(reduction=reduction, delta=delta, name=name)


class BCELoss(_Loss):
    _function = F.binary_cross_entropy

    def __init__(self, weight=None, reduction='mean', name=None):
        self._set(weight=weight, reduction=reduction, name=name)


class BCEWithLogitsLoss(_Loss):
    _function = F.binary_cross_entropy_with_logits

    def __init__(self, weight=None, reduction='mean', pos_weight=None, name=None):
        self._set(weight=weight, reduction=reduction, pos_weight=pos_weight, name=name)


class CrossEntropyLoss(_Loss):
    _function = F.cross_entropy

    def __init__(self, weight=None, ignore_index=-100, reduction='mean', soft_label=False, axis=-1, use_softmax=True,
                 label_smoothing=0.0, name=None):
        self._set(weight=weight, ignore_index=ignore_index, reduction=reduction, soft_label=soft_label, axis=axis,
                  use_softmax=use_softmax, label_smoothing=label_smoothing, name=name)


class NLLLoss(_Loss):
    _function = F.nll_loss

    def __init__(self, weight=None, ignore_index=-100, reduction='mean', name=None):
        self._set(weight=weight, ignore_index=ignore_index, reduction=reduction, name=name)


class MultiLabelSoftMarginLoss(_Loss):
    _function = F.multi_label_soft_margin_loss

    def __init__(self, weight=None, reduction='mean', name=None):
        self._set(weight=weight, reduction=reduction, name=name)


class MultiMarginLoss(_Loss):
    _function = F.multi_margin_loss

    def __init__(self, p=1, margin=1.0, weight=None, reduction='mean', name=None):
        self._set(p=p, margin=margin, weight=weight, reduction=reduction, name=name)


class HingeEmbeddingLoss(_Loss):
    _function = F.hinge_embedding_loss

    def __init__(self, margin=1.0, reduction='mean', name=None):
        self._set(margin=margin, reduction=reduction, name=name)


class PoissonNLLLoss(_Loss):
    _function = F.poisson_nll_loss

    def __init__(self, log_input=True, full=False, epsilon=1e-8, reduction='mean', name=None):
        self._set(log_input=log_input, full=full, epsilon=epsilon, reduction=reduction, name=name)


class CTCLoss(_Loss):
    def __init__(self, blank=0, reduction='mean'):
        self._set(blank=blank, reduction=reduction)

    def forward(self, log_probs, labels, input_lengths, label_lengths, norm_by_times=False):
        return F.ctc_loss(log_probs, labels, input_lengths, label_lengths, norm_by_times=norm_by_times, **self._how)


class CosineEmbeddingLoss(_Loss):
    def __init__(self, margin=0, reduction='mean', name=None):
        self._set(margin=margin, reduction=reduction, name=name)

    def forward(self, input1, input2, label):
        return F.cosine_embedding_loss(input1, input2, label, **self._how)


class GaussianNLLLoss(_Loss):
    def __init__(self, full=False, epsilon=1e-6, reduction='mean', name=None):
        self._set(full=full, epsilon=epsilon, reduction=reduction, name=name)

    def forward(self, input, label, variance):
        return F.gaussian_nll_loss(input, label, variance, **self._how)


class MarginRankingLoss(_Loss):
    def __init__(self, margin=0.0, reduction='mean', name=None):
        self._set(margin=margin, reduction=reduction, name=name)

    def forward(self, input, other, label):
        return F.margin_ranking_loss(input, other, label, **self._how)


class TripletMarginLoss(_Loss):
    def __init__(self, margin=1.0, p=2.0, epsilon=1e-6, swap=False, reduction='mean', name=None):
        self._set(margin=margin, p=p, epsilon=epsilon, swap=swap, reduction=reduction, name=name)

    def forward(self, input, positive, negative):
        return F.triplet_margin_loss(input, positive, negative, **self._how)


class TripletMarginWithDistanceLoss(_Loss):
    def __init__(self, distance_function=None, margin=1.0, swap=False, reduction='mean', name=None):
        self._set(distance_function=distance_function, margin=margin, swap=swap, reduction=reduction, name=name)

    def forward(self, input, positive, negative):
        return F.triplet_margin_with_distance_loss(input, positive, negative, **self._how)


class HSigmoidLoss(Layer):
    """The loss of a tree of yes-or-no questions over the classes, with their weights."""

    def __init__(self, feature_size, num_classes, weight_attr=None, bias_attr=None, is_custom=False, is_sparse=False,
                 name=None):
        super().__init__()
        if num_classes < 2:
            raise ValueError(f'HSigmoidLoss: {num_classes} classes need no questions')
        self._num_classes, self._is_custom, self._is_sparse = num_classes, is_custom, is_sparse
        nodes = num_classes if is_custom else num_classes - 1
        self.weight = self.create_parameter([nodes, feature_size], weight_attr)
        self.bias = self.create_parameter([nodes, 1], bias_attr, is_bias=True)

    def forward(self, input, label, path_table=None, path_code=None):
        if self._is_custom != (path_table is not None and path_code is not None):
            raise ValueError('HSigmoidLoss: path_table and path_code go with is_custom=True, both of them')
        return F.hsigmoid_loss(input, label, self._num_classes, self.weight, self.bias, path_table, path_code,
                               self._is_sparse)


class RNNTLoss(Layer):
    """Not built."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError('RNNTLoss is not built in Trireme: use CTCLoss')
