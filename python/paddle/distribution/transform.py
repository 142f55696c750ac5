"""Functions of draws, with their inverses and how they stretch space: paddle.distribution's transforms."""
import functools
import math
import operator

import _trireme as _C

from .. import tensor as _t
from .._style import static_style
from ..nn.functional import log_sigmoid, sigmoid, softmax, softplus

__all__ = ['Transform', 'AbsTransform', 'AffineTransform', 'ChainTransform', 'ExpTransform', 'IndependentTransform',
           'PowerTransform', 'ReshapeTransform', 'SigmoidTransform', 'SoftmaxTransform', 'StackTransform',
           'StickBreakingTransform', 'TanhTransform']


def _variable(value):
    """Numbers and arrays as constants of the program."""
    return value if isinstance(value, _C.Variable) else _t.to_tensor(value, 'float32')


def sum_of_last(value, rank):
    """The sum over the last `rank` dimensions."""
    return _t.sum(value, list(range(len(value.shape) - rank, len(value.shape)))) if rank else value


class Transform:
    """y = forward(x), x = inverse(y), and the logarithm of how much each stretches.

    Derive from it: _forward, _inverse and _stretch, the log of |dy/dx| at x. _rank is how many last dimensions the
    function takes together.
    """

    _rank = 0
    _has_inverse = True  # one x for each y

    def __call__(self, x):
        """A distribution of transformed draws, a chain of transforms, or forward(x)."""
        from . import Distribution, TransformedDistribution
        if isinstance(x, Distribution):
            return TransformedDistribution(x, [self])
        if isinstance(x, Transform):
            return ChainTransform([self, x])
        return self.forward(x)

    @static_style
    def forward(self, x):
        return self._forward(_variable(x))

    @static_style
    def inverse(self, y):
        return self._inverse(_variable(y))

    @static_style
    def forward_log_det_jacobian(self, x):
        """log |dy/dx| at x; summed over the dimensions that the function takes together."""
        if not self._has_inverse:
            raise NotImplementedError(f'{type(self).__name__} gives one y for several x: it has no log_det_jacobian')
        return self._stretch(_variable(x))

    @static_style
    def inverse_log_det_jacobian(self, y):
        """log |dx/dy| at y."""
        return _t.scale(self.forward_log_det_jacobian(self.inverse(y)), -1.0)

    def forward_shape(self, shape):
        return tuple(shape)

    def inverse_shape(self, shape):
        return tuple(shape)

    def _forward(self, x):
        raise NotImplementedError(f'{type(self).__name__} does not define _forward')

    def _inverse(self, y):
        raise NotImplementedError(f'{type(self).__name__} does not define _inverse')

    def _stretch(self, x):
        raise NotImplementedError(f'{type(self).__name__} does not define _stretch')


class AbsTransform(Transform):
    """y = |x|. Its inverse is both x, the one below 0 first."""

    _has_inverse = False

    def _forward(self, x):
        return _t.abs(x)

    def _inverse(self, y):
        return _t.scale(y, -1.0), y

    @static_style
    def inverse_log_det_jacobian(self, y):
        zeros = _t.zeros_like(_variable(y))
        return zeros, zeros


class AffineTransform(Transform):
    """y = loc + scale x."""

    @static_style
    def __init__(self, loc, scale):
        self.loc, self.scale = _variable(loc), _variable(scale)

    def _forward(self, x):
        return _t.add(self.loc, _t.multiply(self.scale, x))

    def _inverse(self, y):
        return _t.divide(_t.subtract(y, self.loc), self.scale)

    def _stretch(self, x):
        return _t.add(_t.log(_t.abs(self.scale)), _t.zeros_like(x))


class ExpTransform(Transform):
    """y = exp(x)."""

    def _forward(self, x):
        return _t.exp(x)

    def _inverse(self, y):
        return _t.log(y)

    def _stretch(self, x):
        return _t.assign(x)


