"""Losses of paddle.nn.functional that go by differences and margins."""
import math

import _trireme as _C

from ..._style import one, static_style
from .loss import add, at_least, divide, log, multiply, positive, reduced, subtract

__all__ = ['mse_loss', 'l1_loss', 'smooth_l1_loss', 'kl_div', 'square_error_cost', 'margin_ranking_loss',
           'cosine_embedding_loss', 'hinge_embedding_loss', 'triplet_margin_loss',
           'triplet_margin_with_distance_loss', 'soft_margin_loss', 'multi_label_soft_margin_loss',
           'multi_margin_loss', 'poisson_nll_loss', 'gaussian_nll_loss', 'pairwise_distance']

square_error_cost = static_style(_C.square_error_cost)


@static_style
def mse_loss(input, label, reduction='mean', name=None):
    return reduced(_C.square_error_cost(input, label), reduction)


@static_style
def l1_loss(input, label, reduction='mean', name=None):
    return reduced(one('abs', {'X': subtract(input, label)}), reduction)


@static_style
def smooth_l1_loss(input, label, reduction='mean', delta=1.0, name=None):
    """Half the square of a difference up to delta, a straight line beyond."""
    return reduced(one('huber_loss', {'X': input, 'Y': label}, {'delta': delta}), reduction)


@static_style
def kl_div(input, label, reduction='mean', name=None):
    """label * (log(label) - input); input has logarithms."""
    return one('kldiv_loss', {'X': input, 'Target': label}, {'reduction': reduction}, name, 'kl_div', 'Loss')


@static_style
def margin_ranking_loss(input, other, label, margin=0.0, reduction='mean', name=None):
    """How far `other` is above `input` (label 1; below for -1), and the margin."""
    return reduced(positive(_C.scale(multiply(subtract(other, input), label), 1.0, margin)), reduction)


def _sum_last(x):
    return _C.reduce('reduce_sum', x, [-1], False, None)


@static_style
def cosine_embedding_loss(input1, input2, label, margin=0, reduction='mean', name=None):
    """1 - cosine where label is 1, cosine - margin (0 at least) where it is -1."""
    if len(input1.shape) > 2 or list(input1.shape) != list(input2.shape):
        raise ValueError(f'cosine_embedding_loss: the inputs must be alike, of one or two dimensions, got '
                         f'{list(input1.shape)} and {list(input2.shape)}')
    small = 1e-12
    lengths = multiply(_C.scale(_sum_last(one('square', {'X': input1})), 1.0, small),
                       _C.scale(_sum_last(one('square', {'X': input2})), 1.0, small))
    cosine = divide(_sum_last(multiply(input1, input2)), one('sqrt', {'X': lengths}))
    is_one = _C.cast(_C.compare('equal', label, _C.fill_constant([1], label.dtype, 1)), cosine.dtype)
    is_one.stop_gradient = True
    apart = positive(_C.scale(cosine, 1.0, -float(margin)))
    return reduced(add(multiply(is_one, _C.scale(cosine, -1.0, 1.0)),
                       multiply(_C.scale(is_one, -1.0, 1.0), apart)), reduction)


@static_style
def hinge_embedding_loss(input, label, margin=1.0, reduction='mean', name=None):
    """input where label is 1, margin - input (0 at least) where it is -1."""
    def where(number):
        mask = _C.cast(_C.compare('equal', label, _C.fill_constant([1], label.dtype, number)), input.dtype)
        mask.stop_gradient = True
        return mask
    return reduced(add(multiply(where(1), input),
                       multiply(where(-1), positive(_C.scale(input, -1.0, margin)))), reduction)


@static_style
def pairwise_distance(x, y, p=2.0, epsilon=1e-6, keepdim=False, name=None):
    """The p-norm of x - y + epsilon along the last dimension."""
    from ...tensor.linalg import norm
    return norm(_C.scale(subtract(x, y), 1.0, epsilon), float(p), -1, keepdim)


@static_style
def triplet_margin_loss(input, positive, negative, margin=1.0, p=2, epsilon=1e-6, swap=False, reduction='mean',
                        name=None):
    """How much nearer `negative` is than `positive`, and the margin."""
    return triplet_margin_with_distance_loss(
        input, positive, negative, lambda x, y: pairwise_distance(x, y, p, epsilon), margin, swap, reduction)


