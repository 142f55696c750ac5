"""Normalisations of paddle.nn.functional."""
import _trireme as _C

from ..._style import one, static_style
from ...fluid.layer_helper import LayerHelper

__all__ = ['batch_norm', 'instance_norm', 'layer_norm', 'local_response_norm', 'normalize']


def _in_four(x, channel_last):
    """A batch of anything as images, and the way back."""
    rank = len(x.shape)
    if rank == 4:
        return x, lambda out: out
    if rank in (2, 3):
        axes = [1, 2] if channel_last and rank == 2 else [1] if channel_last else list(range(rank, 4))
        return _C.unsqueeze(x, axes), lambda out: _C.squeeze(out, axes)
    shape = list(x.shape)
    if any(extent < 0 for extent in shape[1:]):
        raise ValueError(f'{x.name} has shape {shape}: all dimensions but the first must be known')
    flat = [0, shape[1] * shape[2]] + shape[3:] if channel_last else [0, shape[1], shape[2] * shape[3], shape[4]]
    return _C.reshape(x, flat), lambda out: _C.reshape(out, [-1] + shape[1:])


@static_style
def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.9, epsilon=1e-5,
               data_format='NCHW', use_global_stats=None, name=None):
    """x less the mean of its channel over the batch, by its deviation; not in training: by the running ones."""
    channel_last = data_format in ('NLC', 'NHWC', 'NDHWC')
    if not channel_last and data_format not in ('NC', 'NCL', 'NCHW', 'NCDHW'):
        raise ValueError(f'batch_norm: data_format {data_format!r} is not known: give NCL, NCHW, NCDHW or the like')
    if use_global_stats is None:
        use_global_stats = not training
    rank = len(x.shape)
    images, back = _in_four(x, channel_last) if rank == 5 else (x, lambda out: out)
    helper = LayerHelper('batch_norm', name=name)
    size = list(running_mean.shape)
    weight = _C.fill_constant(size, running_mean.dtype, 1.0) if weight is None else weight
    bias = _C.fill_constant(size, running_mean.dtype, 0.0) if bias is None else bias
    out = helper.create_variable_for_type_inference(x.dtype)
    saved = [helper.create_variable_for_type_inference(running_mean.dtype, stop_gradient=True) for _ in (0, 1)]
    helper.append_op('batch_norm', inputs={'X': [images], 'Scale': [weight], 'Bias': [bias], 'Mean': [running_mean],
                                           'Variance': [running_var]},
                     outputs={'Y': [out], 'MeanOut': [running_mean], 'VarianceOut': [running_var],
                              'SavedMean': [saved[0]], 'SavedVariance': [saved[1]]},
                     attrs={'momentum': momentum, 'epsilon': epsilon, 'is_test': not training,
                            'data_layout': 'NHWC' if channel_last else 'NCHW',
                            'use_global_stats': bool(use_global_stats)})
    return back(out)


@static_style
def layer_norm(x, normalized_shape, weight=None, bias=None, epsilon=1e-5, name=None):
    """x less its mean over the last dimensions, by its deviation."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    begin = len(x.shape) - len(shape)
    if begin < 0 or any(a >= 0 and a != b for a, b in zip(x.shape[begin:], shape)):
        raise ValueError(f'layer_norm: normalized_shape {shape} is not the end of the shape of x, {list(x.shape)}')
    return one('layer_norm', {'X': x, 'Scale': weight, 'Bias': bias}, {'epsilon': epsilon, 'begin_norm_axis': begin},
               name, out='Y')


@static_style
def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.9,
                  eps=1e-5, data_format='NCHW', name=None):
    """Every channel of every sample less its own mean, by its own deviation."""
    if not use_input_stats:
        raise NotImplementedError('instance_norm: use_input_stats=False is not built: use batch_norm with '
                                  'training=False, which takes running statistics')
    if data_format not in ('NCL', 'NCHW', 'NCDHW'):
        raise NotImplementedError(f'instance_norm: data_format {data_format!r} is not built: transpose to NCHW')
    rank, channels = len(x.shape), x.shape[1]
    images, back = _in_four(x, False) if rank != 4 else (x, lambda out: out)
    weight = _C.fill_constant([channels], x.dtype, 1.0) if weight is None else weight
    bias = _C.fill_constant([channels], x.dtype, 0.0) if bias is None else bias
    return back(one('instance_norm', {'X': images, 'Scale': weight, 'Bias': bias}, {'epsilon': eps}, name, out='Y'))


@static_style
def group_norm(x, num_groups, epsilon=1e-5, weight=None, bias=None, data_format='NCHW', name=None):
    """Channels in groups, each less its mean, by its deviation."""
    channel_last = data_format in ('NLC', 'NHWC', 'NDHWC')
    images, back = _in_four(x, channel_last) if len(x.shape) != 4 else (x, lambda out: out)
    return back(one('group_norm', {'X': images, 'Scale': weight, 'Bias': bias},
                    {'epsilon': epsilon, 'groups': num_groups, 'data_layout': 'NHWC' if channel_last else 'NCHW'},
                    name, out='Y'))


@static_style
def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0, data_format='NCHW', name=None):
    """x / (k + alpha * the mean square of `size` neighbouring channels) ** beta."""
    channel_last = data_format in ('NLC', 'NHWC', 'NDHWC')
    rank = len(x.shape)
    axis = rank - 1 if channel_last else 1
    squares = one('square', {'X': x})
    sides = [0] * (2 * rank)
    sides[2 * axis:2 * axis + 2] = [size // 2, (size - 1) // 2]
    padded = one('pad', {'X': squares}, {'paddings': sides, 'pad_value': 0.0})
    channels = x.shape[axis]
    parts = [_C.slice(padded, [axis], [i], [i + channels]) for i in range(size)]
    mean = _C.scale(_C.sums(parts), alpha / size, k)
    return _C.elementwise('elementwise_div', x, one('pow', {'X': mean}, {'factor': beta}), -1, None, name)


@static_style
def normalize(x, p=2, axis=1, epsilon=1e-12, name=None):
    """x by its p-norm along axis, which counts as epsilon at least."""
    from ...tensor.linalg import norm
    length = norm(x, float(p), axis, keepdim=True)
    low = _C.fill_constant([1], x.dtype, epsilon)
    return _C.elementwise('elementwise_div', x, _C.elementwise('elementwise_max', length, low, -1, None, None), -1,
                          None, name)
