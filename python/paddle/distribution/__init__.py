"""paddle.distribution: what functions of variables give; what needs the gamma function is not built."""
import math

import _trireme as _C

from .. import tensor as _t
from .._style import not_here as _not_here
from .._style import static_style
from ..tensor.random import normal_like as _normal_like
from ..tensor.random import uniform_like as _uniform_like
from . import transform as _transform
from .transform import *  # noqa: F401,F403

__all__ = ['Distribution', 'Normal', 'Uniform', 'Categorical', 'Bernoulli', 'Geometric', 'Laplace', 'Gumbel', 'Cauchy',
           'LogNormal', 'Independent', 'TransformedDistribution', 'kl_divergence', 'register_kl']
__all__ += _transform.__all__

_EULER = 0.57721566490153286  # the mean of Gumbel's distribution around 0


def _variable(value):
    """Numbers and arrays as constants of the program."""
    return value if isinstance(value, _C.Variable) else _t.to_tensor(value, 'float32')


class Distribution:
    """Derive from it: sample, log_prob, entropy, kl_divergence."""

    def sample(self, shape=()):
        raise NotImplementedError(f'{type(self).__name__} does not define sample')

    def entropy(self):
        raise NotImplementedError(f'{type(self).__name__} does not define entropy')

    def log_prob(self, value):
        raise NotImplementedError(f'{type(self).__name__} does not define log_prob')

    def kl_divergence(self, other):
        raise NotImplementedError(f'{type(self).__name__} does not define kl_divergence')

    def prob(self, value):
        return _t.exp(self.log_prob(value))

    probs = prob


class _OfTwo(Distribution):
    """Distributions of two parameters, which have one shape together."""

    def _spread(self, shape):
        """Both parameters with the shape of draws in front."""
        first, second = _t.broadcast_tensors([self._first, self._second])
        behind = 0 if self._of_numbers else len(first.shape)  # numbers have no shape to put behind
        zeros = _t.zeros(list(shape) + [1] * behind) if shape else None
        return [first, second] if zeros is None else [_t.add(part, zeros) for part in (first, second)]


class Normal(_OfTwo):
    """Numbers around loc with deviation scale."""

    @static_style
    def __init__(self, loc, scale, name=None):
        self.loc, self.scale = _variable(loc), _variable(scale)
        self._first, self._second = self.loc, self.scale
        self._of_numbers = isinstance(loc, (int, float)) and isinstance(scale, (int, float))

    mean = property(lambda self: self.loc)
    variance = property(lambda self: _t.square(self.scale))

    @static_style
    def rsample(self, shape=()):
        """Draws through which gradients flow."""
        loc, scale = self._spread(shape)
        return _t.add(loc, _t.multiply(_normal_like(scale), scale))

    def sample(self, shape=(), seed=0):
        """Draws of this shape, and behind it that of the parameters."""
        if seed:
            raise NotImplementedError('Normal.sample: seed is not built: call paddle.seed')
        out = self.rsample(shape)
        out.stop_gradient = True
        return out

    @static_style
    def entropy(self):
        return _t.scale(_t.log(_t.add(self.scale, _t.zeros_like(self.loc))), 1.0, 0.5 + 0.5 * math.log(2 * math.pi))

    @static_style
    def log_prob(self, value):
        apart = _t.divide(_t.subtract(value, self.loc), self.scale)
        return _t.subtract(_t.scale(_t.square(apart), -0.5, -0.5 * math.log(2 * math.pi)), _t.log(self.scale))

    @static_style
    def kl_divergence(self, other):
        ratio = _t.square(_t.divide(self.scale, other.scale))
        apart = _t.square(_t.divide(_t.subtract(self.loc, other.loc), other.scale))
        return _t.scale(_t.subtract(_t.scale(_t.add(ratio, apart), 1.0, -1.0), _t.log(ratio)), 0.5)


class Uniform(_OfTwo):
    """Numbers from low to high."""

    @static_style
    def __init__(self, low, high, name=None):
        self.low, self.high = _variable(low), _variable(high)
        self._first, self._second = self.low, self.high
        self._of_numbers = isinstance(low, (int, float)) and isinstance(high, (int, float))

    @static_style
    def sample(self, shape=(), seed=0):
        if seed:
            raise NotImplementedError('Uniform.sample: seed is not built: call paddle.seed')
        low, high = self._spread(shape)
        out = _t.add(low, _t.multiply(_uniform_like(low), _t.subtract(high, low)))
        out.stop_gradient = True
        return out

    @static_style
    def entropy(self):
        return _t.log(_t.subtract(self.high, self.low))

    @static_style
    def log_prob(self, value):
        inside = _t.logical_and(_t.less_than(self.low, value), _t.less_than(value, self.high))
        return _t.log(_t.divide(_t.cast(inside, 'float32'), _t.subtract(self.high, self.low)))


