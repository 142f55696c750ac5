"""Layers of images whose arguments are not their op's."""
import _trireme as _C

__all__ = ['resize_bilinear', 'resize_nearest', 'resize_trilinear', 'image_resize', 'image_resize_short',
           'im2sequence', 'crop', 'pool3d', 'adaptive_pool2d', 'adaptive_pool3d']


def _numbers(value, count, what):
    """One number for all dimensions, or one for each."""
    values = [value] * count if isinstance(value, int) else list(value)
    if len(values) != count:
        raise ValueError(f'{what} is {value!r}: give one number or {count}')
    return values


def _resize(op, input, out_shape, scale, name, actual_shape, align_corners, align_mode, data_format):
    if out_shape is None and scale is None and actual_shape is None:
        raise ValueError(f'{op} needs out_shape or scale')
    axes = 3 if op == 'trilinear_interp' else 2
    layouts = ('NCDHW', 'NDHWC') if axes == 3 else ('NCHW', 'NHWC')
    if data_format not in layouts:
        raise ValueError(f'data_format is {data_format!r}: {op} takes {layouts[0]} or {layouts[1]}')
    inputs = {'X': input}
    attrs = {'align_corners': align_corners, 'align_mode': align_mode,
             'data_layout': data_format.replace('D', ''), 'interp_method': op.partition('_')[0]}
    if actual_shape is not None:
        inputs['OutSize'] = actual_shape
    elif isinstance(out_shape, _C.Variable):
        inputs['OutSize'] = out_shape
    elif out_shape is not None:
        size = _numbers(out_shape, axes, 'out_shape')
        if any(isinstance(extent, _C.Variable) for extent in size):
            inputs['SizeTensor'] = [extent if isinstance(extent, _C.Variable)
                                    else _C.fill_constant([1], 'int32', extent) for extent in size]
        else:
            attrs.update(zip(('out_d', 'out_h', 'out_w')[3 - axes:], map(int, size)))
    elif isinstance(scale, _C.Variable):
        inputs['Scale'] = scale
    else:
        if scale <= 0:
            raise ValueError(f'scale is {scale}: give a number above 0')
        attrs['scale'] = float(scale)
    return _C.apply(op, inputs, attrs, name, op)['Out'][0]


def resize_bilinear(input, out_shape=None, scale=None, name=None, actual_shape=None,
                    align_corners=True, align_mode=1, data_format='NCHW'):
    """Images of another size, each pixel a mean of the four around it."""
    return _resize('bilinear_interp', input, out_shape, scale, name, actual_shape, align_corners,
                   align_mode, data_format)


def resize_nearest(input, out_shape=None, scale=None, name=None, actual_shape=None,
                   align_corners=True, data_format='NCHW'):
    """Images of another size, each pixel the nearest one."""
    return _resize('nearest_interp', input, out_shape, scale, name, actual_shape, align_corners, 1,
                   data_format)


def resize_trilinear(input, out_shape=None, scale=None, name=None, actual_shape=None, align_corners=True,
                     align_mode=1, data_format='NCDHW'):
    """Images with depth of another size, each pixel a mean of the eight around it."""
    return _resize('trilinear_interp', input, out_shape, scale, name, actual_shape, align_corners,
                   align_mode, data_format)


def image_resize(input, out_shape=None, scale=None, name=None, resample='BILINEAR',
                 actual_shape=None, align_corners=True, align_mode=1, data_format='NCHW'):
    """resize_bilinear, resize_nearest or resize_trilinear, by name."""
    ops = {'BILINEAR': 'bilinear_interp', 'NEAREST': 'nearest_interp', 'TRILINEAR': 'trilinear_interp'}
    if resample not in ops:
        raise ValueError(f'resample is {resample!r}: there are {", ".join(ops)}')
    return _resize(ops[resample], input, out_shape, scale, name, actual_shape, align_corners,
                   align_mode, data_format)


def image_resize_short(input, out_short_len, resample='BILINEAR'):
    """The shorter side becomes out_short_len; the other keeps the proportion."""
    size = list(input.shape[2:4])
    if len(input.shape) != 4 or min(size) < 0:
        raise ValueError(f'{input.name} has shape {input.shape}: height and width must be known')
    out = [int(extent * out_short_len / min(size) + 0.5) for extent in size]
    return image_resize(input, out, resample=resample)


