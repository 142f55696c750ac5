"""Layers that take one tensor, element by element."""
from case import L, case


def _simple(name, low=-2.0, high=2.0, **arguments):
    def build(c):
        return getattr(L, name)(c.x([3, 7], low, high), **arguments)
    build.__module__ = __name__
    suffix = ''.join('_%s_%s' % item for item in sorted(arguments.items()))
    case(build, name + suffix)


for _name in ('abs', 'atan', 'cos', 'sin', 'erf', 'exp', 'logsigmoid', 'relu', 'sigmoid', 'softplus', 'softsign',
              'square', 'tanh', 'tanh_shrink', 'sign', 'ceil', 'floor', 'round', 'gelu', 'elu', 'selu', 'swish',
              'hard_sigmoid', 'hard_swish', 'leaky_relu', 'relu6', 'brelu', 'soft_relu', 'stanh', 'softshrink',
              'hard_shrink', 'thresholded_relu'):
    _simple(_name)
for _name in ('log', 'log1p', 'rsqrt', 'sqrt', 'reciprocal'):
    _simple(_name, 0.3, 3.0)
for _name in ('acos', 'asin'):
    _simple(_name, -0.9, 0.9)
_simple('elu', alpha=0.4)
_simple('selu', scale=1.1, alpha=1.3)
_simple('swish', beta=1.7)
_simple('hard_sigmoid', slope=0.3, offset=0.4)
_simple('hard_swish', threshold=5.0, scale=7.0, offset=2.0)
_simple('leaky_relu', alpha=0.3)
_simple('relu6', threshold=1.5)
_simple('brelu', t_min=-0.5, t_max=1.0)
_simple('soft_relu', threshold=1.0)
_simple('stanh', scale_a=0.5, scale_b=2.0)
_simple('softshrink', alpha=0.3)
_simple('hard_shrink', threshold=0.8)
_simple('thresholded_relu', threshold=0.4)
_simple('pow', 0.2, 2.0, factor=2.5)
_simple('pow', -2.0, 2.0, factor=3.0)
_simple('gelu', approximate=True)
_simple('scale', scale=2.5, bias=0.5)
_simple('scale', scale=2.5, bias=0.5, bias_after_scale=False)
_simple('scale', scale=-1.5, act='tanh')
_simple('clip', min=-0.5, max=0.75)
_simple('clip_by_norm', max_norm=1.5)
_simple('clip_by_norm', max_norm=100.0)


@case
def pow_of_a_variable(c):
    return L.pow(c.x([3, 4], 0.5, 2.0), L.fill_constant([1], 'float32', 1.5))


@case
def prelu_all(c):
    return L.prelu(c.x([2, 3, 4, 4]), mode='all')


@case
def prelu_channel(c):
    return L.prelu(c.x([2, 3, 4, 4]), mode='channel')


@case
def prelu_element(c):
    return L.prelu(c.x([2, 3, 4]), mode='element')


@case
def softmax_last(c):
    return L.softmax(c.x([3, 7], -3.0, 3.0))


@case
def softmax_axis(c):
    return L.softmax(c.x([2, 5, 3], -3.0, 3.0), axis=1)


@case
def activations_of_a_sequence(c):
    return L.relu(c.x([5, 3], lod=[[2, 3]]))


@case
def mish(c):
    return L.mish(c.x([3, 4], -3.0, 3.0))


@case
def mish_low_threshold(c):
    return L.mish(c.x([3, 4], -1.6, -1.0), 1)
