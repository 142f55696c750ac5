"""Pools of paddle.nn.functional."""
import _trireme as _C

from ..._style import numbers, one, static_style
from .conv import paddings_of

__all__ = ['avg_pool1d', 'avg_pool2d', 'avg_pool3d', 'max_pool1d', 'max_pool2d', 'max_pool3d',
           'adaptive_avg_pool1d', 'adaptive_avg_pool2d', 'adaptive_avg_pool3d', 'adaptive_max_pool1d',
           'adaptive_max_pool2d', 'adaptive_max_pool3d', 'max_unpool1d', 'max_unpool2d', 'max_unpool3d']

_FORMATS = {2: ('NCHW', 'NHWC'), 3: ('NCDHW', 'NDHWC')}


def _attrs(kind, dims, kernel, stride, padding, ceil_mode, exclusive, data_format):
    if data_format not in _FORMATS[dims]:
        raise ValueError(f'data_format is {data_format!r}: give {_FORMATS[dims][0]} or {_FORMATS[dims][1]}')
    kernel = numbers(kernel, dims, 'kernel_size')
    paddings, algorithm = paddings_of(padding, dims, data_format == _FORMATS[dims][1])
    return {'pooling_type': kind, 'ksize': kernel, 'paddings': paddings, 'padding_algorithm': algorithm,
            'strides': kernel if stride is None else numbers(stride, dims, 'stride'), 'global_pooling': False,
            'ceil_mode': ceil_mode, 'exclusive': exclusive, 'data_format': data_format}


def _pool(kind, dims, x, kernel, stride, padding, ceil_mode, exclusive, data_format, name):
    return one(f'pool{dims}d', {'X': x}, _attrs(kind, dims, kernel, stride, padding, ceil_mode, exclusive,
                                                data_format), name)


def _average(dims, x, kernel, stride, padding, ceil_mode, exclusive, divisor, data_format, name):
    out = _pool('avg', dims, x, kernel, stride, padding, ceil_mode, exclusive if divisor is None else False,
                data_format, name)
    if divisor is None:
        return out
    window = 1
    for extent in numbers(kernel, dims, 'kernel_size'):
        window *= extent
    return _C.scale(out, window / divisor)


def _line(given):
    """An argument of a line for an image of height 1."""
    return None if given is None else [1] + numbers(given, 1, 'an argument of a pool of lines')


def _line_padding(padding):
    if isinstance(padding, str):
        return padding
    padding = [padding] if isinstance(padding, int) else list(padding)
    if padding and isinstance(padding[0], (list, tuple)):
        padding = list(padding[-1])
    return [0, padding[0]] if len(padding) == 1 else [0, 0] + padding


@static_style
def avg_pool1d(x, kernel_size, stride=None, padding=0, exclusive=True, ceil_mode=False, name=None):
    """The mean of each window of [batch, channels, length]."""
    out = _pool('avg', 2, _C.unsqueeze(x, [2]), _line(kernel_size), _line(stride), _line_padding(padding), ceil_mode,
                exclusive, 'NCHW', name)
    return _C.squeeze(out, [2])


@static_style
def avg_pool2d(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
               data_format='NCHW', name=None):
    """The mean of each window; exclusive: of its pixels inside the image."""
    return _average(2, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, name)


@static_style
def avg_pool3d(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None,
               data_format='NCDHW', name=None):
    """The mean of each window of a volume."""
    return _average(3, x, kernel_size, stride, padding, ceil_mode, exclusive, divisor_override, data_format, name)


def _with_places(dims, x, kernel, stride, padding, ceil_mode, data_format, name):
    """(the largest of each window, where it is in its image)."""
    if data_format != _FORMATS[dims][0]:
        raise ValueError(f'return_mask goes with channels in dimension 1, got {data_format}')
    if ceil_mode:
        raise NotImplementedError('return_mask with ceil_mode is not built: pad the image')
    attrs = _attrs('max', dims, kernel, stride, padding, ceil_mode, True, data_format)
    outs = _C.apply(f'max_pool{dims}d_with_index', {'X': x}, {key: attrs[key] for key in (
        'ksize', 'strides', 'paddings', 'padding_algorithm')}, name, f'max_pool{dims}d')
    return outs['Out'][0], outs['Mask'][0]


