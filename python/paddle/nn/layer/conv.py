"""Convolutions with filters of their own."""
import math

from ..._style import numbers
from .. import functional as F
from ..initializer import Normal
from .layers import Layer

__all__ = ['Conv1D', 'Conv2D', 'Conv3D', 'Conv1DTranspose', 'Conv2DTranspose', 'Conv3DTranspose']

_PADDING_MODES = ('zeros', 'reflect', 'replicate', 'circular')


def _sides(padding, dims):
    """(before, after) for each dimension."""
    if isinstance(padding, str):
        raise ValueError(f"padding {padding!r} goes with padding_mode 'zeros' only: give numbers")
    if isinstance(padding, int):
        padding = [padding] * dims
    padding = list(padding)
    if isinstance(padding[0], (list, tuple)):
        return [tuple(pair) for pair in padding[-dims:]]
    return [(p, p) for p in padding] if len(padding) == dims else list(zip(padding[::2], padding[1::2]))


class _Conv(Layer):
    _dims, _function = 0, None

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
                 padding_mode='zeros', weight_attr=None, bias_attr=None, data_format=None):
        super().__init__()
        assert weight_attr is not False, 'a convolution without a filter is none: weight_attr must not be False'
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f'padding_mode is {padding_mode!r}: give one of {", ".join(_PADDING_MODES)}')
        if in_channels % groups or out_channels % groups:
            raise ValueError(f'{in_channels} channels in and {out_channels} out cannot be cut into {groups} groups')
        self._kernel_size = numbers(kernel_size, self._dims, 'kernel_size')
        self._in_channels, self._out_channels = in_channels, out_channels
        self._stride, self._padding, self._dilation, self._groups = stride, padding, dilation, groups
        self._data_format = data_format or ('NCL', 'NCHW', 'NCDHW')[self._dims - 1]
        self._border = None
        if padding_mode != 'zeros':
            self._border = [side for pair in reversed(_sides(padding, self._dims)) for side in pair], padding_mode
        spread = math.sqrt(2.0 / (in_channels * math.prod(self._kernel_size)))
        self.weight = self.create_parameter([out_channels, in_channels // groups] + self._kernel_size, weight_attr,
                                            default_initializer=Normal(0.0, spread))
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x):
        padding = self._padding
        if self._border:
            x, padding = F.pad(x, *self._border, data_format=self._data_format), 0
        return type(self)._function(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups,
                                    self._data_format)

    def extra_repr(self):
        return (f'{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}, '
                f'data_format={self._data_format}')


class Conv1D(_Conv):
    """Lines [batch, channels, length] by filters."""

    _dims, _function = 1, F.conv1d


class Conv2D(_Conv):
    """Images [batch, channels, height, width] by filters."""

    _dims, _function = 2, F.conv2d


class Conv3D(_Conv):
    """Volumes [batch, channels, depth, height, width] by filters."""

    _dims, _function = 3, F.conv3d


class _ConvTranspose(Layer):
    _dims, _function = 0, None

    def _make(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups,
              weight_attr, bias_attr, data_format):
        assert weight_attr is not False, 'a convolution without a filter is none: weight_attr must not be False'
        if in_channels % groups or out_channels % groups:
            raise ValueError(f'{in_channels} channels in and {out_channels} out cannot be cut into {groups} groups')
        self._kernel_size = numbers(kernel_size, self._dims, 'kernel_size')
        self._in_channels, self._out_channels, self._data_format = in_channels, out_channels, data_format
        self._how = dict(stride=stride, padding=padding, output_padding=output_padding, dilation=dilation,
                         groups=groups, data_format=data_format)
        self.weight = self.create_parameter([in_channels, out_channels // groups] + self._kernel_size, weight_attr)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def forward(self, x, output_size=None):
        how = dict(self._how, output_padding=0) if output_size is not None else self._how
        return type(self)._function(x, self.weight, self.bias, output_size=output_size, **how)

    def extra_repr(self):
        return (f'{self._in_channels}, {self._out_channels}, kernel_size={self._kernel_size}, '
                f'data_format={self._data_format}')


class Conv1DTranspose(_ConvTranspose):
    """What Conv1D's gradient does: lines become longer."""

    _dims, _function = 1, F.conv1d_transpose

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1,
                 dilation=1, weight_attr=None, bias_attr=None, data_format='NCL'):
        super().__init__()
        self._make(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups,
                   weight_attr, bias_attr, data_format)


class Conv2DTranspose(_ConvTranspose):
    """What Conv2D's gradient does: images become larger."""

    _dims, _function = 2, F.conv2d_transpose

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups=1, weight_attr=None, bias_attr=None, data_format='NCHW'):
        super().__init__()
        self._make(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups,
                   weight_attr, bias_attr, data_format)


class Conv3DTranspose(_ConvTranspose):
    """What Conv3D's gradient does: volumes become larger."""

    _dims, _function = 3, F.conv3d_transpose

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, dilation=1,
                 groups=1, weight_attr=None, bias_attr=None, data_format='NCDHW'):
        super().__init__()
        self._make(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups,
                   weight_attr, bias_attr, data_format)
