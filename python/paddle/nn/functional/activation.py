"""Activations of paddle.nn.functional."""
import _trireme as _C

from ..._style import check_axis, one, static_style, unary

__all__ = ['celu', 'elu', 'elu_', 'gelu', 'hardshrink', 'hardtanh', 'hardtanh_', 'hardsigmoid', 'hardswish',
           'leaky_relu', 'leaky_relu_', 'log_sigmoid', 'maxout', 'prelu', 'relu', 'relu_', 'relu6', 'selu',
           'softmax', 'softmax_', 'softplus', 'softshrink', 'softsign', 'sigmoid', 'silu', 'swish', 'mish',
           'tanh', 'tanh_', 'tanhshrink', 'thresholded_relu', 'thresholded_relu_', 'log_softmax', 'glu',
           'gumbel_softmax', 'rrelu']

relu = unary('relu')
relu6 = unary('relu6')
sigmoid = unary('sigmoid')
tanh = unary('tanh')
softsign = unary('softsign')
log_sigmoid = unary('logsigmoid', 'log_sigmoid')
tanhshrink = unary('tanh_shrink', 'tanhshrink')


@static_style
def celu(x, alpha=1.0, name=None):
    """x above 0, alpha * (e^(x / alpha) - 1) below."""
    if alpha == 0:
        raise ZeroDivisionError('celu: alpha is 0, and x is divided by it')
    low = _C.scale(_C.clip(x, -3.4028234663852886e38, 0.0), 1.0 / alpha)
    return _C.elementwise('elementwise_add', one('relu', {'X': x}),
                          _C.scale(one('exp', {'X': low}), alpha, -alpha), -1, None, name)


@static_style
def elu(x, alpha=1.0, name=None):
    return one('elu', {'X': x}, {'alpha': alpha}, name)


@static_style
def gelu(x, approximate=False, name=None):
    """x times the normal distribution's share below x; approximate: by tanh."""
    return one('gelu', {'X': x}, {'approximate': approximate}, name)


@static_style
def hardshrink(x, threshold=0.5, name=None):
    return one('hard_shrink', {'X': x}, {'threshold': threshold}, name)


@static_style
def hardtanh(x, min=-1.0, max=1.0, name=None):
    return one('brelu', {'X': x}, {'t_min': min, 't_max': max}, name)


@static_style
def hardsigmoid(x, slope=0.1666667, offset=0.5, name=None):
    return one('hard_sigmoid', {'X': x}, {'slope': slope, 'offset': offset}, name)


@static_style
def hardswish(x, name=None):
    return one('hard_swish', {'X': x}, {'threshold': 6.0, 'scale': 6.0, 'offset': 3.0}, name)


@static_style
def leaky_relu(x, negative_slope=0.01, name=None):
    return one('leaky_relu', {'X': x}, {'alpha': negative_slope}, name)


@static_style
def maxout(x, groups, axis=1, name=None):
    """The largest of every `groups` neighbouring channels."""
    return one('maxout', {'X': x}, {'groups': groups, 'axis': check_axis('maxout', axis, x)}, name)


@static_style
def mish(x, name=None):
    return one('mish', {'X': x}, {'threshold': 20.0}, name)


@static_style
def prelu(x, weight, data_format='NCHW', name=None):
    """x above 0, weight * x below; one weight, or one for each channel."""
    mode = 'all' if list(weight.shape) == [1] else 'channel'
    last = data_format in ('NLC', 'NHWC', 'NDHWC') and mode == 'channel'
    if last:  # the op has channels in dimension 1
        rank = len(x.shape)
        x = _C.transpose(x, [0, rank - 1, *range(1, rank - 1)])
    out = one('prelu', {'X': x, 'Alpha': weight}, {'mode': mode}, name)
    return _C.transpose(out, [0, *range(2, rank), 1]) if last else out


