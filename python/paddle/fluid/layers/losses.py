"""Losses whose arguments are not their op's."""
import _trireme as _C

from .apply import one
from .elementwise import elementwise_add, elementwise_div, elementwise_mul, equal
from .reduction import reduce_mean, reduce_sum

__all__ = ['huber_loss', 'bpr_loss', 'cross_entropy2', 'dice_loss', 'margin_rank_loss', 'mse_loss', 'npair_loss',
           'teacher_student_sigmoid_loss']


def huber_loss(input, label, delta):
    return one('huber_loss', {'X': input, 'Y': label}, {'delta': delta})


def bpr_loss(input, label, name=None):
    return one('bpr_loss', {'X': input, 'Label': label}, name=name, out='Y')


def cross_entropy2(input, label, ignore_index=-100):
    return one('cross_entropy2', {'X': input, 'Label': label}, {'ignore_index': ignore_index},
               out='Y')


def margin_rank_loss(label, left, right, margin=0.1, name=None):
    """max(0, margin - label * (left - right)); label: 1 where left is to be above right, -1 below."""
    return one('margin_rank_loss', {'Label': label, 'X1': left, 'X2': right}, {'margin': margin}, name)


def teacher_student_sigmoid_loss(input, label, soft_max_up_bound=15.0, soft_max_lower_bound=-15.0):
    """The cross entropy of a click, and of a teacher's probability where there is one."""
    return one('teacher_student_sigmoid_loss', {'X': input, 'Label': label},
               {'soft_max_up_bound': float(soft_max_up_bound),
                'soft_max_lower_bound': float(soft_max_lower_bound)}, out='Y')


def mse_loss(input, label):
    """The mean of the squared differences: [1]."""
    return reduce_mean(_C.square_error_cost(input, label))


def dice_loss(input, label, epsilon=1e-5, name=None):
    """1 - how much of input's probabilities the classes in label cover, as the mean of the samples."""
    wanted = _C.one_hot(label, input.shape[-1])
    axes = list(range(1, len(input.shape)))
    both = reduce_sum(elementwise_mul(input, wanted), dim=axes)
    each = elementwise_add(reduce_sum(input, dim=axes), reduce_sum(wanted, dim=axes))
    score = elementwise_div(_C.scale(both, scale=2.0), _C.scale(each, scale=1.0, bias=epsilon))
    return reduce_mean(_C.scale(score, scale=-1.0, bias=1.0))


def npair_loss(anchor, positive, labels, l2_reg=0.002):
    """Anchors near the positives of their own label and far from all others, with a penalty of size."""
    count = labels.shape[0]
    rows = _C.expand(_C.reshape(labels, [count, 1]), [1, count])
    same = _C.cast(equal(rows, _C.transpose(rows, [1, 0])), 'float32')
    shares = elementwise_div(same, reduce_sum(same, dim=1, keep_dim=True))
    def size(x):
        return reduce_mean(reduce_sum(one('square', {'X': x}), 1))
    penalty = _C.scale(elementwise_add(size(anchor), size(positive)), scale=0.25 * l2_reg)
    alike = _C.matmul(anchor, positive, False, True)
    entropy = _C.softmax_with_cross_entropy(alike, shares, soft_label=True)
    loss = reduce_mean(reduce_sum(elementwise_mul(shares, entropy), 0))
    return elementwise_add(penalty, loss)
