"""Functions of paddle.nn.functional that are of no one kind: dropout, padding, resizing, products."""
import _trireme as _C

from ..._style import check_axis, numbers, one, static_style

__all__ = ['dropout', 'dropout2d', 'dropout3d', 'alpha_dropout', 'label_smooth', 'linear', 'pad', 'zeropad2d',
           'unfold', 'fold', 'interpolate', 'upsample', 'bilinear', 'cosine_similarity', 'class_center_sample']


@static_style
def linear(x, weight, bias=None, name=None):
    """x times weight [in, out], plus bias."""
    if x.shape[-1] >= 0 and x.shape[-1] != weight.shape[0]:
        raise ValueError(f'linear: the last dimension of x {list(x.shape)} is {x.shape[-1]}, and the weight '
                         f'{list(weight.shape)} takes {weight.shape[0]}')
    out = one('matmul_v2', {'X': x, 'Y': weight}, {}, name, 'linear')
    return out if bias is None else _C.elementwise('elementwise_add', out, bias, len(x.shape) - 1, None, None)


def _check_share(p, function):
    if not isinstance(p, (int, float)):
        raise TypeError(f'{function}: p must be a number, got {type(p).__name__}')
    if not 0 <= p <= 1:
        raise ValueError(f'{function}: p is a share between 0 and 1, got {p}')


def _ones_along(x, axes):
    """Ones with x's extents along `axes` and 1 along the others."""
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    return _C.ones_like(_C.slice(x, others, [0] * len(others), [1] * len(others)) if others else x)


@static_style
def dropout(x, p=0.5, axis=None, training=True, mode='upscale_in_train', name=None):
    """Elements set to 0, each with probability p; axis: the dimensions along which they are drawn apart."""
    _check_share(p, 'dropout')
    if mode not in ('upscale_in_train', 'downscale_in_infer'):
        raise ValueError(f"dropout: mode must be 'upscale_in_train' or 'downscale_in_infer', got {mode!r}")
    how = 'downgrade_in_infer' if mode == 'downscale_in_infer' else mode
    if axis is None:
        return _C.dropout(x, p, not training, None, name, how)
    axes = [check_axis('dropout', a, x) for a in ([axis] if isinstance(axis, int) else axis)]
    mask = _C.dropout(_ones_along(x, axes), p, not training, None, None, how)
    mask.stop_gradient = True
    return _C.elementwise('elementwise_mul', x, mask, -1, None, name)


def _dropout_maps(x, p, training, formats, data_format, name):
    if data_format not in formats:
        raise ValueError(f'data_format is {data_format!r}: give {formats[0]} or {formats[1]}')
    channels = 1 if data_format == formats[0] else len(x.shape) - 1
    return dropout(x, p, [0, channels], training, name=name)


def dropout2d(x, p=0.5, training=True, data_format='NCHW', name=None):
    """Whole channels of images set to 0."""
    return _dropout_maps(x, p, training, ('NCHW', 'NHWC'), data_format, name)


def dropout3d(x, p=0.5, training=True, data_format='NCDHW', name=None):
    """Whole channels of volumes set to 0."""
    return _dropout_maps(x, p, training, ('NCDHW', 'NDHWC'), data_format, name)


@static_style
def alpha_dropout(x, p=0.5, training=True, name=None):
    """Dropout for selu: mean and variance stay."""
    _check_share(p, 'alpha_dropout')
    if not training or p == 0:
        return _C.scale(x)
    if p == 1:
        return _C.scale(x, 0.0)
    low = -1.6732632423543772848170429916717 * 1.0507009873554804934193349852946
    a = ((1 - p) * (1 + p * low ** 2)) ** -0.5
    keep = _C.dropout(_C.ones_like(x), p, False, None, None, 'downgrade_in_infer')
    keep.stop_gradient = True
    kept = _C.elementwise('elementwise_mul', x, keep, -1, None, None)
    return _C.scale(_C.elementwise('elementwise_add', kept, _C.scale(keep, -low, low), -1, None, None), a,
                    -a * p * low, True, None, name)


@static_style
def label_smooth(label, prior_dist=None, epsilon=0.1, name=None):
    if not 0 < epsilon <= 1:
        raise ValueError(f'label_smooth: epsilon must be above 0 and at most 1, got {epsilon}')
    return _C.label_smooth(label, prior_dist, epsilon, 'float32', name)


_MODES = {'constant': 'constant', 'reflect': 'reflect', 'replicate': 'edge', 'circular': None}
_LAST = ('NLC', 'NHWC', 'NDHWC')