@static_style
def max_pool1d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, name=None):
    """The largest number of each window of [batch, channels, length]."""
    x, arguments = _C.unsqueeze(x, [2]), (_line(kernel_size), _line(stride), _line_padding(padding), ceil_mode)
    if return_mask:
        return tuple(_C.squeeze(out, [2]) for out in _with_places(2, x, *arguments, 'NCHW', name))
    return _C.squeeze(_pool('max', 2, x, *arguments, True, 'NCHW', name), [2])


@static_style
def max_pool2d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format='NCHW',
               name=None):
    """The largest number of each window; return_mask: with its place in the image."""
    if return_mask:
        return _with_places(2, x, kernel_size, stride, padding, ceil_mode, data_format, name)
    return _pool('max', 2, x, kernel_size, stride, padding, ceil_mode, True, data_format, name)


@static_style
def max_pool3d(x, kernel_size, stride=None, padding=0, return_mask=False, ceil_mode=False, data_format='NCDHW',
               name=None):
    """The largest number of each window of a volume; return_mask: with its place in the volume."""
    if return_mask:
        return _with_places(3, x, kernel_size, stride, padding, ceil_mode, data_format, name)
    return _pool('max', 3, x, kernel_size, stride, padding, ceil_mode, True, data_format, name)


def _sizes(size, extents, what):
    """One number for all dimensions or one for each; None: the extent stays."""
    sizes = [size] * len(extents) if size is None or isinstance(size, int) else list(size)
    sizes = sizes * len(extents) if len(sizes) == 1 else sizes
    if len(sizes) != len(extents):
        raise ValueError(f'{what} is {size!r}: give one number or {len(extents)}')
    found = [extent if size is None else size for size, extent in zip(sizes, extents)]
    if any(extent < 0 for extent in found):
        raise ValueError(f'{what} is {size!r}, and x has a dimension that is known only when it runs')
    return found


def _piece(index, extent, count):
    """Where window `index` of `count` begins and ends."""
    return index * extent // count, -(-(index + 1) * extent // count)


def _along(x, axis, count, kind):
    """Adaptive windows along one dimension: slices, where windows differ in size."""
    extent = x.shape[axis]
    parts = []
    for index in range(count):
        begin, end = _piece(index, extent, count)
        part = _C.slice(x, [axis], [begin], [end])
        parts.append(_C.reduce('reduce_mean' if kind == 'avg' else 'reduce_max', part, [axis], True, None))
    return _C.concat(parts, axis) if len(parts) > 1 else parts[0]


