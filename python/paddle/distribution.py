"""paddle.distribution: what simple functions of variables give: Normal, Uniform, Categorical."""
import math

import _trireme as _C

from . import tensor as _t
from ._style import not_here as _not_here
from ._style import static_style
from .tensor.random import normal_like as _normal_like
from .tensor.random import uniform_like as _uniform_like

__all__ = ['Distribution', 'Normal', 'Uniform', 'Categorical', 'kl_divergence']


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
        from .nn.functional import log_softmax
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


def kl_divergence(p, q):
    """How far q is from p, for two distributions of one kind."""
    return p.kl_divergence(q)


for _name in ('AbsTransform', 'AffineTransform', 'Bernoulli', 'Beta', 'Cauchy', 'ChainTransform', 'Dirichlet',
              'ExpTransform', 'ExponentialFamily', 'Geometric', 'Gumbel', 'Independent', 'IndependentTransform', 'Laplace',
              'LogNormal', 'Multinomial', 'PowerTransform', 'ReshapeTransform', 'SigmoidTransform', 'SoftmaxTransform',
              'StackTransform', 'StickBreakingTransform', 'TanhTransform', 'Transform', 'TransformedDistribution',
              'register_kl'):
    globals()[_name] = _not_here(f'distribution.{_name}', 'Normal, Uniform and Categorical are there')