def im2sequence(input, filter_size=1, stride=1, padding=0, input_image_size=None, out_stride=1,
                name=None):
    """Every window of an image as one row; an image is a sequence."""
    padding = [padding] * 4 if isinstance(padding, int) else list(padding)
    padding = padding * 2 if len(padding) == 2 else padding
    inputs = {'X': input}
    attrs = {'kernels': _numbers(filter_size, 2, 'filter_size'),
             'strides': _numbers(stride, 2, 'stride'),
             'paddings': _numbers(padding, 4, 'padding')}
    if input_image_size is not None:
        inputs['Y'] = input_image_size
        attrs['out_stride'] = _numbers(out_stride, 2, 'out_stride')
    return _C.apply('im2sequence', inputs, attrs, name)['Out'][0]


def crop(x, shape=None, offsets=None, name=None):
    """A part of x. shape: extents, or a variable that has them; offsets: where it begins."""
    if shape is None:
        raise ValueError('crop needs shape')
    inputs, attrs = {'X': x}, {}
    if isinstance(shape, _C.Variable):
        inputs['Y'] = shape
    else:
        attrs['shape'] = list(shape)
    if isinstance(offsets, _C.Variable):
        inputs['Offsets'] = offsets
    elif offsets is not None:
        attrs['offsets'] = list(offsets)
    return _C.apply('crop', inputs, attrs, name)['Out'][0]


def pool3d(input, pool_size=-1, pool_type='max', pool_stride=1, pool_padding=0,
           global_pooling=False, use_cudnn=True, ceil_mode=False, name=None, exclusive=True,
           data_format='NCDHW'):
    """The largest number, or the mean, of each window of [batch, channels, depth, height, width]."""
    del use_cudnn  # which library runs it changes nothing else
    if pool_size == -1 and not global_pooling:
        raise ValueError('pool_size is -1: give the size of a window, or global_pooling=True')
    attrs = {'pooling_type': pool_type, 'ksize': _numbers(pool_size, 3, 'pool_size'),
             'global_pooling': global_pooling, 'strides': _numbers(pool_stride, 3, 'pool_stride'),
             'ceil_mode': ceil_mode, 'exclusive': exclusive, 'data_format': data_format}
    if isinstance(pool_padding, str):
        attrs['padding_algorithm'] = pool_padding.upper()
    else:
        sides = [pool_padding] if isinstance(pool_padding, int) else list(pool_padding)
        if any(isinstance(side, (list, tuple)) for side in sides):  # [0, 0] for batch and channels
            first = 2 if data_format == 'NCDHW' else 1
            sides = [end for side in sides[first:first + 3] for end in side]
        attrs['paddings'] = sides * 3 if len(sides) == 1 else sides
    return _C.apply('pool3d', {'X': input}, attrs, name)['Out'][0]


def _adaptive_pool(axes, input, pool_size, pool_type, require_index, name):
    size, layer = _numbers(pool_size, axes, 'pool_size'), f'adaptive_pool{axes}d'
    if pool_type not in ('max', 'avg'):
        raise ValueError(f"pool_type is {pool_type!r}: give 'max' or 'avg'")
    if require_index and pool_type != 'max':
        raise ValueError("require_index goes with pool_type='max'")
    if pool_type == 'max':
        outs = _C.apply(f'max_pool{axes}d_with_index', {'X': input}, {'ksize': size, 'adaptive': True},
                        name, layer)
        return (outs['Out'][0], outs['Mask'][0]) if require_index else outs['Out'][0]
    return _C.apply(f'pool{axes}d', {'X': input},
                    {'pooling_type': pool_type, 'ksize': size, 'adaptive': True}, name, layer)['Out'][0]


def adaptive_pool2d(input, pool_size, pool_type='max', require_index=False, name=None):
    """Windows so large that pool_size of them cover the image; with their largest's positions."""
    return _adaptive_pool(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(input, pool_size, pool_type='max', require_index=False, name=None):
    """adaptive_pool2d of images with depth."""
    return _adaptive_pool(3, input, pool_size, pool_type, require_index, name)