@static_style
def rrelu(x, lower=1. / 8., upper=1. / 3., training=True, name=None):
    """leaky_relu whose slope is drawn for every element; without training it is the middle one."""
    if not 0 <= lower <= upper <= 1:
        raise ValueError(f'rrelu: 0 <= lower <= upper <= 1 must hold, got {lower} and {upper}')
    if not training:
        return one('leaky_relu', {'X': x}, {'alpha': (lower + upper) / 2}, name, 'rrelu')
    slope = _uniform_like(x, lower, upper)
    low = _C.clip(x, -3.4028234663852886e38, 0.0)
    return _C.elementwise('elementwise_add', one('relu', {'X': x}),
                          _C.elementwise('elementwise_mul', low, slope, -1, None, None), -1, None, name)


def _uniform_like(x, low, high):
    """Numbers of x's shape, whatever that is when the program runs."""
    shape = list(x.shape)
    if all(extent >= 0 for extent in shape):
        out = _C.uniform_random(shape, x.dtype, low, high, 0, None)
    else:
        out = one('uniform_random', {'ShapeTensor': _C.shape(x)}, {'min': low, 'max': high, 'dtype': int(x.dtype)})
    out.stop_gradient = True
    return out


@static_style
def selu(x, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717, name=None):
    return one('selu', {'X': x}, {'scale': scale, 'alpha': alpha}, name)


@static_style
def silu(x, name=None):
    """x * sigmoid(x)"""
    return one('swish', {'X': x}, {'beta': 1.0}, name, 'silu')


@static_style
def swish(x, name=None):
    return one('swish', {'X': x}, {'beta': 1.0}, name)


@static_style
def softplus(x, beta=1, threshold=20, name=None):
    """log(1 + e^(beta * x)) / beta; x itself where beta * x is above threshold."""
    return one('softplus', {'X': x}, {'beta': float(beta), 'threshold': float(threshold)}, name)


@static_style
def softshrink(x, threshold=0.5, name=None):
    if threshold < 0:
        raise ValueError(f'softshrink: threshold must not be negative, got {threshold}')
    return one('softshrink', {'X': x}, {'lambda': threshold}, name)


@static_style
def thresholded_relu(x, threshold=1.0, name=None):
    return one('thresholded_relu', {'X': x}, {'threshold': threshold}, name)


@static_style
def softmax(x, axis=-1, dtype=None, name=None):
    if dtype is not None:
        x = _C.cast(x, dtype)
    return _C.softmax(x, False, name, axis)


@static_style
def log_softmax(x, axis=-1, dtype=None, name=None):
    """The logarithm of softmax, computed without softmax's rounding."""
    from ...fluid import layers
    return layers.log_softmax(x, axis, dtype, name)


@static_style
def glu(x, axis=-1, name=None):
    """The first half along axis times the sigmoid of the second."""
    halves = _C.split(x, 2, axis, None)
    return _C.elementwise('elementwise_mul', halves[0], one('sigmoid', {'X': halves[1]}), -1, None, name)


@static_style
def gumbel_softmax(x, temperature=1.0, hard=False, axis=-1, name=None):
    """softmax of x with Gumbel noise; hard: ones at the largest, with the gradient of the soft values."""
    tiny = 1e-20
    noise = one('log', {'X': _C.scale(_uniform_like(x, 0.0, 1.0), 1.0, tiny)})
    noise = one('log', {'X': _C.scale(noise, -1.0, tiny)})
    noise.stop_gradient = True
    soft = _C.softmax(_C.scale(_C.elementwise('elementwise_sub', x, noise, -1, None, None), 1.0 / temperature),
                      False, None, axis)
    if not hard:
        return soft
    most = _C.reduce('reduce_max', soft, [axis], True, None)
    ones = _C.cast(_C.compare('equal', soft, most), x.dtype)
    apart = _C.elementwise('elementwise_sub', ones, soft, -1, None, None)
    apart.stop_gradient = True
    return _C.elementwise('elementwise_add', apart, soft, -1, None, name)


# In a static program nothing happens in place: these are the same functions, as in 2.4.
elu_, hardtanh_, leaky_relu_, relu_ = elu, hardtanh, leaky_relu, relu
softmax_, tanh_, thresholded_relu_ = softmax, tanh, thresholded_relu