class Categorical(Distribution):
    """Classes by logits [..., classes]: entropy and kl_divergence take their softmax, draws their shares."""

    @static_style
    def __init__(self, logits, name=None):
        self.logits = _variable(logits)

    @static_style
    def sample(self, shape):
        """Draws of this shape, and behind it that of the logits without the classes."""
        count = 1
        for extent in shape:
            count *= extent
        drawn = _t.multinomial(self.logits, count, True)
        rank = len(self.logits.shape)
        if rank > 1:
            drawn = _t.transpose(drawn, [rank - 1, *range(rank - 1)])
        return _t.reshape(drawn, list(shape) + list(self.logits.shape[:-1]))

    def _logs(self):
        from ..nn.functional import log_softmax
        return log_softmax(self.logits)

    @static_style
    def entropy(self):
        logs = self._logs()
        return _t.scale(_t.sum(_t.multiply(_t.exp(logs), logs), -1, keepdim=False), -1.0)

    @static_style
    def kl_divergence(self, other):
        logs = self._logs()
        return _t.sum(_t.multiply(_t.exp(logs), _t.subtract(logs, other._logs())), -1)

    @static_style
    def probs(self, value):
        """The share of each class that value names, of the logits taken as weights."""
        shares = _t.divide(self.logits, _t.sum(self.logits, -1, keepdim=True))
        if len(shares.shape) == 1:
            return _t.reshape(_t.gather(shares, _t.reshape(value, [-1])), list(value.shape))
        return _t.take_along_axis(shares, value, -1)

    def log_prob(self, value):
        return _t.log(self.probs(value))


class _Around(_OfTwo):
    """Distributions of a place and a width."""

    @static_style
    def __init__(self, loc, scale, name=None):
        self.loc, self.scale = _variable(loc), _variable(scale)
        self._first, self._second = self.loc, self.scale
        self._of_numbers = isinstance(loc, (int, float)) and isinstance(scale, (int, float))

    stddev = property(lambda self: _t.sqrt(self.variance))

    def _apart(self, value):
        return _t.divide(_t.subtract(value, self.loc), self.scale)

    def _wide(self):
        """scale in the shape of both."""
        return _t.add(self.scale, _t.zeros_like(self.loc))

    @staticmethod
    def _standard(like):
        """Draws around 0 with width 1."""
        raise NotImplementedError

    @static_style
    def rsample(self, shape=()):
        """Draws through which gradients flow."""
        loc, scale = self._spread(shape)
        return _t.add(loc, _t.multiply(self._standard(scale), scale))

    def sample(self, shape=()):
        """Draws of this shape, and behind it that of the parameters."""
        out = self.rsample(shape)
        out.stop_gradient = True
        return out


def _between(like):
    """Numbers between 0 and 1, neither included: their logarithms are finite."""
    return _t.clip(_uniform_like(like), 1e-7, 1 - 1e-7)


class Laplace(_Around):
    """Numbers around loc whose distances fall off as e^(-distance / scale)."""

    mean = property(lambda self: self.loc)
    variance = property(lambda self: _t.scale(_t.square(self._wide()), 2.0))

    @staticmethod
    def _standard(like):
        turn = _t.scale(_between(like), 2.0, -1.0)
        return _t.multiply(_t.scale(_t.sign(turn), -1.0), _t.log(_t.scale(_t.abs(turn), -1.0, 1.0 + 1e-7)))

    @static_style
    def entropy(self):
        return _t.scale(_t.log(_t.scale(self._wide(), 2.0)), 1.0, 1.0)

    @static_style
    def log_prob(self, value):
        return _t.scale(_t.add(_t.abs(self._apart(value)), _t.log(_t.scale(self.scale, 2.0))), -1.0)

    @static_style
    def cdf(self, value):
        """The share of draws that are at most value."""
        apart = self._apart(value)
        below = _t.scale(_t.subtract(_t.exp(_t.scale(_t.abs(apart), -1.0)), _t.ones_like(apart)), 0.5)
        return _t.scale(_t.multiply(_t.sign(apart), below), -1.0, 0.5)

    @static_style
    def kl_divergence(self, other):
        ratio = _t.divide(self.scale, other.scale)
        apart = _t.abs(_t.subtract(self.loc, other.loc))
        near = _t.multiply(ratio, _t.exp(_t.scale(_t.divide(apart, self.scale), -1.0)))
        return _t.scale(_t.subtract(_t.add(near, _t.divide(apart, other.scale)), _t.log(ratio)), 1.0, -1.0)


