"""Losses of paddle.nn and paddle.nn.functional."""
import numpy as np
import paddle.nn as nn
import paddle.nn.functional as F
from case import case


def _pair(name, function, low=0.1, high=0.9, shape=(4, 3)):
    """A loss of two inputs, in its three reductions."""
    def build(c):
        x, y = c.x(list(shape), low, high), c.x(list(shape), low + 0.02, high - 0.01, grad=False)
        return [function(x, y, reduction) for reduction in ('mean', 'sum', 'none')]
    case(build, name)


_pair('f_mse_loss', lambda x, y, r: F.mse_loss(x, y, reduction=r))
_pair('f_l1_loss', lambda x, y, r: F.l1_loss(x, y, reduction=r))
_pair('f_smooth_l1_loss', lambda x, y, r: F.smooth_l1_loss(x, y, reduction=r, delta=0.3), -2.0, 2.0)
_pair('f_kl_div', lambda x, y, r: F.kl_div(x, y, reduction=r))
_pair('f_binary_cross_entropy', lambda x, y, r: F.binary_cross_entropy(x, y, reduction=r))
_pair('f_bce_with_logits', lambda x, y, r: F.binary_cross_entropy_with_logits(x, y, reduction=r))
_pair('f_poisson_nll_loss', lambda x, y, r: F.poisson_nll_loss(x, y, full=True, reduction=r), 0.2, 3.0)
_pair('f_multi_label_soft_margin_loss', lambda x, y, r: F.multi_label_soft_margin_loss(x, y, reduction=r))
_pair('f_log_loss', lambda x, y, r: F.log_loss(x, y), shape=(4, 1))
_pair('f_square_error_cost', lambda x, y, r: F.square_error_cost(x, y))


@case
def f_kl_div_batchmean(c):
    return F.kl_div(c.x([4, 3]), c.x([4, 3], 0.1, 0.9, grad=False), reduction='batchmean')


@case
def f_bce_weighted(c):
    x, y, w = c.x([4, 3], 0.1, 0.9), c.x([4, 3], 0.1, 0.8, grad=False), c.x([4, 3], 0.5, 2.0, grad=False)
    return (F.binary_cross_entropy(x, y, weight=w), nn.BCELoss(weight=w, reduction='sum')(x, y),
            nn.BCEWithLogitsLoss(weight=w, reduction='none')(x, y))


@case
def f_bce_pos_weight(c):
    x, y = c.x([4, 3], -2.0, 2.0), c.given(np.array([[1, 0, 1], [0, 0, 1]] * 2, 'float32'))
    pos_weight = c.x([3], 0.5, 2.0, fixed=True, grad=False)
    return (F.binary_cross_entropy_with_logits(x, y, pos_weight=pos_weight),
            F.binary_cross_entropy_with_logits(x, y, pos_weight=pos_weight, reduction='none'))


@case
def f_cross_entropy(c):
    x, label = c.x([5, 4]), c.ids([5], 4)
    return (F.cross_entropy(x, label), F.cross_entropy(x, label, reduction='sum'),
            F.cross_entropy(x, label, reduction='none'))


@case
def f_cross_entropy_of_columns(c):
    x, label = c.x([5, 4]), c.ids([5, 1], 4)
    return F.cross_entropy(x, label, reduction='none'), nn.CrossEntropyLoss()(x, label)


@case
def f_cross_entropy_ignored(c):
    x, label = c.x([6, 4]), c.given(np.array([0, 2, 3, 2, 1, 2], 'int64'))
    return F.cross_entropy(x, label, ignore_index=2), F.cross_entropy(x, label, ignore_index=2, reduction='sum')


@case
def f_cross_entropy_ignored_padding(c):
    x, label = c.x([6, 4]), c.given(np.array([0, -100, 3, -100, 1, 2], 'int64'))
    return F.cross_entropy(x, label), F.cross_entropy(x, label, reduction='none')


@case
def f_cross_entropy_weighted(c):
    x, label = c.x([6, 4]), c.given(np.array([0, 2, 3, 2, 1, 2], 'int64'))
    weight = c.x([4], 0.5, 2.0, fixed=True, grad=False)
    return (F.cross_entropy(x, label, weight=weight), F.cross_entropy(x, label, weight=weight, reduction='sum'),
            F.cross_entropy(x, label, weight=weight, ignore_index=3))