def _ends(x, axis, before, after):
    """x with a piece of its own end before it along axis, and one of its beginning behind."""
    pieces = []
    if before:
        pieces.append(_C.slice(x, [axis], [-before], [2 ** 31 - 1]))
    pieces.append(x)
    if after:
        pieces.append(_C.slice(x, [axis], [0], [after]))
    return _C.concat(pieces, axis) if len(pieces) > 1 else x


def _pad_last_two(x, sides, mode):
    """pad2d over the last two dimensions of a tensor of any rank above 2."""
    shape = list(x.shape)
    if len(shape) == 4:
        return one('pad2d', {'X': x}, {'paddings': sides, 'mode': mode})
    if any(extent < 0 for extent in shape[1:]):
        raise ValueError(f'pad: {x.name} has shape {shape}: all dimensions but the first must be known')
    middle = 1
    for extent in shape[1:-2]:
        middle *= extent
    flat = one('pad2d', {'X': _C.reshape(x, [-1, middle] + shape[-2:])}, {'paddings': sides, 'mode': mode})
    return _C.reshape(flat, [-1] + shape[1:-2] + [shape[-2] + sides[0] + sides[1], shape[-1] + sides[2] + sides[3]])


def _pad_maps(x, sides, mode):
    """Channels first; sides: (before, after) of each dimension behind the channels."""
    if mode == 'circular':
        for axis, (before, after) in enumerate(sides, 2):
            x = _ends(x, axis, before, after)
        return x
    op_mode, count = _MODES[mode], len(sides)
    if count == 1:
        return _C.squeeze(_pad_last_two(_C.unsqueeze(x, [2]), [0, 0, *sides[0]], op_mode), [2])
    x = _pad_last_two(x, [*sides[-2], *sides[-1]], op_mode)
    if count == 3 and any(sides[0]):
        shape = list(x.shape)
        flat = _C.reshape(x, [-1] + shape[1:3] + [shape[3] * shape[4]])
        x = _C.reshape(_pad_last_two(flat, [*sides[0], 0, 0], op_mode),
                       [-1, shape[1], shape[2] + sum(sides[0]), shape[3], shape[4]])
    return x


@static_style
def pad(x, pad, mode='constant', value=0.0, data_format='NCHW', name=None):
    """x with a border.

    pad has two numbers for every dimension of x, the first dimension first (constant only), or two for every
    dimension of an image, the last dimension first.
    """
    if mode not in _MODES:
        raise ValueError(f'pad: mode must be one of {", ".join(_MODES)}, got {mode!r}')
    if isinstance(pad, _C.Variable):
        if len(x.shape) != 4 or mode == 'circular':
            raise NotImplementedError('pad by a variable is built for 4-D x, constant, reflect and replicate: give a list')
        order = _C.concat([_C.slice(pad, [0], [2], [4]), _C.slice(pad, [0], [0], [2])], 0)
        return one('pad2d', {'X': x, 'Paddings': _C.cast(order, 'int32')},
                   {'mode': _MODES[mode], 'pad_value': float(value), 'data_format': data_format}, name)
    pad, rank = [pad] * (2 * (len(x.shape) - 2)) if isinstance(pad, int) else list(pad), len(x.shape)
    if len(pad) == 2 * rank and mode == 'constant':
        return one('pad', {'X': x}, {'paddings': pad, 'pad_value': float(value)}, name)
    if len(pad) != 2 * (rank - 2):
        raise ValueError(f'pad: {len(pad)} numbers for x with shape {list(x.shape)}: give {2 * (rank - 2)}'
                         + (f' or {2 * rank}' if mode == 'constant' else ''))
    sides = list(zip(pad[::2], pad[1::2]))[::-1]
    channel_last = data_format in _LAST
    if mode == 'constant':
        pairs = [(0, 0)] + sides + [(0, 0)] if channel_last else [(0, 0), (0, 0)] + sides
        return one('pad', {'X': x}, {'paddings': [n for pair in pairs for n in pair], 'pad_value': float(value)}, name)
    if not channel_last:
        return _pad_maps(x, sides, mode)
    maps = _pad_maps(_C.transpose(x, [0, rank - 1, *range(1, rank - 1)]), sides, mode)
    return _C.transpose(maps, [0, *range(2, rank), 1])


def zeropad2d(x, padding, data_format='NCHW', name=None):
    """Images with a border of zeros."""
    return pad(x, padding, 'constant', 0.0, data_format, name)