@static_style
def triplet_margin_with_distance_loss(input, positive, negative, distance_function=None, margin=1.0, swap=False,
                                      reduction='mean', name=None):
    """triplet_margin_loss by a distance of one's own."""
    if margin < 0:
        raise ValueError(f'triplet_margin_with_distance_loss: margin must not be negative, got {margin}')
    distance = distance_function or pairwise_distance
    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = _C.elementwise('elementwise_min', far, distance(positive, negative), -1, None, None)
    return reduced(one('relu', {'X': _C.scale(subtract(near, far), 1.0, margin)}), reduction)


@static_style
def soft_margin_loss(input, label, reduction='mean', name=None):
    """log(1 + e^(-label * input)); labels are 1 and -1."""
    product = multiply(_C.cast(label, input.dtype), input)
    return reduced(log(_C.scale(one('exp', {'X': _C.scale(product, -1.0)}), 1.0, 1.0)), reduction)


@static_style
def multi_label_soft_margin_loss(input, label, weight=None, reduction='mean', name=None):
    """The mean over the classes of binary_cross_entropy_with_logits."""
    loss = _C.scale(add(multiply(label, one('logsigmoid', {'X': input})),
                        multiply(_C.scale(label, -1.0, 1.0), one('logsigmoid', {'X': _C.scale(input, -1.0)}))), -1.0)
    if weight is not None:
        loss = multiply(loss, weight)
    return reduced(_C.reduce('reduce_mean', loss, [-1], False, None), reduction)


@static_style
def multi_margin_loss(input, label, p=1, margin=1.0, weight=None, reduction='mean', name=None):
    """How far the other classes come within margin of the label's class: [batch, classes] and [batch]."""
    if p not in (1, 2):
        raise ValueError(f'multi_margin_loss: p must be 1 or 2, got {p}')
    classes = input.shape[1]
    chosen = _C.one_hot_v2(_C.reshape(label, [-1]), classes)
    right = _C.reduce('reduce_sum', multiply(input, chosen), [1], True, None)
    over = positive(_C.scale(subtract(input, right), 1.0, margin))
    if weight is not None:
        over = multiply(over, _C.unsqueeze(_C.gather(weight, _C.reshape(label, [-1])), [1]))
    over = over if p == 1 else one('square', {'X': over})
    wrong = _C.scale(chosen, -1.0, 1.0)
    wrong.stop_gradient = True
    return reduced(_C.reduce('reduce_mean', multiply(over, wrong), [1], False, None), reduction)


@static_style
def poisson_nll_loss(input, label, log_input=True, full=False, epsilon=1e-8, reduction='mean', name=None):
    """e^input - label * input, or input - label * log(input); full: with Stirling's part."""
    if epsilon <= 0:
        raise ValueError(f'poisson_nll_loss: epsilon must be above 0, got {epsilon}')
    if log_input:
        loss = subtract(one('exp', {'X': input}), multiply(label, input))
    else:
        loss = subtract(input, multiply(label, log(_C.scale(input, 1.0, epsilon))))
    if full:
        above_one = _C.cast(_C.compare('greater_than', label, _C.fill_constant([1], label.dtype, 1.0)), input.dtype)
        above_one.stop_gradient = True
        safe = at_least(label, 1.0)
        stirling = add(subtract(multiply(safe, log(safe)), safe), _C.scale(log(_C.scale(safe, 2 * math.pi)), 0.5))
        loss = add(loss, multiply(stirling, above_one))
    return reduced(loss, reduction)


@static_style
def gaussian_nll_loss(input, label, variance, full=False, epsilon=1e-6, reduction='mean', name=None):
    """Half of log(variance) + difference^2 / variance; full: with the constant."""
    variance = at_least(variance, epsilon)
    loss = _C.scale(add(log(variance), divide(one('square', {'X': subtract(input, label)}), variance)), 0.5,
                    0.5 * math.log(2 * math.pi) if full else 0.0)
    return reduced(loss, reduction)
