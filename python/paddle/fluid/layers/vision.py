"""Layers of images: borders, windows and channels."""
import _trireme as _C

from ..layer_helper import LayerHelper
from .apply import one
from .images import _numbers

__all__ = ['pad2d', 'pad_constant_like', 'unfold', 'temporal_shift', 'affine_channel', 'pixel_shuffle',
           'shuffle_channel', 'maxout', 'lrn']


def pad2d(input, paddings=[0, 0, 0, 0], mode='constant', pad_value=0.0, data_format='NCHW', name=None):
    """Images with a border; paddings: top, bottom, left, right, or a variable that has them."""
    inputs, attrs = {'X': input}, {'mode': mode, 'pad_value': pad_value, 'data_format': data_format}
    if isinstance(paddings, _C.Variable):
        inputs['Paddings'] = paddings
    else:
        attrs['paddings'] = list(paddings)
    return one('pad2d', inputs, attrs, name)


def pad_constant_like(x, y, pad_value=0.0, name=None):
    """y made as large as x, the new elements at the ends."""
    return one('pad_constant_like', {'X': x, 'Y': y}, {'pad_value': pad_value}, name)


def unfold(x, kernel_sizes, strides=1, paddings=0, dilations=1, name=None):
    """Every window of an image as one column: [batch, channels * window, windows]."""
    sides = [paddings] * 4 if isinstance(paddings, int) else list(paddings)
    sides = sides * 4 if len(sides) == 1 else sides * 2 if len(sides) == 2 else sides
    attrs = {'kernel_sizes': _numbers(kernel_sizes, 2, 'kernel_sizes'),
             'strides': _numbers(strides, 2, 'strides'), 'paddings': _numbers(sides, 4, 'paddings'),
             'dilations': _numbers(dilations, 2, 'dilations')}
    return one('unfold', {'X': x}, attrs, name, out='Y')


def temporal_shift(x, seg_num, shift_ratio=0.25, name=None):
    """Some channels of every frame come from the frame before it, as many from the one after it."""
    return one('temporal_shift', {'X': x}, {'seg_num': seg_num, 'shift_ratio': shift_ratio}, name)


def affine_channel(x, scale=None, bias=None, data_layout='NCHW', name=None, act=None):
    """Every channel multiplied by its own number, another one added."""
    helper = LayerHelper('affine_channel', name=name, act=act)
    out = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op('affine_channel', inputs={'X': [x], 'Scale': [scale], 'Bias': [bias]},
                     outputs={'Out': [out]}, attrs={'data_layout': data_layout})
    return helper.append_activation(out)


def pixel_shuffle(x, upscale_factor):
    """Channels become pixels: images upscale_factor times as high and wide."""
    return one('pixel_shuffle', {'X': x}, {'upscale_factor': upscale_factor})


def shuffle_channel(x, group, name=None):
    """Channels in groups, taken from one group after another."""
    return one('shuffle_channel', {'X': x}, {'group': group}, name)


def maxout(x, groups, name=None, axis=1):
    """The largest of every `groups` neighbouring channels."""
    return one('maxout', {'X': x}, {'groups': groups, 'axis': axis}, name)


def lrn(input, n=5, k=1.0, alpha=1e-4, beta=0.75, name=None, data_format='NCHW'):
    """input / (k + alpha * the squares of n neighbouring channels) ** beta."""
    return one('lrn', {'X': input},
               {'n': n, 'k': k, 'alpha': alpha, 'beta': beta, 'data_format': data_format}, name)