class Gumbel(_Around):
    """The largest of many: numbers around loc, wider above it."""

    mean = property(lambda self: _t.add(self.loc, _t.scale(self._wide(), _EULER)))
    variance = property(lambda self: _t.scale(_t.square(self._wide()), math.pi ** 2 / 6))

    @staticmethod
    def _standard(like):
        return _t.scale(_t.log(_t.scale(_t.log(_between(like)), -1.0)), -1.0)

    @static_style
    def entropy(self):
        return _t.scale(_t.log(self._wide()), 1.0, 1.0 + _EULER)

    @static_style
    def log_prob(self, value):
        apart = self._apart(value)
        return _t.scale(_t.add(_t.add(apart, _t.exp(_t.scale(apart, -1.0))), _t.log(self.scale)), -1.0)

    @static_style
    def cdf(self, value):
        """The share of draws that are at most value."""
        return _t.exp(_t.scale(_t.exp(_t.scale(self._apart(value), -1.0)), -1.0))


class Cauchy(_Around):
    """Numbers around loc, so far apart that they have no mean."""

    @property
    def mean(self):
        raise ValueError('a Cauchy distribution has no mean')

    @property
    def variance(self):
        raise ValueError('a Cauchy distribution has no variance')

    @staticmethod
    def _standard(like):
        return _t.tan(_t.scale(_between(like), math.pi, -math.pi / 2))

    @static_style
    def entropy(self):
        return _t.scale(_t.log(self._wide()), 1.0, math.log(4 * math.pi))

    @static_style
    def log_prob(self, value):
        far = _t.log1p(_t.square(self._apart(value)))
        return _t.scale(_t.add(far, _t.log(self.scale)), -1.0, -math.log(math.pi))

    @static_style
    def cdf(self, value):
        """The share of draws that are at most value."""
        return _t.scale(_t.atan(self._apart(value)), 1 / math.pi, 0.5)


class LogNormal(Normal):
    """Numbers whose logarithms lie around loc with deviation scale."""

    mean = property(lambda self: _t.exp(_t.add(self.loc, _t.scale(_t.square(self.scale), 0.5))))

    @property
    def variance(self):
        square = _t.square(self.scale)
        return _t.multiply(_t.expm1(square), _t.exp(_t.add(_t.scale(self.loc, 2.0), square)))

    @static_style
    def rsample(self, shape=()):
        """Draws through which gradients flow."""
        return _t.exp(super().rsample(shape))

    @static_style
    def entropy(self):
        return _t.add(super().entropy(), self.loc)

    @static_style
    def log_prob(self, value):
        logarithm = _t.log(value)
        return _t.subtract(super().log_prob(logarithm), logarithm)


class _OfShares(Distribution):
    """Distributions of one probability."""

    @static_style
    def __init__(self, probs, name=None):
        # As far from 0 and 1 as float32 tells apart: logarithms stay finite.
        self.probs = _t.clip(_variable(probs), 1.2e-7, 1 - 1.2e-7)
        self._of_numbers = isinstance(probs, (int, float))

    stddev = property(lambda self: _t.sqrt(self.variance))

    def _spread(self, shape):
        behind = [] if self._of_numbers else list(self.probs.shape)
        return _t.expand(self.probs, list(shape) + behind) if shape else self.probs

    def prob(self, value):
        return _t.exp(self.log_prob(value))

    def sample(self, shape=()):
        """Draws of this shape, and behind it that of the probabilities."""
        out = self._drawn(self._spread(shape))
        out.stop_gradient = True
        return out


