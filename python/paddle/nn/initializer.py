"""Initializers under their 2.4 names."""
import math

import numpy

import _trireme as _C

__all__ = ['Bilinear', 'Constant', 'KaimingUniform', 'KaimingNormal', 'XavierNormal', 'XavierUniform', 'Assign',
           'Normal', 'TruncatedNormal', 'Uniform', 'Orthogonal', 'Dirac', 'set_global_initializer', 'calculate_gain']

Bilinear = _C.BilinearInitializer
Initializer = _C.Initializer


class Constant(_C.ConstantInitializer):
    def __init__(self, value=0.0):
        super().__init__(value)


class Normal(_C.NormalInitializer):
    def __init__(self, mean=0.0, std=1.0, name=None):
        super().__init__(mean, std)


class TruncatedNormal(_C.TruncatedNormalInitializer):
    def __init__(self, mean=0.0, std=1.0, name=None):
        super().__init__(mean, std)


class Uniform(_C.UniformInitializer):
    def __init__(self, low=-1.0, high=1.0, name=None):
        super().__init__(low, high)


class XavierNormal(_C.XavierInitializer):
    def __init__(self, fan_in=None, fan_out=None, name=None):
        super().__init__(False, fan_in, fan_out)


class XavierUniform(_C.XavierInitializer):
    def __init__(self, fan_in=None, fan_out=None, name=None):
        super().__init__(True, fan_in, fan_out)


def calculate_gain(nonlinearity, param=None):
    """How much wider values must be before an activation for their spread to stay."""
    if nonlinearity == 'leaky_relu':
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {'sigmoid': 1.0, 'linear': 1.0, 'conv1d': 1.0, 'conv2d': 1.0, 'conv3d': 1.0, 'conv1d_transpose': 1.0,
             'conv2d_transpose': 1.0, 'conv3d_transpose': 1.0, 'tanh': 5.0 / 3, 'relu': math.sqrt(2.0), 'selu': 0.75}
    if nonlinearity not in gains:
        raise ValueError(f'no gain is known of {nonlinearity!r}: give one of leaky_relu, {", ".join(gains)}')
    return gains[nonlinearity]


def _check_relu(negative_slope, nonlinearity):
    if nonlinearity not in ('relu', 'leaky_relu') or nonlinearity == 'leaky_relu' and negative_slope:
        raise NotImplementedError(f"Kaiming's initializers are built for relu, not for {nonlinearity!r} with slope "
                                  f'{negative_slope}: use Normal or Uniform with calculate_gain')


class KaimingNormal(_C.MSRAInitializer):
    def __init__(self, fan_in=None, negative_slope=0.0, nonlinearity='relu'):
        _check_relu(negative_slope, nonlinearity)
        super().__init__(False, fan_in)


class KaimingUniform(_C.MSRAInitializer):
    def __init__(self, fan_in=None, negative_slope=0.0, nonlinearity='relu'):
        _check_relu(negative_slope, nonlinearity)
        super().__init__(True, fan_in)


class Assign(_C.NumpyArrayInitializer):
    def __init__(self, value, name=None):
        super().__init__(value)


class Orthogonal(Initializer):
    """Rows, or columns where there are fewer of them, at right angles to each other; drawn when the program is built."""

    def __init__(self, gain=1.0, name=None):
        super().__init__()
        self._gain = gain

    def __call__(self, var, block=None):
        rows, columns = var.shape[0], math.prod(var.shape[1:])
        if len(var.shape) < 2:
            raise ValueError(f'Orthogonal is for two dimensions or more, {var.name} has shape {list(var.shape)}')
        seed = (block or var.block).program.random_seed
        drawn = numpy.random.RandomState(seed or None).randn(max(rows, columns), min(rows, columns))
        q, r = numpy.linalg.qr(drawn)
        q *= numpy.sign(numpy.diag(r))
        q = q.T if rows < columns else q
        return Assign((self._gain * q).reshape(var.shape).astype('float32'))(var, block)


class Dirac(Initializer):
    """Convolutions that give what they are given, as far as there are channels."""

    def __init__(self, groups=1, name=None):
        super().__init__()
        self._groups = groups

    def __call__(self, var, block=None):
        shape = list(var.shape)
        if len(shape) not in (3, 4, 5) or shape[0] % self._groups:
            raise ValueError(f'Dirac is for filters of {self._groups} groups, {var.name} has shape {shape}')
        values, each = numpy.zeros(shape, 'float32'), shape[0] // self._groups
        middle = tuple(extent // 2 for extent in shape[2:])
        for group in range(self._groups):
            for channel in range(min(each, shape[1])):
                values[(group * each + channel, channel) + middle] = 1
        return Assign(values)(var, block)


_global = {False: None, True: None}  # is it a bias -> what set_global_initializer was given


def set_global_initializer(weight_init, bias_init=None):
    """What parameters of layers begin with where nothing else is said; None: the layer's own way."""
    for given, what in ((weight_init, 'weight_init'), (bias_init, 'bias_init')):
        if given is not None and not isinstance(given, Initializer):
            raise TypeError(f'{what} must be an initializer or None, got {type(given).__name__}')
    _global.update({False: weight_init, True: bias_init})


def default_initializer_of(is_bias):
    return _global[bool(is_bias)]
