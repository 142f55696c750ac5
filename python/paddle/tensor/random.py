"""Random numbers of 2.4."""
import _trireme as _C

from .._style import one, static_style
from ..fluid import layers as _layers
from .creation import dtype_or_default

__all__ = ['rand', 'randn', 'uniform', 'normal', 'standard_normal', 'randint', 'randint_like', 'randperm', 'bernoulli',
           'multinomial']


@static_style
def uniform(shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None):
    return _C.uniform_random(shape, dtype_or_default(dtype), min, max, seed, name)


@static_style
def rand(shape, dtype=None, name=None):
    """Numbers between 0 and 1."""
    return _C.uniform_random(shape, dtype_or_default(dtype), 0.0, 1.0, 0, name)


@static_style
def randn(shape, dtype=None, name=None):
    return _C.gaussian_random(shape, 0.0, 1.0, 0, dtype_or_default(dtype), name)


@static_style
def standard_normal(shape, dtype=None, name=None):
    return _C.gaussian_random(shape, 0.0, 1.0, 0, dtype_or_default(dtype), name)


@static_style
def normal(mean=0.0, std=1.0, shape=None, name=None):
    """Numbers from the normal distribution; mean and std may be variables, which then have the shape."""
    spread = next((v for v in (mean, std) if isinstance(v, _C.Variable)), None)
    if spread is None:
        return _C.gaussian_random(shape, mean, std, 0, _C.get_default_dtype(), name)
    noise = normal_like(spread)
    for op, value in (('elementwise_mul', std), ('elementwise_add', mean)):
        value = value if isinstance(value, _C.Variable) else _C.fill_constant([1], spread.dtype, value)
        noise = _C.elementwise(op, noise, value, -1, None, None)
    return noise


def normal_like(x):
    """Standard normal numbers of x's shape, whatever that is when the program runs."""
    shape = list(x.shape)
    if all(extent >= 0 for extent in shape):
        out = _C.gaussian_random(shape, 0.0, 1.0, 0, x.dtype)
    else:
        out = one('gaussian_random', {'ShapeTensor': _C.shape(x)}, {'mean': 0.0, 'std': 1.0, 'dtype': int(x.dtype)})
    out.stop_gradient = True
    return out


def uniform_like(x, low=0.0, high=1.0, dtype=None):
    """Uniform numbers of x's shape, whatever that is when the program runs."""
    shape, dtype = list(x.shape), x.dtype if dtype is None else _C.to_dtype(dtype)
    if all(extent >= 0 for extent in shape):
        out = _C.uniform_random(shape, dtype, low, high, 0, None)
    else:
        out = one('uniform_random', {'ShapeTensor': _C.shape(x)}, {'min': low, 'max': high, 'dtype': int(dtype)})
    out.stop_gradient = True
    return out


@static_style
def randint(low=0, high=None, shape=[1], dtype=None, name=None):
    """Whole numbers from low to below high; with high None, from 0 to below low."""
    return _layers.randint(low, high, shape, dtype='int64' if dtype is None else dtype, stop_gradient=True)


@static_style
def randint_like(x, low=0, high=None, dtype=None, name=None):
    """randint in the shape of x."""
    low, high = (0, low) if high is None else (low, high)
    numbers = one('floor', {'X': uniform_like(x, float(low), float(high), 'float32')})
    return _C.cast(numbers, x.dtype if dtype is None else dtype)


@static_style
def randperm(n, dtype='int64', name=None):
    """The numbers below n in no order."""
    draws = _C.uniform_random([n], 'float32', 0.0, 1.0, 0, None)
    order = _C.apply('argsort', {'X': draws}, {'axis': -1}, name, 'randperm')['Indices'][0]
    order.stop_gradient = True
    return order if _C.to_dtype(dtype) == order.dtype else _C.cast(order, dtype)


@static_style
def bernoulli(x, name=None):
    """1 with the probability that x gives, else 0."""
    out = _C.cast(_C.compare('less_than', uniform_like(x), x), x.dtype)
    out.stop_gradient = True
    return out


@static_style
def multinomial(x, num_samples=1, replacement=False, name=None):
    """Classes drawn by the weights x: [..., classes] gives [..., num_samples].

    The class with the largest log(weight) + Gumbel noise is one draw, and the num_samples largest are as many
    draws without replacement.
    """
    if not replacement and 0 <= x.shape[-1] < num_samples:
        raise ValueError(f'multinomial: {num_samples} of {x.shape[-1]} classes cannot be drawn without replacement')
    scores = one('log', {'X': x})
    if replacement:
        times = [1] * (len(x.shape) + 1)
        times[-2] = num_samples
        scores = _C.expand(_C.unsqueeze(scores, [-2]), times)
    noise = _C.scale(one('log', {'X': _C.scale(uniform_like(scores, 1e-7, 1.0), 1.0)}), -1.0)
    scores = _C.elementwise('elementwise_sub', scores, one('log', {'X': noise}), -1, None, None)
    if replacement:
        out = one('arg_max', {'X': scores}, {'axis': -1}, name, 'multinomial')
    else:
        out = _C.apply('top_k_v2', {'X': scores}, {'k': num_samples, 'axis': -1}, name, 'multinomial')['Indices'][0]
    out.stop_gradient = True
    return out