def _adaptive3d(x, size, kind, data_format, what, name):
    """Even windows by a pool; others one dimension after another, which gives the same numbers."""
    channel_last = data_format == 'NDHWC'
    extents = list(x.shape[1:4] if channel_last else x.shape[2:])
    sizes = _sizes(size, extents, what)
    if all(extent >= 0 and extent % n == 0 for extent, n in zip(extents, sizes)):
        return _pool(kind, 3, x, [extent // n for extent, n in zip(extents, sizes)], None, 0, False, True, data_format,
                     name)
    if any(extent < 0 for extent in extents):
        raise ValueError(f'{what}: depth, height and width of {x.name} must be known, got {list(x.shape)}')
    for axis, count in enumerate(sizes, 1 if channel_last else 2):
        x = _along(x, axis, count, kind)
    return x


@static_style
def adaptive_avg_pool1d(x, output_size, name=None):
    """The means of windows so large that output_size of them cover the line."""
    return _C.squeeze(adaptive_avg_pool2d(_C.unsqueeze(x, [2]), [1] + numbers(output_size, 1, 'output_size')), [2])


@static_style
def adaptive_avg_pool2d(x, output_size, data_format='NCHW', name=None):
    """The means of windows so large that output_size of them cover the image."""
    if data_format not in _FORMATS[2]:
        raise ValueError(f'data_format is {data_format!r}: give NCHW or NHWC')
    size = _sizes(output_size, x.shape[1:3] if data_format == 'NHWC' else x.shape[2:], 'output_size')
    return one('pool2d', {'X': x}, {'pooling_type': 'avg', 'ksize': size, 'adaptive': True,
                                    'data_format': data_format}, name, 'adaptive_avg_pool2d')


@static_style
def adaptive_avg_pool3d(x, output_size, data_format='NCDHW', name=None):
    """The means of windows so large that output_size of them cover the volume."""
    return _adaptive3d(x, output_size, 'avg', data_format, 'output_size', name)


@static_style
def adaptive_max_pool1d(x, output_size, return_mask=False, name=None):
    """The largest of windows so large that output_size of them cover the line."""
    found = adaptive_max_pool2d(_C.unsqueeze(x, [2]), [1] + numbers(output_size, 1, 'output_size'), return_mask)
    return tuple(_C.squeeze(out, [2]) for out in found) if return_mask else _C.squeeze(found, [2])


@static_style
def adaptive_max_pool2d(x, output_size, return_mask=False, name=None):
    """The largest of windows so large that output_size of them cover the image."""
    size = _sizes(output_size, x.shape[2:], 'output_size')
    outs = _C.apply('max_pool2d_with_index', {'X': x}, {'ksize': size, 'adaptive': True}, name, 'adaptive_max_pool2d')
    return (outs['Out'][0], outs['Mask'][0]) if return_mask else outs['Out'][0]


@static_style
def adaptive_max_pool3d(x, output_size, return_mask=False, name=None):
    """The largest of windows so large that output_size of them cover the volume."""
    if return_mask:
        attrs = {'ksize': _sizes(output_size, x.shape[2:], 'output_size'), 'adaptive': True}
        outs = _C.apply('max_pool3d_with_index', {'X': x}, attrs, name, 'adaptive_max_pool3d')
        return outs['Out'][0], outs['Mask'][0]
    return _adaptive3d(x, output_size, 'max', 'NCDHW', 'output_size', name)


def _unpool(x, indices, output):
    """Each number at its place in a map of zeros."""
    from ...tensor.manipulation import put_flat
    size = 1
    for extent in output:
        size *= extent
    if any(extent < 0 for extent in x.shape[1:]):
        raise ValueError(f'max_unpool: {x.name} has shape {list(x.shape)}: all but the batch must be known')
    channels, count = x.shape[1], 1
    for extent in x.shape[2:]:
        count *= extent
    flat = put_flat(_C.reshape(x, [-1, count]), _C.reshape(indices, [-1, count]), size)
    return _C.reshape(flat, [-1, channels, *output])


def _unpooled(x, kernel, stride, padding, output_size, dims):
    kernel = numbers(kernel, dims, 'kernel_size')
    stride = kernel if stride is None else numbers(stride, dims, 'stride')
    padding = numbers(padding, dims, 'padding')
    if output_size is not None:
        return list(output_size)[-dims:]
    return [(extent - 1) * s - 2 * p + k for extent, k, s, p in zip(x.shape[2:], kernel, stride, padding)]


@static_style
def max_unpool1d(x, indices, kernel_size, stride=None, padding=0, data_format='NCL', output_size=None, name=None):
    """The reverse of max_pool1d with return_mask: zeros where no largest number was."""
    return _unpool(x, indices, _unpooled(x, kernel_size, stride, padding, output_size, 1))


@static_style
def max_unpool2d(x, indices, kernel_size, stride=None, padding=0, data_format='NCHW', output_size=None, name=None):
    """The reverse of max_pool2d with return_mask."""
    return _unpool(x, indices, _unpooled(x, kernel_size, stride, padding, output_size, 2))


@static_style
def max_unpool3d(x, indices, kernel_size, stride=None, padding=0, data_format='NCDHW', output_size=None, name=None):
    """The reverse of a max_pool3d that says where its numbers were."""
    return _unpool(x, indices, _unpooled(x, kernel_size, stride, padding, output_size, 3))
