"""Convolutions of paddle.nn.functional: filters are given."""
import _trireme as _C

from ..._style import numbers, one, static_style

__all__ = ['conv1d', 'conv1d_transpose', 'conv2d', 'conv2d_transpose', 'conv3d', 'conv3d_transpose']

_FORMATS = {1: ('NCL', 'NLC'), 2: ('NCHW', 'NHWC'), 3: ('NCDHW', 'NDHWC')}


def paddings_of(padding, dims, channel_last):
    """(numbers, algorithm) of what padding may be: a word, a number, one for each side, or pairs."""
    if isinstance(padding, str):
        if padding.upper() not in ('SAME', 'VALID'):
            raise ValueError(f"padding is {padding!r}: give 'SAME', 'VALID' or numbers")
        return [0] * dims, padding.upper()
    if isinstance(padding, int):
        return [padding] * dims, 'EXPLICIT'
    padding = list(padding)
    if padding and isinstance(padding[0], (list, tuple)):  # [0, 0] for batch and channels
        if len(padding) == dims + 2:
            padding = padding[1:-1] if channel_last else padding[2:]
        padding = [side for pair in padding for side in pair]
    if len(padding) == 1:
        padding = padding * dims
    if len(padding) not in (dims, 2 * dims):
        raise ValueError(f'padding is {padding!r}: give one number, {dims}, {2 * dims}, or pairs')
    return padding, 'EXPLICIT'


def _channel_last(data_format, dims):
    if data_format not in _FORMATS[dims]:
        raise ValueError(f'data_format is {data_format!r}: give {_FORMATS[dims][0]} or {_FORMATS[dims][1]}')
    return data_format == _FORMATS[dims][1]


def _biased(out, bias, channel_last):
    if bias is None:
        return out
    return _C.elementwise('elementwise_add', out, bias, len(out.shape) - 1 if channel_last else 1, None, None)


def _conv(x, weight, bias, stride, padding, dilation, groups, data_format, dims, name):
    channel_last = _channel_last(data_format, dims)
    channels = x.shape[-1 if channel_last else 1]
    if channels >= 0 and channels != weight.shape[1] * groups:
        raise ValueError(f'conv{dims}d: x has {channels} channels, and the filter {list(weight.shape)} with '
                         f'groups={groups} takes {weight.shape[1] * groups}')
    if weight.shape[0] % groups:
        raise ValueError(f'conv{dims}d: {weight.shape[0]} filters cannot be cut into {groups} groups')
    paddings, algorithm = paddings_of(padding, dims, channel_last)
    attrs = {'strides': numbers(stride, dims, 'stride'), 'paddings': paddings, 'padding_algorithm': algorithm,
             'dilations': numbers(dilation, dims, 'dilation'), 'groups': groups, 'data_format': data_format}
    depthwise = dims == 2 and groups == channels and groups > 1 and weight.shape[0] % groups == 0
    out = one('depthwise_conv2d' if depthwise else f'conv{dims}d', {'Input': x, 'Filter': weight}, attrs, name,
              f'conv{dims}d', 'Output')
    return _biased(out, bias, channel_last)


def _lifted(given, plain):
    """A number or list of one dimension for two: the height is 1."""
    return given if isinstance(given, str) else [plain] + numbers(given, 1, 'an argument of conv1d')


def _lifted_padding(padding):
    if isinstance(padding, (str, int)):
        return padding if isinstance(padding, str) else [0, padding]
    padding = list(padding)
    if padding and isinstance(padding[0], (list, tuple)):
        padding = list(padding[-1] if len(padding) == 1 else next((p for p in padding if any(p)), padding[-1]))
    return [0, padding[0]] if len(padding) == 1 else [0, 0] + padding


@static_style
def conv1d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format='NCL', name=None):
    """[batch, channels, length] by filters [filters, channels / groups, width]."""
    channel_last = _channel_last(data_format, 1)
    axis = 1 if channel_last else 2
    out = _conv(_C.unsqueeze(x, [axis]), _C.unsqueeze(weight, [2]), bias, _lifted(stride, 1),
                _lifted_padding(padding), _lifted(dilation, 1), groups, 'NHWC' if channel_last else 'NCHW', 2, name)
    return _C.squeeze(out, [axis])


@static_style
def conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format='NCHW', name=None):
    """[batch, channels, height, width] by filters [filters, channels / groups, height, width]."""
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format, 2, name)


@static_style
def conv3d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format='NCDHW', name=None):
    """[batch, channels, depth, height, width] by filters [filters, channels / groups, depth, height, width]."""
    return _conv(x, weight, bias, stride, padding, dilation, groups, data_format, 3, name)


def _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, output_size, data_format,
                    dims, name):
    channel_last = _channel_last(data_format, dims)
    paddings, algorithm = paddings_of(padding, dims, channel_last)
    attrs = {'strides': numbers(stride, dims, 'stride'), 'paddings': paddings, 'padding_algorithm': algorithm,
             'dilations': numbers(dilation, dims, 'dilation'), 'groups': groups, 'data_format': data_format}
    if output_size is not None:
        if output_padding not in (0, [0] * dims, (0,) * dims):
            raise ValueError('give output_size or output_padding, not both')
        attrs['output_size'] = numbers(output_size, dims, 'output_size')
    elif output_padding not in (0, [0] * dims, (0,) * dims):
        attrs['output_padding'] = numbers(output_padding, dims, 'output_padding')
    channels = x.shape[-1 if channel_last else 1]
    depthwise = dims == 2 and groups == channels and groups > 1 and weight.shape[1] == 1
    out = one('depthwise_conv2d_transpose' if depthwise else f'conv{dims}d_transpose',
              {'Input': x, 'Filter': weight}, attrs, name, f'conv{dims}d_transpose', 'Output')
    return _biased(out, bias, channel_last)


@static_style
def conv1d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1,
                     output_size=None, data_format='NCL', name=None):
    """What conv1d's gradient does to x: [batch, channels, length] becomes longer."""
    channel_last = _channel_last(data_format, 1)
    axis = 1 if channel_last else 2
    size = None if output_size is None else [1] + numbers(output_size, 1, 'output_size')
    extra = 0 if output_padding in (0, [0], (0,)) else [0] + numbers(output_padding, 1, 'output_padding')
    out = _conv_transpose(_C.unsqueeze(x, [axis]), _C.unsqueeze(weight, [2]), bias, _lifted(stride, 1),
                          _lifted_padding(padding), extra, _lifted(dilation, 1), groups, size,
                          'NHWC' if channel_last else 'NCHW', 2, name)
    return _C.squeeze(out, [axis])


@static_style
def conv2d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1,
                     output_size=None, data_format='NCHW', name=None):
    """What conv2d's gradient does to x; weight is [channels, filters / groups, height, width]."""
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, output_size,
                           data_format, 2, name)


@static_style
def conv3d_transpose(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1,
                     output_size=None, data_format='NCDHW', name=None):
    """What conv3d's gradient does to x; weight is [channels, filters / groups, depth, height, width]."""
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, dilation, groups, output_size,
                           data_format, 3, name)
