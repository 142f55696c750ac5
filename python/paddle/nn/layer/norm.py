"""Layers that normalise."""
import math

from .. import functional as F
from ..functional.norm import group_norm
from ...fluid import layers as _layers
from ...fluid.param_attr import ParamAttr
from ..initializer import Constant, Normal
from .layers import Layer

__all__ = ['BatchNorm', 'BatchNorm1D', 'BatchNorm2D', 'BatchNorm3D', 'SyncBatchNorm', 'LayerNorm', 'GroupNorm',
           'InstanceNorm1D', 'InstanceNorm2D', 'InstanceNorm3D', 'LocalResponseNorm', 'SpectralNorm']


class _BatchNorm(Layer):
    _ranks, _formats = (), ()

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None, data_format=None,
                 use_global_stats=None, name=None):
        super().__init__()
        self._make(num_features, momentum, epsilon, weight_attr, bias_attr, data_format or self._formats[0],
                   use_global_stats, name)

    def _make(self, count, momentum, epsilon, weight_attr, bias_attr, data_format, use_global_stats, name,
              mean_name=None, variance_name=None, averaged=True):
        if data_format not in self._formats:
            raise ValueError(f'{type(self).__name__}: data_format is {data_format!r}: give '
                             f'{" or ".join(self._formats)}')
        self._num_features, self._momentum, self._epsilon = count, momentum, epsilon
        self._data_format, self._use_global_stats, self._name = data_format, use_global_stats, name
        self.weight = self.create_parameter([count], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([count], bias_attr, is_bias=True)
        for key, own, value in (('_mean', mean_name, 0.0), ('_variance', variance_name, 1.0)):
            moving = self.create_parameter([count], ParamAttr(name=own, initializer=Constant(value), trainable=False,
                                                              do_model_average=averaged))
            moving.stop_gradient = True
            setattr(self, key, moving)

    def forward(self, input):
        if self._ranks and len(input.shape) not in self._ranks:
            raise ValueError(f'{type(self).__name__} takes {" or ".join(map(str, self._ranks))} dimensions, got '
                             f'{list(input.shape)}')
        return F.batch_norm(input, self._mean, self._variance, self.weight, self.bias, self.training, self._momentum,
                            self._epsilon, self._data_format, self._use_global_stats, self._name)

    def extra_repr(self):
        return f'num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}'


class BatchNorm1D(_BatchNorm):
    """BatchNorm of [batch, channels] or [batch, channels, length]."""

    _ranks, _formats = (2, 3), ('NCL', 'NC', 'NLC')


class BatchNorm2D(_BatchNorm):
    """BatchNorm of images."""

    _ranks, _formats = (4,), ('NCHW', 'NHWC')


class BatchNorm3D(_BatchNorm):
    """BatchNorm of volumes."""

    _ranks, _formats = (5,), ('NCDHW', 'NDHWC')


class BatchNorm(_BatchNorm):
    """BatchNorm of any rank, with an activation."""

    _formats = ('NCHW', 'NHWC', 'NCL', 'NLC', 'NCDHW', 'NDHWC')

    def __init__(self, num_channels, act=None, is_test=False, momentum=0.9, epsilon=1e-5, param_attr=None,
                 bias_attr=None, dtype='float32', data_layout='NCHW', in_place=False, moving_mean_name=None,
                 moving_variance_name=None, do_model_average_for_mean_and_var=True, use_global_stats=False,
                 trainable_statistics=False):
        Layer.__init__(self, dtype=dtype)
        if trainable_statistics:
            raise NotImplementedError('BatchNorm: trainable_statistics is not built: leave it False')
        self._make(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout, use_global_stats, None,
                   moving_mean_name, moving_variance_name, do_model_average_for_mean_and_var)
        self._act, self._is_test = act, is_test

    def forward(self, input):
        out = F.batch_norm(input, self._mean, self._variance, self.weight, self.bias,
                           self.training and not self._is_test, self._momentum, self._epsilon, self._data_format,
                           self._use_global_stats or None)
        return out if self._act is None else getattr(_layers, self._act)(out)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose statistics are those of all devices: data parallel programs ask for it by
    BuildStrategy.sync_batch_norm; on one device it is BatchNorm."""

    _formats = ('NCHW', 'NHWC', 'NCL', 'NLC', 'NCDHW', 'NDHWC')

    def __init__(self, num_features, momentum=0.9, epsilon=1e-5, weight_attr=None, bias_attr=None, data_format='NCHW',
                 name=None):
        super().__init__(num_features, momentum, epsilon, weight_attr, bias_attr, data_format, None, name)

    @classmethod
    def convert_sync_batchnorm(cls, layer):
        """The layer with SyncBatchNorm in the place of every BatchNorm inside."""
        if isinstance(layer, _BatchNorm) and not isinstance(layer, cls):
            made = cls.__new__(cls)
            Layer.__init__(made)
            for key in ('_num_features', '_momentum', '_epsilon', '_data_format', '_use_global_stats', '_name', 'weight',
                        'bias', '_mean', '_variance'):
                setattr(made, key, getattr(layer, key))
            made.training = layer.training
            return made
        for name, inside in list(layer.named_children()):
            layer.add_sublayer(name, cls.convert_sync_batchnorm(inside))
        return layer


class LayerNorm(Layer):
    """Each sample less its mean over the last dimensions, by its deviation."""

    def __init__(self, normalized_shape, epsilon=1e-5, weight_attr=None, bias_attr=None, name=None):
        super().__init__()
        self._shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
        self._epsilon, self._name = epsilon, name
        size = [math.prod(self._shape)]
        self.weight = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input):
        return F.layer_norm(input, self._shape, self.weight, self.bias, self._epsilon, self._name)

    def extra_repr(self):
        return f'normalized_shape={self._shape}, epsilon={self._epsilon}'


class GroupNorm(Layer):
    """Channels in groups, each less its mean, by its deviation."""

    def __init__(self, num_groups, num_channels, epsilon=1e-5, weight_attr=None, bias_attr=None, data_format='NCHW',
                 name=None):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f'GroupNorm: {num_channels} channels cannot be cut into {num_groups} groups')
        self._groups, self._epsilon, self._data_format, self._name = num_groups, epsilon, data_format, name
        # An attribute of False: ones or zeros that nobody trains.
        self.weight = self.create_parameter([num_channels], weight_attr or None, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr or None, is_bias=True)
        self.weight.stop_gradient, self.bias.stop_gradient = weight_attr is False, bias_attr is False

    def forward(self, input):
        return group_norm(input, self._groups, self._epsilon, self.weight, self.bias, self._data_format, self._name)


class _InstanceNorm(Layer):
    _ranks = ()

    def __init__(self, num_features, epsilon=1e-5, momentum=0.9, weight_attr=None, bias_attr=None, data_format=None,
                 name=None):
        super().__init__()
        self._epsilon, self._momentum, self._name = epsilon, momentum, name
        self._data_format = data_format or {3: 'NCL', 4: 'NCHW', 5: 'NCDHW'}[self._ranks[-1]]
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input):
        if len(input.shape) not in self._ranks:
            raise ValueError(f'{type(self).__name__} takes {" or ".join(map(str, self._ranks))} dimensions, got '
                             f'{list(input.shape)}')
        return F.instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon, momentum=self._momentum,
                               data_format=self._data_format, name=self._name)


class InstanceNorm1D(_InstanceNorm):
    """Every channel of every line less its own mean, by its own deviation."""

    _ranks = (2, 3)


class InstanceNorm2D(_InstanceNorm):
    """Every channel of every image less its own mean, by its own deviation."""

    _ranks = (4,)


class InstanceNorm3D(_InstanceNorm):
    """Every channel of every volume less its own mean, by its own deviation."""

    _ranks = (5,)


class LocalResponseNorm(Layer):
    """x by a power of the mean square of neighbouring channels."""

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0, data_format='NCHW', name=None):
        super().__init__()
        self._how = (size, alpha, beta, k, data_format, name)

    def forward(self, input):
        return F.local_response_norm(input, *self._how)


class SpectralNorm(Layer):
    """A weight by its largest singular value, found by power_iters rounds."""

    def __init__(self, weight_shape, dim=0, power_iters=1, eps=1e-12, dtype='float32'):
        super().__init__(dtype=dtype)
        self._how = {'dim': dim, 'power_iters': power_iters, 'eps': eps}
        height = weight_shape[dim]
        width = math.prod(weight_shape) // height
        self.weight_u = self.create_parameter([height], default_initializer=Normal(0.0, 1.0))
        self.weight_v = self.create_parameter([width], default_initializer=Normal(0.0, 1.0))
        self.weight_u.stop_gradient = self.weight_v.stop_gradient = True

    def forward(self, x):
        from ..._style import one, static_style
        return static_style(one)('spectral_norm', {'Weight': x, 'U': self.weight_u, 'V': self.weight_v}, self._how)
