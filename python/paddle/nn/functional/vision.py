"""Functions of paddle.nn.functional on the pixels of images."""
import _trireme as _C

from ..._style import one, static_style
from ...fluid import layers as _layers

__all__ = ['affine_grid', 'grid_sample', 'pixel_shuffle', 'pixel_unshuffle', 'channel_shuffle', 'temporal_shift']


def _maps_first(x, data_format):
    """x with channels in dimension 1, and the way back."""
    if data_format not in ('NCHW', 'NHWC'):
        raise ValueError(f'data_format is {data_format!r}: give NCHW or NHWC')
    if data_format == 'NCHW':
        return x, lambda out: out
    return _C.transpose(x, [0, 3, 1, 2]), lambda out: _C.transpose(out, [0, 2, 3, 1])


@static_style
def pixel_shuffle(x, upscale_factor, data_format='NCHW', name=None):
    """Channels become pixels: images upscale_factor times as high and wide."""
    maps, back = _maps_first(x, data_format)
    return back(one('pixel_shuffle', {'X': maps}, {'upscale_factor': upscale_factor}, name))


@static_style
def pixel_unshuffle(x, downscale_factor, data_format='NCHW', name=None):
    """Pixels become channels: the reverse of pixel_shuffle."""
    maps, back = _maps_first(x, data_format)
    channels, height, width = maps.shape[1:]
    r = downscale_factor
    if height % r or width % r:
        raise ValueError(f'pixel_unshuffle: {height} x {width} pixels are not cut into {r} x {r}')
    parts = _C.transpose(_C.reshape(maps, [-1, channels, height // r, r, width // r, r]), [0, 1, 3, 5, 2, 4])
    return back(_C.reshape(parts, [-1, channels * r * r, height // r, width // r], name=name))


@static_style
def channel_shuffle(x, groups, data_format='NCHW', name=None):
    """Channels in groups, taken from one group after another."""
    maps, back = _maps_first(x, data_format)
    if groups < 1 or maps.shape[1] % groups:
        raise ValueError(f'channel_shuffle: {maps.shape[1]} channels cannot be cut into {groups} groups')
    return back(one('shuffle_channel', {'X': maps}, {'group': groups}, name))


@static_style
def temporal_shift(x, seg_num, shift_ratio=0.25, name=None, data_format='NCHW'):
    """Some channels of every frame come from the frame before it, as many from the one after it."""
    maps, back = _maps_first(x, data_format)
    return back(one('temporal_shift', {'X': maps}, {'seg_num': seg_num, 'shift_ratio': shift_ratio}, name))


@static_style
def affine_grid(theta, out_shape, align_corners=True, name=None):
    """Where each pixel of the output lies in the input: [batch, height, width, 2] of theta [batch, 2, 3]."""
    if isinstance(out_shape, _C.Variable):
        raise NotImplementedError('affine_grid: out_shape as a variable is not built: give numbers')
    import numpy
    height, width = out_shape[2:]

    def places(count):
        if align_corners:
            return numpy.linspace(-1, 1, count) if count > 1 else numpy.array([-1.0])
        return (numpy.arange(count) * 2 + 1) / count - 1
    rows, columns = numpy.meshgrid(places(height), places(width), indexing='ij')
    base = numpy.stack([columns, rows, numpy.ones_like(rows)], -1).reshape(1, height * width, 3)
    base = _C.cast(_C.assign(base.astype('float32')), theta.dtype)
    grid = one('matmul_v2', {'X': base, 'Y': theta}, {'trans_y': True})
    return _C.reshape(grid, [-1, height, width, 2], name=name)


@static_style
def grid_sample(x, grid, mode='bilinear', padding_mode='zeros', align_corners=True, name=None):
    """x read at the places of the grid, between pixels."""
    if mode != 'bilinear' or padding_mode != 'zeros' or not align_corners:
        raise NotImplementedError("grid_sample is built for mode 'bilinear', padding_mode 'zeros' and "
                                  'align_corners=True')
    return _layers.grid_sampler(x, grid, name)