class Bernoulli(_OfShares):
    """1 with the probability probs, else 0."""

    mean = property(lambda self: self.probs)
    variance = property(lambda self: _t.multiply(self.probs, _t.scale(self.probs, -1.0, 1.0)))

    @static_style
    def _drawn(self, shares):
        return _t.cast(_t.less_than(_uniform_like(shares), shares), 'float32')

    @static_style
    def log_prob(self, value):
        right = _t.multiply(value, _t.log(self.probs))
        return _t.add(right, _t.multiply(_t.scale(value, -1.0, 1.0), _t.log1p(_t.scale(self.probs, -1.0))))

    @static_style
    def entropy(self):
        return _t.scale(self.log_prob(self.probs), -1.0)

    @static_style
    def kl_divergence(self, other):
        return _t.subtract(_t.scale(other.log_prob(self.probs), -1.0), self.entropy())


class Geometric(_OfShares):
    """How many failures come before the first success, which has the probability probs."""

    mean = property(lambda self: _t.scale(_t.reciprocal(self.probs), 1.0, -1.0))
    variance = property(lambda self: _t.divide(self.mean, self.probs))

    @static_style
    def _drawn(self, shares):
        return _t.floor(_t.divide(_t.log(_between(shares)), _t.log1p(_t.scale(shares, -1.0))))

    @static_style
    def log_prob(self, value):
        return _t.add(_t.multiply(value, _t.log1p(_t.scale(self.probs, -1.0))), _t.log(self.probs))

    pmf = Distribution.prob
    log_pmf = log_prob

    @static_style
    def entropy(self):
        failures = _t.multiply(self.mean, _t.log1p(_t.scale(self.probs, -1.0)))
        return _t.scale(_t.add(failures, _t.log(self.probs)), -1.0)

    @static_style
    def kl_divergence(self, other):
        return _t.subtract(_t.scale(other.log_prob(self.mean), -1.0), self.entropy())


class Independent(Distribution):
    """base, of which the last reinterpreted_batch_rank dimensions are one draw: their log_prob and entropy add up."""

    def __init__(self, base, reinterpreted_batch_rank):
        if not isinstance(base, Distribution):
            raise TypeError(f'base must be a Distribution, got {type(base).__name__}')
        if reinterpreted_batch_rank < 1:
            raise ValueError(f'reinterpreted_batch_rank is {reinterpreted_batch_rank}; give 1 or more')
        self.base, self._rank = base, reinterpreted_batch_rank

    mean = property(lambda self: self.base.mean)
    variance = property(lambda self: self.base.variance)

    def sample(self, shape=()):
        return self.base.sample(shape)

    @static_style
    def log_prob(self, value):
        return _transform.sum_of_last(self.base.log_prob(value), self._rank)

    @static_style
    def entropy(self):
        return _transform.sum_of_last(self.base.entropy(), self._rank)


class TransformedDistribution(Distribution):
    """Draws of base, sent through the transforms one after the other."""

    def __init__(self, base, transforms):
        if not isinstance(base, Distribution):
            raise TypeError(f'base must be a Distribution, got {type(base).__name__}')
        self.base, self.transforms = base, list(transforms)
        self._chain = _transform.ChainTransform(self.transforms)

    def sample(self, shape=()):
        """Transformed draws."""
        out = self._chain.forward(self.base.sample(shape))
        out.stop_gradient = True
        return out

    @static_style
    def rsample(self, shape=()):
        """Draws through which gradients flow, where base has such."""
        return self._chain.forward(self.base.rsample(shape))

    @static_style
    def log_prob(self, value):
        origin = self._chain.inverse(value)
        density = _transform.sum_of_last(self.base.log_prob(origin), self._chain._rank)
        return _t.subtract(density, self._chain.forward_log_det_jacobian(origin))


_distances = {}  # (kind of p, kind of q) -> function


def register_kl(cls_p, cls_q):
    """A decorator: kl_divergence asks the function for two distributions of these kinds."""
    for cls in (cls_p, cls_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f'cls_p and cls_q must be classes of Distributions, got {cls!r}')

    def register(function):
        _distances[cls_p, cls_q] = function
        return function
    return register


def kl_divergence(p, q):
    """How far q is from p: by the function that register_kl knows for the nearest of their classes, else p's own."""
    for cls_p in type(p).__mro__:
        for cls_q in type(q).__mro__:
            if (cls_p, cls_q) in _distances:
                return _distances[cls_p, cls_q](p, q)
    return p.kl_divergence(q)


for _name in ('Beta', 'Dirichlet', 'ExponentialFamily', 'Multinomial'):
    globals()[_name] = _not_here(f'distribution.{_name}', 'compose it of functions of variables')