class PowerTransform(Transform):
    """y = x ** power, for x above 0."""

    @static_style
    def __init__(self, power):
        self.power = _variable(power)

    def _forward(self, x):
        return _t.pow(x, self.power)

    def _inverse(self, y):
        return _t.pow(y, _t.reciprocal(self.power))

    def _stretch(self, x):
        return _t.add(_t.log(_t.abs(self.power)), _t.multiply(_t.scale(self.power, 1.0, -1.0), _t.log(x)))


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))."""

    def _forward(self, x):
        return sigmoid(x)

    def _inverse(self, y):
        return _t.subtract(_t.log(y), _t.log1p(_t.scale(y, -1.0)))

    def _stretch(self, x):
        return _t.add(log_sigmoid(x), log_sigmoid(_t.scale(x, -1.0)))


class TanhTransform(Transform):
    """y = tanh(x)."""

    def _forward(self, x):
        return _t.tanh(x)

    def _inverse(self, y):
        return _t.scale(_t.subtract(_t.log1p(y), _t.log1p(_t.scale(y, -1.0))), 0.5)

    def _stretch(self, x):  # log(1 - tanh(x)^2), without the difference that rounds to 0 far out
        return _t.scale(_t.add(x, softplus(_t.scale(x, -2.0))), -2.0, 2 * math.log(2))


class SoftmaxTransform(Transform):
    """Shares of the last dimension; adding a number to all of x changes no share, so that the inverse is log(y)."""

    _rank = 1
    _has_inverse = False

    def _forward(self, x):
        return softmax(x, -1)

    def _inverse(self, y):
        return _t.log(y)


class StickBreakingTransform(Transform):
    """K numbers become K + 1 shares: each takes its part of what those before it have left."""

    _rank = 1

    def _leaning(self, x):
        """x, moved so that zeros give equal shares."""
        count = x.shape[-1]
        left = [math.log(count - i) for i in range(count)]
        return _t.subtract(x, _t.to_tensor(left, 'float32'))

    def _forward(self, x):
        parts = sigmoid(self._leaning(x))
        one = _t.ones_like(_t.slice(parts, [-1], [0], [1]))
        left = _t.cumprod(_t.scale(parts, -1.0, 1.0), dim=-1)
        return _t.multiply(_t.concat([parts, one], -1), _t.concat([one, left], -1))

    def _inverse(self, y):
        shares = _t.slice(y, [-1], [0], [y.shape[-1] - 1])
        left = _t.scale(_t.cumsum(shares, -1), -1.0, 1.0)
        count = y.shape[-1] - 1
        moved = [math.log(count - i) for i in range(count)]
        return _t.add(_t.subtract(_t.log(shares), _t.log(left)), _t.to_tensor(moved, 'float32'))

    def _stretch(self, x):
        leaning = self._leaning(x)
        shares = _t.slice(self._forward(x), [-1], [0], [x.shape[-1]])
        return sum_of_last(_t.add(log_sigmoid(_t.scale(leaning, -1.0)), _t.log(shares)), 1)

    def forward_shape(self, shape):
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)


class ReshapeTransform(Transform):
    """The last dimensions, of shape in_event_shape, become those of out_event_shape."""

    def __init__(self, in_event_shape, out_event_shape):
        self.in_event_shape, self.out_event_shape = tuple(in_event_shape), tuple(out_event_shape)
        sizes = [functools.reduce(operator.mul, shape, 1) for shape in (self.in_event_shape, self.out_event_shape)]
        if sizes[0] != sizes[1]:
            raise ValueError(f'in_event_shape {list(self.in_event_shape)} holds {sizes[0]} numbers, out_event_shape '
                             f'{list(self.out_event_shape)} {sizes[1]}')
        self._rank = len(self.in_event_shape)

    def _before(self, shape, last):
        if tuple(shape[len(shape) - len(last):]) != last:
            raise ValueError(f'the shape {list(shape)} does not end with {list(last)}')
        return list(shape[:len(shape) - len(last)])

    def _forward(self, x):
        return _t.reshape(x, self._before(x.shape, self.in_event_shape) + list(self.out_event_shape))

    def _inverse(self, y):
        return _t.reshape(y, self._before(y.shape, self.out_event_shape) + list(self.in_event_shape))

    def _stretch(self, x):
        before = self._before(x.shape, self.in_event_shape)
        return _t.zeros(before or [1])

    def forward_shape(self, shape):
        return (*self._before(shape, self.in_event_shape), *self.out_event_shape)

    def inverse_shape(self, shape):
        return (*self._before(shape, self.out_event_shape), *self.in_event_shape)


class IndependentTransform(Transform):
    """base, of which the last reinterpreted_batch_rank dimensions are one element: what they stretch adds up."""

    def __init__(self, base, reinterpreted_batch_rank):
        if not isinstance(base, Transform):
            raise TypeError(f'base must be a Transform, got {type(base).__name__}')
        if reinterpreted_batch_rank < 1:
            raise ValueError(f'reinterpreted_batch_rank is {reinterpreted_batch_rank}; give 1 or more')
        self.base, self._more, self._has_inverse = base, reinterpreted_batch_rank, base._has_inverse
        self._rank = base._rank + reinterpreted_batch_rank

    def _forward(self, x):
        return self.base.forward(x)

    def _inverse(self, y):
        return self.base.inverse(y)

    def _stretch(self, x):
        return sum_of_last(self.base.forward_log_det_jacobian(x), self._more)

    def forward_shape(self, shape):
        return self.base.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base.inverse_shape(shape)


def _checked(transforms):
    transforms = list(transforms)
    if not transforms or not all(isinstance(each, Transform) for each in transforms):
        raise TypeError('transforms must be a list of Transforms, one at least')
    return transforms


class ChainTransform(Transform):
    """One transform after the other, the first first."""

    def __init__(self, transforms):
        self.transforms = _checked(transforms)
        self._has_inverse = all(each._has_inverse for each in self.transforms)
        self._rank = max(each._rank for each in self.transforms)

    def _forward(self, x):
        for each in self.transforms:
            x = each.forward(x)
        return x

    def _inverse(self, y):
        for each in reversed(self.transforms):
            y = each.inverse(y)
        return y

    def _stretch(self, x):
        total = None
        for each in self.transforms:
            part = sum_of_last(each.forward_log_det_jacobian(x), self._rank - each._rank)
            total = part if total is None else _t.add(total, part)
            x = each.forward(x)
        return total

    def forward_shape(self, shape):
        for each in self.transforms:
            shape = each.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape):
        for each in reversed(self.transforms):
            shape = each.inverse_shape(shape)
        return tuple(shape)


class StackTransform(Transform):
    """A transform for each slice along an axis."""

    def __init__(self, transforms, axis=0):
        self.transforms, self.axis = _checked(transforms), axis
        self._has_inverse = all(each._has_inverse for each in self.transforms)
        if any(each._rank for each in self.transforms):
            raise ValueError('the transforms of a StackTransform work element by element')

    def _of_slices(self, value, name):
        if value.shape[self.axis] != len(self.transforms):
            raise ValueError(f'dimension {self.axis} has {value.shape[self.axis]} slices for {len(self.transforms)} transforms')
        slices = _t.unstack(value, self.axis)
        return _t.stack([getattr(each, name)(part) for each, part in zip(self.transforms, slices)], self.axis)

    def _forward(self, x):
        return self._of_slices(x, 'forward')

    def _inverse(self, y):
        return self._of_slices(y, 'inverse')

    def _stretch(self, x):
        return self._of_slices(x, 'forward_log_det_jacobian')
