"""Distributions whose parameters are numbers, arrays or variables: samples, entropies, divergences."""
import math

import numpy

import _trireme as _C

from .apply import one
from .elementwise import elementwise_add, elementwise_div, elementwise_mul, elementwise_sub, less_than
from .reduction import reduce_max, reduce_prod, reduce_sum

__all__ = ['Uniform', 'Normal', 'Categorical', 'MultivariateNormalDiag']


class Distribution:
    """What all have in common; one that cannot do something says so."""

    def sample(self):
        raise NotImplementedError(f'{type(self).__name__} has no sample')

    def entropy(self):
        raise NotImplementedError(f'{type(self).__name__} has no entropy')

    def kl_divergence(self, other):
        raise NotImplementedError(f'{type(self).__name__} has no kl_divergence')

    def log_prob(self, value):
        raise NotImplementedError(f'{type(self).__name__} has no log_prob')


def _parameter(value, what):
    if isinstance(value, _C.Variable):
        return value
    if isinstance(value, (int, float)):
        value = [value]
    if not isinstance(value, (list, tuple, numpy.ndarray)):
        raise TypeError(f'{what} is {value!r}: give a number, a list, an array or a variable')
    return _C.assign(numpy.asarray(value, 'float32'))


def _square(x):
    return one('square', {'X': x})


def _log(x):
    return one('log', {'X': x})


class _OfTwo(Distribution):
    """Two parameters, which broadcast; numbers alone add no dimension to samples."""

    def _set(self, first, second, names):
        self._numbers = all(isinstance(value, (int, float)) for value in (first, second))
        return _parameter(first, names[0]), _parameter(second, names[1])

    def _drawn(self, op, shape, like, attrs):
        """Random numbers of shape, and behind it the shape of `like`."""
        if not isinstance(shape, (list, tuple)):
            raise TypeError(f'shape is {shape!r}: give a list')
        wanted = list(shape) if self._numbers else list(shape) + list(like.shape)
        inputs, attrs = {}, dict(attrs, dtype=int(like.dtype))
        if min(wanted, default=0) < 0:  # extents that only the run knows
            own = _C.shape(like)
            wanted = list(shape) + [_C.slice(own, axes=[0], starts=[i], ends=[i + 1]) if extent < 0 else extent
                                    for i, extent in enumerate(like.shape)]
            inputs['ShapeTensorList'] = [extent if isinstance(extent, _C.Variable)
                                         else _C.fill_constant([1], 'int32', extent) for extent in wanted]
        else:
            attrs['shape'] = wanted
        return one(op, inputs, attrs)


class Uniform(_OfTwo):
    """Numbers from low to high."""

    def __init__(self, low, high):
        self.low, self.high = self._set(low, high, ('low', 'high'))

    def sample(self, shape, seed=0):
        width = elementwise_sub(self.high, self.low)
        drawn = self._drawn('uniform_random', shape, width, {'min': 0.0, 'max': 1.0, 'seed': seed})
        return elementwise_add(elementwise_mul(drawn, width), self.low)

    def log_prob(self, value):
        """The logarithm of the density; of 0 outside."""
        inside = elementwise_mul(_C.cast(less_than(self.low, value), value.dtype),
                                 _C.cast(less_than(value, self.high), value.dtype))
        return elementwise_sub(_log(inside), _log(elementwise_sub(self.high, self.low)))

    def entropy(self):
        return _log(elementwise_sub(self.high, self.low))


class Normal(_OfTwo):
    """Numbers around loc, as far as scale."""

    def __init__(self, loc, scale):
        self.loc, self.scale = self._set(loc, scale, ('loc', 'scale'))

    def sample(self, shape, seed=0):
        both = elementwise_add(self.loc, self.scale)
        drawn = self._drawn('gaussian_random', shape, both, {'mean': 0.0, 'std': 1.0, 'seed': seed})
        return elementwise_add(elementwise_mul(drawn, self.scale), self.loc)

    def entropy(self):
        return _C.scale(_log(self.scale), bias=0.5 + 0.5 * math.log(2 * math.pi))

    def log_prob(self, value):
        away = elementwise_div(elementwise_sub(value, self.loc), self.scale)
        density = elementwise_add(_C.scale(_square(away), scale=0.5), _log(self.scale))
        return _C.scale(density, scale=-1.0, bias=-0.5 * math.log(2 * math.pi))

    def kl_divergence(self, other):
        """How much another normal distribution differs from this one."""
        if not isinstance(other, Normal):
            raise TypeError('kl_divergence of Normal takes another Normal')
        ratio = _square(elementwise_div(self.scale, other.scale))
        apart = _square(elementwise_div(elementwise_sub(self.loc, other.loc), other.scale))
        both = elementwise_sub(elementwise_add(ratio, apart), _log(ratio))
        return _C.scale(both, scale=0.5, bias=-0.5)


class Categorical(Distribution):
    """One of several, by logits."""

    def __init__(self, logits):
        if not isinstance(logits, _C.Variable):
            raise TypeError('Categorical takes a variable of logits')
        self.logits = logits

    def _logs(self):
        """The logarithms of the probabilities."""
        shifted = elementwise_sub(self.logits, reduce_max(self.logits, dim=-1, keep_dim=True))
        total = reduce_sum(one('exp', {'X': shifted}), dim=-1, keep_dim=True)
        return elementwise_sub(shifted, _log(total))

    def kl_divergence(self, other):
        """How much another one differs from this one."""
        if not isinstance(other, Categorical):
            raise TypeError('kl_divergence of Categorical takes another Categorical')
        own = self._logs()
        weighed = elementwise_mul(one('exp', {'X': own}), elementwise_sub(own, other._logs()))
        return reduce_sum(weighed, dim=-1, keep_dim=True)

    def entropy(self):
        own = self._logs()
        return _C.scale(reduce_sum(elementwise_mul(one('exp', {'X': own}), own), dim=-1, keep_dim=True), scale=-1.0)


class MultivariateNormalDiag(Distribution):
    """Vectors around loc [k]; the diagonal of scale [k, k] is the variance of each number, the rest is 0."""

    def __init__(self, loc, scale):
        for value, what in ((loc, 'loc'), (scale, 'scale')):
            if not isinstance(value, _C.Variable):
                raise TypeError(f'{what} of MultivariateNormalDiag must be a variable')
        self.loc, self.scale = loc, scale

    def _variances(self):
        size = self.scale.shape[0]
        kept = elementwise_mul(self.scale, _C.assign(numpy.eye(size, dtype='float32')))
        return reduce_sum(kept, dim=1)

    def entropy(self):
        size = self.scale.shape[0]
        logs = _log(reduce_prod(self._variances()))
        return _C.scale(logs, scale=0.5, bias=0.5 * size * (1.0 + math.log(2 * math.pi)))

    def kl_divergence(self, other):
        """How much another one differs from this one."""
        if not isinstance(other, MultivariateNormalDiag):
            raise TypeError('kl_divergence of MultivariateNormalDiag takes another one')
        own, its = self._variances(), other._variances()
        ratio = elementwise_div(own, its)
        apart = elementwise_div(_square(elementwise_sub(other.loc, self.loc)), its)
        each = elementwise_sub(elementwise_add(ratio, apart), _log(ratio))
        return _C.scale(reduce_sum(each), scale=0.5, bias=-0.5 * self.scale.shape[0])
