"""Layers that look at regions and places of images: pooled regions, deformed windows, sampled grids."""
import numpy

import _trireme as _C

from ..initializer import NormalInitializer
from ..layer_helper import LayerHelper
from .apply import one
from .images import _numbers

__all__ = ['roi_align', 'roi_pool', 'psroi_pool', 'prroi_pool', 'roi_perspective_transform', 'deformable_conv',
           'deformable_roi_pooling', 'grid_sampler', 'affine_grid', 'similarity_focus', 'crop_tensor', 'random_crop']


# ---- regions in bins

def _bins(height, width, scale):
    return {'pooled_height': height, 'pooled_width': width, 'spatial_scale': float(scale)}


def roi_align(input, rois, pooled_height=1, pooled_width=1, spatial_scale=1.0, sampling_ratio=-1, name=None,
              rois_lod=None):
    """Regions in bins, each the mean of samples between pixels. rois_lod: where those of each image end."""
    return one('roi_align', {'X': input, 'ROIs': rois, 'RoisLod': rois_lod},
               dict(_bins(pooled_height, pooled_width, spatial_scale), sampling_ratio=sampling_ratio), name)


def roi_pool(input, rois, pooled_height=1, pooled_width=1, spatial_scale=1.0, rois_lod=None):
    """Regions in bins, each the largest of its pixels. rois_lod: where those of each image end."""
    return one('roi_pool', {'X': input, 'ROIs': rois, 'RoisLod': rois_lod},
               _bins(pooled_height, pooled_width, spatial_scale))


def psroi_pool(input, rois, output_channels, spatial_scale, pooled_height, pooled_width, name=None):
    """Regions in bins, each the mean of its pixels in a channel of its own."""
    return one('psroi_pool', {'X': input, 'ROIs': rois},
               dict(_bins(pooled_height, pooled_width, spatial_scale), output_channels=output_channels), name)


def prroi_pool(input, rois, spatial_scale=1.0, pooled_height=1, pooled_width=1, batch_roi_nums=None, name=None):
    """Regions in bins, each the integral of the image between its pixels. batch_roi_nums: how many each has."""
    return one('prroi_pool', {'X': input, 'ROIs': rois, 'BatchRoINums': batch_roi_nums},
               _bins(pooled_height, pooled_width, spatial_scale), name)


def roi_perspective_transform(input, rois, transformed_height, transformed_width, spatial_scale=1.0, name=None):
    """Quadrangles turned into upright rectangles; a mask of what lies inside; the matrices that did it."""
    outs = _C.apply('roi_perspective_transform', {'X': input, 'ROIs': rois},
                    {'transformed_height': transformed_height, 'transformed_width': transformed_width,
                     'spatial_scale': float(spatial_scale)}, name)
    return outs['Out'][0], outs['Mask'][0], outs['TransformMatrix'][0]


# ---- deformed windows

