"""Activations as layers."""
from .. import functional as F
from ..initializer import Constant
from .layers import Layer

__all__ = ['CELU', 'ELU', 'GELU', 'GLU', 'Hardshrink', 'Hardsigmoid', 'Hardswish', 'Hardtanh', 'LeakyReLU',
           'LogSigmoid', 'LogSoftmax', 'Maxout', 'Mish', 'PReLU', 'RReLU', 'ReLU', 'ReLU6', 'SELU', 'Sigmoid', 'Silu',
           'Softmax', 'Softmax2D', 'Softplus', 'Softshrink', 'Softsign', 'Swish', 'Tanh', 'Tanhshrink',
           'ThresholdedReLU']


def _plain(name, function):
    """The layer of a function without arguments."""
    def __init__(self, name=None):
        Layer.__init__(self)
        self._name = name

    def forward(self, x):
        return function(x, name=self._name)
    for method in (__init__, forward):
        method.__qualname__ = f'{name}.{method.__name__}'
    return type(name, (Layer,), {'__init__': __init__, 'forward': forward, '__module__': __name__,
                                 '__doc__': f'{name}, element by element.'})


ReLU = _plain('ReLU', F.relu)
ReLU6 = _plain('ReLU6', F.relu6)
Sigmoid = _plain('Sigmoid', F.sigmoid)
LogSigmoid = _plain('LogSigmoid', F.log_sigmoid)
Silu = _plain('Silu', F.silu)
Swish = _plain('Swish', F.swish)
Mish = _plain('Mish', F.mish)
Softsign = _plain('Softsign', F.softsign)
Tanh = _plain('Tanh', F.tanh)
Tanhshrink = _plain('Tanhshrink', F.tanhshrink)
Hardsigmoid = _plain('Hardsigmoid', F.hardsigmoid)
Hardswish = _plain('Hardswish', F.hardswish)


class _With(Layer):
    """The layer of a function with arguments."""

    _function = None

    def _set(self, **how):
        Layer.__init__(self)
        self._how = how

    def forward(self, x):
        return type(self)._function(x, **self._how)

    def extra_repr(self):
        return ', '.join(f'{key}={value}' for key, value in self._how.items() if key != 'name')


class CELU(_With):
    _function = F.celu

    def __init__(self, alpha=1.0, name=None):
        self._set(alpha=alpha, name=name)


class ELU(_With):
    _function = F.elu

    def __init__(self, alpha=1.0, name=None):
        self._set(alpha=alpha, name=name)


class GELU(_With):
    _function = F.gelu

    def __init__(self, approximate=False, name=None):
        self._set(approximate=approximate, name=name)


class GLU(_With):
    _function = F.glu

    def __init__(self, axis=-1, name=None):
        self._set(axis=axis, name=name)


class Hardshrink(_With):
    _function = F.hardshrink

    def __init__(self, threshold=0.5, name=None):
        self._set(threshold=threshold, name=name)


class Hardtanh(_With):
    _function = F.hardtanh

    def __init__(self, min=-1.0, max=1.0, name=None):
        self._set(min=min, max=max, name=name)


class LeakyReLU(_With):
    _function = F.leaky_relu

    def __init__(self, negative_slope=0.01, name=None):
        self._set(negative_slope=negative_slope, name=name)


class LogSoftmax(_With):
    _function = F.log_softmax

    def __init__(self, axis=-1, name=None):
        self._set(axis=axis, name=name)


class Maxout(_With):
    _function = F.maxout

    def __init__(self, groups, axis=1, name=None):
        self._set(groups=groups, axis=axis, name=name)


class SELU(_With):
    _function = F.selu

    def __init__(self, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717, name=None):
        self._set(scale=scale, alpha=alpha, name=name)


class Softmax(_With):
    _function = F.softmax

    def __init__(self, axis=-1, name=None):
        self._set(axis=axis, name=name)


class Softmax2D(_With):
    """softmax over the channels of images."""

    _function = F.softmax

    def __init__(self, name=None):
        self._set(axis=-3, name=name)

    def forward(self, x):
        if len(x.shape) not in (3, 4):
            raise ValueError(f'Softmax2D takes 3 or 4 dimensions, got {list(x.shape)}')
        return super().forward(x)


class Softplus(_With):
    _function = F.softplus

    def __init__(self, beta=1, threshold=20, name=None):
        self._set(beta=beta, threshold=threshold, name=name)


class Softshrink(_With):
    _function = F.softshrink

    def __init__(self, threshold=0.5, name=None):
        self._set(threshold=threshold, name=name)


class ThresholdedReLU(_With):
    _function = F.thresholded_relu

    def __init__(self, threshold=1.0, name=None):
        self._set(threshold=threshold, name=name)


class PReLU(Layer):
    """x above 0, a trained weight times x below; one weight, or one for each channel."""

    def __init__(self, num_parameters=1, init=0.25, weight_attr=None, data_format='NCHW', name=None):
        super().__init__()
        self._data_format, self._name = data_format, name
        # Not named weight: state dicts of the original hold it under this key.
        self._weight = self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))

    def forward(self, x):
        return F.prelu(x, self._weight, self._data_format, self._name)


class RReLU(Layer):
    """LeakyReLU whose slope is drawn for every element in training."""

    def __init__(self, lower=1. / 8., upper=1. / 3., name=None):
        super().__init__()
        self._lower, self._upper, self._name = lower, upper, name

    def forward(self, x):
        return F.rrelu(x, self._lower, self._upper, self.training, self._name)