@case
def f_cross_entropy_soft(c):
    x, label = c.x([5, 4]), F.softmax(c.x([5, 4], grad=False))
    return F.cross_entropy(x, label, soft_label=True), F.cross_entropy(x, label, soft_label=True, reduction='none')


@case
def f_cross_entropy_of_maps(c):
    x, label = c.x([2, 3, 4, 5]), c.ids([2, 4, 5], 3)
    return F.cross_entropy(x, label, axis=1), F.cross_entropy(x, label, axis=1, reduction='none')


@case
def f_cross_entropy_of_shares(c):
    x, label = F.softmax(c.x([5, 4])), c.ids([5, 1], 4)
    return F.cross_entropy(x, label, use_softmax=False)


@case
def f_cross_entropy_smoothed(c):
    return F.cross_entropy(c.x([5, 4]), c.ids([5], 4), label_smoothing=0.1)


@case
def f_nll_loss(c):
    x, label = F.log_softmax(c.x([6, 4])), c.given(np.array([0, 2, 3, 2, 1, 2], 'int64'))
    weight = c.x([4], 0.5, 2.0, fixed=True, grad=False)
    return (F.nll_loss(x, label), F.nll_loss(x, label, reduction='none'), F.nll_loss(x, label, weight=weight),
            F.nll_loss(x, label, ignore_index=2))


@case
def f_nll_loss_of_maps(c):
    return nn.NLLLoss()(F.log_softmax(c.x([2, 3, 4, 5]), axis=1), c.ids([2, 4, 5], 3))


@case
def f_softmax_with_cross_entropy(c):
    return F.softmax_with_cross_entropy(c.x([5, 4]), c.ids([5, 1], 4), return_softmax=True)


@case
def f_margin_ranking_loss(c):
    x, y, label = c.x([5]), c.x([5]), c.given(np.array([1, -1, 1, -1, 1], 'float32'))
    return F.margin_ranking_loss(x, y, label, margin=0.2), F.margin_ranking_loss(x, y, label, reduction='none')


@case
def f_cosine_embedding_loss(c):
    return F.cosine_embedding_loss(c.x([4, 3]), c.x([4, 3]), c.given(np.array([1, -1, 1, -1], 'int64')), margin=-0.2)


@case
def f_hinge_embedding_loss(c):
    return F.hinge_embedding_loss(c.x([4, 3]), c.given(np.array([[1, -1, 1]] * 4, 'float32')), margin=0.6)


@case
def f_triplet_margin_loss(c):
    x, y, z = c.x([4, 3]), c.x([4, 3]), c.x([4, 3])
    return (F.triplet_margin_loss(x, y, z), F.triplet_margin_loss(x, y, z, margin=0.5, swap=True, reduction='none'),
            nn.TripletMarginWithDistanceLoss()(x, y, z))


@case
def f_soft_margin_loss(c):
    return F.soft_margin_loss(c.x([4, 3]), c.given(np.array([[1, -1, 1]] * 4, 'float32')))


@case
def f_multi_margin_loss(c):
    x, label = c.x([4, 3], fixed=True), c.ids([4], 3, fixed=True)
    return F.multi_margin_loss(x, label), F.multi_margin_loss(x, label, p=2, margin=0.4, reduction='none')


@case
def f_gaussian_nll_loss(c):
    return F.gaussian_nll_loss(c.x([4, 3]), c.x([4, 3], grad=False), c.x([4, 3], 0.2, 2.0), full=True)


@case
def f_sigmoid_focal_loss(c):
    return F.sigmoid_focal_loss(c.x([4, 3]), c.given(np.array([[1, 0, 0]] * 4, 'float32')))


@case
def f_dice_loss(c):
    return F.dice_loss(F.softmax(c.x([4, 3, 5])), c.ids([4, 3, 1], 5))


@case
def f_npair_loss(c):
    return F.npair_loss(c.x([4, 3], fixed=True), c.x([4, 3], fixed=True), c.given(np.array([0, 1, 0, 2], 'float32'), fixed=True))


@case
def nn_hsigmoid_loss(c):
    return nn.HSigmoidLoss(4, 6)(c.x([3, 4]), c.ids([3, 1], 6))


@case
def f_ctc_loss(c):
    lengths = c.given(np.array([6, 5], 'int64')), c.given(np.array([3, 2], 'int64'))
    x = c.x([6, 2, 4], fixed=True)
    labels = c.given(np.array([[1, 2, 3], [2, 1, 0]], 'int32'))
    return F.ctc_loss(x, labels, *lengths, reduction='none'), F.ctc_loss(x, labels, *lengths)