def deformable_conv(input, offset, mask, num_filters, filter_size, stride=1, padding=0, dilation=1, groups=None,
                    deformable_groups=None, im2col_step=None, param_attr=None, bias_attr=None, modulated=True,
                    name=None):
    """A convolution whose windows look beside their places; modulated: what they see is weighed by mask."""
    if (mask is None) == modulated:
        raise ValueError('deformable_conv needs a mask with modulated=True, and None without')
    groups = groups or 1
    channels = input.shape[1]
    if channels < 0 or channels % groups:
        raise ValueError(f'{input.name} has {channels} channels, which groups={groups} must divide')
    helper = LayerHelper('deformable_conv', input=input, param_attr=param_attr, bias_attr=bias_attr, name=name)
    sides = _numbers(filter_size, 2, 'filter_size')
    deviation = (2.0 / (sides[0] * sides[1] * channels)) ** 0.5
    weight = helper.create_parameter(helper.param_attr, [num_filters, channels // groups] + sides, input.dtype,
                                     default_initializer=NormalInitializer(0.0, deviation, 0))
    out = helper.create_variable_for_type_inference(input.dtype)
    inputs = {'Input': [input], 'Filter': [weight], 'Offset': [offset]}
    if modulated:
        inputs['Mask'] = [mask]
    helper.append_op('deformable_conv' if modulated else 'deformable_conv_v1', inputs=inputs,
                     outputs={'Output': [out]},
                     attrs={'strides': _numbers(stride, 2, 'stride'), 'paddings': _numbers(padding, 2, 'padding'),
                            'dilations': _numbers(dilation, 2, 'dilation'), 'groups': groups,
                            'deformable_groups': deformable_groups or 1, 'im2col_step': im2col_step or 64})
    return helper.append_bias_op(out, dim_start=1, dim_end=2)


def deformable_roi_pooling(input, rois, trans, no_trans=False, spatial_scale=1.0, group_size=[1, 1], pooled_height=1,
                           pooled_width=1, part_size=None, sample_per_part=1, trans_std=0.1, position_sensitive=False,
                           name=None):
    """Regions in bins that are moved by trans, each the mean of samples between pixels."""
    channels = input.shape[1]
    outs = _C.apply('deformable_psroi_pooling', {'Input': input, 'ROIs': rois, 'Trans': trans},
                    {'no_trans': no_trans, 'spatial_scale': float(spatial_scale),
                     'output_dim': channels // (pooled_height * pooled_width) if position_sensitive else channels,
                     'group_size': _numbers(group_size, 2, 'group_size'), 'pooled_height': pooled_height,
                     'pooled_width': pooled_width,
                     'part_size': _numbers(part_size or [pooled_height, pooled_width], 2, 'part_size'),
                     'sample_per_part': sample_per_part, 'trans_std': float(trans_std)}, name)
    return outs['Output'][0]


# ---- grids and parts

def grid_sampler(x, grid, name=None):
    """x seen through a grid of places, whose corners are -1 and 1."""
    return one('grid_sampler', {'X': x, 'Grid': grid}, name=name, out='Output')


def affine_grid(theta, out_shape, name=None):
    """Where affine maps send the places of images of this shape, a list or a variable."""
    inputs, attrs = {'Theta': theta}, {}
    if isinstance(out_shape, _C.Variable):
        inputs['OutputShape'] = out_shape
    else:
        attrs['output_shape'] = list(out_shape)
    return one('affine_grid', inputs, attrs, name, out='Output')


def similarity_focus(input, axis, indexes, name=None):
    """1 where the slices that indexes names have their largest elements, one in a row and one in a column."""
    if not isinstance(axis, int) or not isinstance(indexes, (list, tuple)):
        raise TypeError('similarity_focus takes axis as a number and indexes as a list of numbers')
    return one('similarity_focus', {'X': input}, {'axis': axis, 'indexes': list(indexes)}, name)


def _one_each(numbers):
    """A variable for every number of a list that holds variables."""
    return [number if isinstance(number, _C.Variable) else _C.fill_constant([1], 'int32', number)
            for number in numbers]


def crop_tensor(x, shape=None, offsets=None, name=None):
    """A part of x: shape and offsets are lists, of numbers or variables, or variables; -1 takes all that is left."""
    if shape is None:
        raise ValueError('crop_tensor needs shape')
    inputs, attrs = {'X': x}, {}
    for value, slot, each, attr in ((shape, 'Shape', 'ShapeTensor', 'shape'),
                                    (offsets, 'Offsets', 'OffsetsTensor', 'offsets')):
        if isinstance(value, _C.Variable):
            inputs[slot] = value
        elif value is not None and any(isinstance(number, _C.Variable) for number in value):
            inputs[each] = _one_each(value)
        elif value is not None:
            attrs[attr] = list(value)
    if offsets is None:
        attrs['offsets'] = [0] * len(x.shape)  # 1.8.5 reads one for every dimension
    return one('crop_tensor', inputs, attrs, name)


def random_crop(x, shape, seed=None):
    """A part of every instance at random places. seed: a number, or an int64 variable that is moved on."""
    if seed is None or isinstance(seed, int):
        # A variable of its own, so that every run cuts at other places.
        first = numpy.random.randint(1, 1 << 30) if seed is None else seed
        seed = _C.create_global_var([1], first, 'int64', persistable=True,
                                    name=_C.generate_name('random_crop_seed'))
    helper = LayerHelper('random_crop')
    cut = helper.create_variable_for_type_inference(x.dtype)
    helper.append_op('random_crop', inputs={'X': [x], 'Seed': [seed]},
                     outputs={'Out': [cut], 'SeedOut': [seed]},
                     attrs={'shape': list(shape)})
    return cut