def _sides(paddings):
    """[top, left, bottom, right] of one number, two or four."""
    return numbers(paddings * 2 if not isinstance(paddings, int) and len(paddings) == 2 else paddings, 4, 'paddings')


@static_style
def unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """Every window of an image as one column: [batch, channels * window, windows]."""
    return one('unfold', {'X': x}, {'kernel_sizes': numbers(kernel_sizes, 2, 'kernel_sizes'),
                                    'strides': numbers(strides, 2, 'strides'), 'paddings': _sides(paddings),
                                    'dilations': numbers(dilations, 2, 'dilations')}, name, out='Y')


def _window(x, kernel, stride, sides, dilation, output):
    """(filters of ones that put every element of a window in its place, channels)."""
    import numpy
    height, width = kernel
    count = height * width
    filters = numpy.zeros((count, 1, height, width), 'float32')
    for place in range(count):
        filters[place, 0, place // width, place % width] = 1
    steps = [(output[i] + sides[i] + sides[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
             for i in (0, 1)]
    if x.shape[2] >= 0 and steps[0] * steps[1] != x.shape[2]:
        raise ValueError(f'fold: x has {x.shape[2]} windows, and images of {list(output)} have '
                         f'{steps[0]} x {steps[1]}')
    if x.shape[1] % count:
        raise ValueError(f'fold: x has {x.shape[1]} rows, which windows of {list(kernel)} do not divide')
    return filters, steps, x.shape[1] // count


@static_style
def fold(x, output_sizes, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """The reverse of unfold; where windows overlap, they are added."""
    output, kernel = numbers(output_sizes, 2, 'output_sizes'), numbers(kernel_sizes, 2, 'kernel_sizes')
    stride, dilation, sides = numbers(strides, 2, 'strides'), numbers(dilations, 2, 'dilations'), _sides(paddings)
    filters, steps, channels = _window(x, kernel, stride, sides, dilation, output)
    maps = _C.reshape(x, [-1, kernel[0] * kernel[1], *steps])  # a channel is an image of its own
    whole = [output[0] + sides[0] + sides[2], output[1] + sides[1] + sides[3]]
    least = [(steps[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 for i in (0, 1)]
    out = one('conv2d_transpose', {'Input': maps, 'Filter': _C.cast(_C.assign(filters), x.dtype)},
              {'strides': stride, 'paddings': [0, 0], 'dilations': dilation, 'groups': 1}, out='Output')
    if whole != least:  # pixels that no window reaches
        out = one('pad', {'X': out}, {'paddings': [0, 0, 0, 0, 0, whole[0] - least[0], 0, whole[1] - least[1]],
                                      'pad_value': 0.0})
    out = _C.slice(out, [2, 3], sides[:2], [sides[0] + output[0], sides[1] + output[1]])
    return _C.reshape(out, [-1, channels, *output], name=name)


def _scaled(size, scale, extents):
    """The sizes that are asked for: those given, or the extents times the scale."""
    if size is not None:
        return [s if isinstance(s, _C.Variable) else int(s)
                for s in ([size] * len(extents) if isinstance(size, int) else size)]
    scales = list(scale) if isinstance(scale, (list, tuple)) else [scale] * len(extents)
    if any(s <= 0 for s in scales):
        raise ValueError(f'interpolate: scale_factor must be above 0, got {scale}')
    if len(scales) != len(extents):
        raise ValueError(f'interpolate: scale_factor has {len(scales)} numbers for {len(extents)} dimensions')
    if any(extent < 0 for extent in extents):
        return None
    return [int(extent * s) for extent, s in zip(extents, scales)]


_RESIZE = {'nearest': 'nearest_interp', 'bilinear': 'bilinear_interp', 'trilinear': 'trilinear_interp',
           'bicubic': 'bicubic_interp'}
_RANKS = {'nearest': (4,), 'bilinear': (4,), 'linear': (3,), 'trilinear': (5,), 'bicubic': (4,), 'area': (3, 4, 5)}


@static_style
def interpolate(x, size=None, scale_factor=None, mode='nearest', align_corners=False, align_mode=0,
                data_format='NCHW', name=None):
    """Images of another size."""
    mode = mode.lower()
    if mode not in _RANKS:
        raise ValueError(f'interpolate: mode must be one of {", ".join(_RANKS)}, got {mode!r}')
    if len(x.shape) not in _RANKS[mode]:
        raise ValueError(f'interpolate: {mode} takes x of {" or ".join(map(str, _RANKS[mode]))} dimensions, '
                         f'got {list(x.shape)}')
    if (size is None) == (scale_factor is None):
        raise ValueError('interpolate: give size or scale_factor, one of them')
    if mode == 'linear':
        return _resize_line(x, size, scale_factor, align_corners, align_mode, data_format, name)
    extents = x.shape[1:-1] if data_format in _LAST else x.shape[2:]
    if mode == 'area':
        from . import pooling
        if data_format in _LAST:
            raise NotImplementedError("interpolate: mode 'area' is built for channels in dimension 1")
        pool = {3: pooling.adaptive_avg_pool1d, 4: pooling.adaptive_avg_pool2d, 5: pooling.adaptive_avg_pool3d}
        return pool[len(x.shape)](x, _scaled(size, scale_factor, extents))
    op = _RESIZE[mode]
    if not _C.has_op(op):
        raise NotImplementedError(f'interpolate: mode {mode!r} is not built: use nearest, linear, bilinear or area')
    return _resize(op, x, size, scale_factor, extents, align_corners, align_mode, data_format, name)


def _resize(op, x, size, scale_factor, extents, align_corners, align_mode, data_format, name):
    inputs = {'X': x}
    attrs = {'align_corners': align_corners, 'align_mode': align_mode, 'interp_method': op.partition('_')[0],
             'data_layout': 'NHWC' if data_format in _LAST else 'NCHW'}
    if isinstance(size, _C.Variable):
        inputs['OutSize'] = size
        return one(op, inputs, attrs, name)
    if isinstance(scale_factor, _C.Variable):
        inputs['Scale'] = scale_factor
        return one(op, inputs, attrs, name)
    wanted = _scaled(size, scale_factor, extents)
    if wanted is None:
        scales = set(scale_factor) if isinstance(scale_factor, (list, tuple)) else {scale_factor}
        if len(scales) > 1:
            raise NotImplementedError('interpolate: scale_factor differs by dimension, and x has dimensions that '
                                      'are known only when it runs: give size')
        attrs['scale'] = float(scales.pop())
    elif any(isinstance(extent, _C.Variable) for extent in wanted):
        inputs['SizeTensor'] = [extent if isinstance(extent, _C.Variable) else _C.fill_constant([1], 'int32', extent)
                                for extent in wanted]
    else:
        attrs.update(zip(('out_d', 'out_h', 'out_w')[-len(wanted):], wanted))
    return one(op, inputs, attrs, name)


def _resize_line(x, size, scale_factor, align_corners, align_mode, data_format, name):
    """Lines are images of height 1."""
    axis = 1 if data_format in _LAST else 2
    extent = x.shape[axis]
    wanted = _scaled(size, scale_factor, [extent])
    if wanted is None:
        raise NotImplementedError('interpolate: the length of x is known only when it runs: give size')
    out = _resize('bilinear_interp', _C.unsqueeze(x, [axis]), [1] + wanted, None, None, align_corners, align_mode,
                  'NHWC' if axis == 1 else 'NCHW', name)
    return _C.squeeze(out, [axis])


def upsample(x, size=None, scale_factor=None, mode='nearest', align_corners=False, align_mode=0,
             data_format='NCHW', name=None):
    """interpolate under another name."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)


@static_style
def bilinear(x1, x2, weight, bias=None, name=None):
    """x1 * weight[i] * x2 for every i."""
    return one('bilinear_tensor_product', {'X': x1, 'Y': x2, 'Weight': weight, 'Bias': bias}, {}, name)


@static_style
def cosine_similarity(x1, x2, axis=1, eps=1e-8):
    """The cosine of the angle between x1 and x2 along axis."""
    def total(a, b):
        return _C.reduce('reduce_sum', _C.elementwise('elementwise_mul', a, b, -1, None, None), [axis], False, None)
    both = _C.elementwise('elementwise_mul', total(x1, x1), total(x2, x2), -1, None, None)
    low = _C.fill_constant([1], x1.dtype, eps * eps)
    length = one('sqrt', {'X': _C.elementwise('elementwise_max', both, low, -1, None, None)})
    return _C.elementwise('elementwise_div', total(x1, x2), length, -1, None, None)


def class_center_sample(label, num_classes, num_samples, group=None):
    raise NotImplementedError('class_center_sample is not built in Trireme: use '
                              'fluid.layers.sampled_softmax_with_cross_entropy')
