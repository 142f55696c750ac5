"""Pools as layers."""
from .. import functional as F
from .layers import Layer

__all__ = ['AvgPool1D', 'AvgPool2D', 'AvgPool3D', 'MaxPool1D', 'MaxPool2D', 'MaxPool3D', 'AdaptiveAvgPool1D',
           'AdaptiveAvgPool2D', 'AdaptiveAvgPool3D', 'AdaptiveMaxPool1D', 'AdaptiveMaxPool2D', 'AdaptiveMaxPool3D',
           'MaxUnPool1D', 'MaxUnPool2D', 'MaxUnPool3D']


class _Pool(Layer):
    _function = None

    def _set(self, **how):
        Layer.__init__(self)
        self._how = how

    def forward(self, x):
        return type(self)._function(x, **self._how)

    def extra_repr(self):
        return ', '.join(f'{key}={value}' for key, value in self._how.items() if key != 'name')


class AvgPool1D(_Pool):
    _function = F.avg_pool1d

    def __init__(self, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, exclusive=exclusive, ceil_mode=ceil_mode,
                  name=name)


class AvgPool2D(_Pool):
    _function = F.avg_pool2d

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
                 data_format='NCHW', name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, exclusive=exclusive,
                  divisor_override=divisor_override, data_format=data_format, name=name)


class AvgPool3D(_Pool):
    _function = F.avg_pool3d

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
                 data_format='NCDHW', name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode, exclusive=exclusive,
                  divisor_override=divisor_override, data_format=data_format, name=name)


class MaxPool1D(_Pool):
    _function = F.max_pool1d

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, return_mask=return_mask,
                  ceil_mode=ceil_mode, name=name)


class MaxPool2D(_Pool):
    _function = F.max_pool2d

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format='NCHW',
                 name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, return_mask=return_mask,
                  ceil_mode=ceil_mode, data_format=data_format, name=name)


class MaxPool3D(_Pool):
    _function = F.max_pool3d

    def __init__(self, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format='NCDHW',
                 name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, return_mask=return_mask,
                  ceil_mode=ceil_mode, data_format=data_format, name=name)


class AdaptiveAvgPool1D(_Pool):
    _function = F.adaptive_avg_pool1d

    def __init__(self, output_size, name=None):
        self._set(output_size=output_size, name=name)


class AdaptiveAvgPool2D(_Pool):
    _function = F.adaptive_avg_pool2d

    def __init__(self, output_size, data_format='NCHW', name=None):
        self._set(output_size=output_size, data_format=data_format, name=name)


class AdaptiveAvgPool3D(_Pool):
    _function = F.adaptive_avg_pool3d

    def __init__(self, output_size, data_format='NCDHW', name=None):
        self._set(output_size=output_size, data_format=data_format, name=name)


class AdaptiveMaxPool1D(_Pool):
    _function = F.adaptive_max_pool1d

    def __init__(self, output_size, return_mask=False, name=None):
        self._set(output_size=output_size, return_mask=return_mask, name=name)


class AdaptiveMaxPool2D(_Pool):
    _function = F.adaptive_max_pool2d

    def __init__(self, output_size, return_mask=False, name=None):
        self._set(output_size=output_size, return_mask=return_mask, name=name)


class AdaptiveMaxPool3D(_Pool):
    _function = F.adaptive_max_pool3d

    def __init__(self, output_size, return_mask=False, name=None):
        self._set(output_size=output_size, return_mask=return_mask, name=name)


class _UnPool(_Pool):
    def __init__(self, kernel_size, stride=None, padding=0, data_format=None, output_size=None, name=None):
        self._set(kernel_size=kernel_size, stride=stride, padding=padding, output_size=output_size, name=name)

    def forward(self, x, indices):
        return type(self)._function(x, indices, **self._how)


class MaxUnPool1D(_UnPool):
    _function = F.max_unpool1d


class MaxUnPool2D(_UnPool):
    _function = F.max_unpool2d


class MaxUnPool3D(_UnPool):
    _function = F.max_unpool3d
