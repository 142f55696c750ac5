"""Layers that look at regions and places of images: pooled regions, deformed windows, sampled grids."""
import numpy as np
import paddle.fluid as fluid

from case import L, case

ROIS = np.array([[1.0, 0.5, 9.0, 8.0], [3.0, 2.0, 4.5, 12.0], [0.0, 0.0, 14.0, 14.0]], 'float32')
QUADS = np.array([[1.0, 1.0, 9.0, 2.0, 8.0, 8.0, 0.5, 7.0], [3.0, 2.0, 12.0, 1.0, 13.0, 10.0, 4.0, 11.0]], 'float32')
LENGTHS = [[1, 2]]


@case
def roi_align(c):
    return L.roi_align(c.x([2, 2, 8, 7]), c.given(ROIS, lod=LENGTHS), 2, 3, 0.5)


@case
def roi_align_with_ratio(c):
    return L.roi_align(c.x([2, 2, 8, 7]), c.given(ROIS, lod=LENGTHS), 2, 2, 0.5, sampling_ratio=2)


@case
def roi_align_by_counts(c):
    return L.roi_align(c.x([2, 2, 8, 7]), c.given(ROIS), 2, 2, 1.0, rois_lod=c.given(np.array([0, 1, 3], 'int64')))


@case
def roi_pool(c):
    return L.roi_pool(c.x([2, 2, 8, 7]), c.given(ROIS, lod=LENGTHS), 2, 3, 0.5)


@case
def roi_pool_by_counts(c):
    return L.roi_pool(c.x([2, 2, 8, 7]), c.given(ROIS), 3, 2, 1.0, rois_lod=c.given(np.array([0, 1, 3], 'int64')))


@case
def psroi_pool(c):
    return L.psroi_pool(c.x([2, 12, 8, 7]), c.given(ROIS, lod=LENGTHS), 2, 0.5, 2, 3)


@case
def prroi_pool(c):
    return L.prroi_pool(c.x([2, 2, 8, 7]), c.given(ROIS, lod=LENGTHS, grad=True), 0.5, 2, 3)


@case
def prroi_pool_by_counts(c):
    return L.prroi_pool(c.x([2, 2, 8, 7]), c.given(ROIS, grad=True), 0.6, 2, 2,
                        batch_roi_nums=c.given(np.array([1, 2], 'int64')))


@case
def deformable_conv(c):
    return L.deformable_conv(c.x([2, 4, 5, 6]), c.x([2, 18, 5, 6], -1.7, 1.7), c.x([2, 9, 5, 6], 0.1, 1.0), 3, 3, padding=1,
                             im2col_step=1)


@case
def deformable_conv_groups(c):
    return L.deformable_conv(c.x([2, 4, 6, 5]), c.x([2, 24, 3, 3], -1.7, 1.7), c.x([2, 12, 3, 3], 0.1, 1.0), 4, [3, 2],
                             stride=2, padding=[1, 1], dilation=1, groups=2, deformable_groups=2, im2col_step=1,
                             bias_attr=False)


@case
def deformable_conv_first(c):
    return L.deformable_conv(c.x([2, 4, 5, 6]), c.x([2, 18, 3, 4], -1.7, 1.7), None, 3, 3, im2col_step=1, modulated=False)


@case
def deformable_conv_steps(c):
    c.gradients = False
    x, offset, mask = c.x([2, 4, 5, 6]), c.x([2, 18, 5, 6], -1.7, 1.7), c.x([2, 9, 5, 6], 0.1, 1.0)
    return [L.deformable_conv(x, offset, mask, 3, 3, padding=1, im2col_step=step, param_attr='shared', bias_attr=False)
            for step in (1, 2, 64)]


@case
def deformable_roi_pooling(c):
    return L.deformable_roi_pooling(c.x([2, 3, 8, 7]), c.given(ROIS, lod=LENGTHS), c.x([3, 2, 2, 3], -0.5, 0.5),
                                    spatial_scale=0.5, pooled_height=2, pooled_width=3, sample_per_part=3)


@case
def deformable_roi_pooling_by_position(c):
    return L.deformable_roi_pooling(c.x([2, 8, 8, 7]), c.given(ROIS, lod=LENGTHS), c.x([3, 2, 2, 2], -0.5, 0.5),
                                    spatial_scale=0.5, group_size=[2, 2], pooled_height=2, pooled_width=2,
                                    part_size=[2, 2], sample_per_part=2, position_sensitive=True)


@case
def deformable_roi_pooling_plain(c):
    return L.deformable_roi_pooling(c.x([2, 3, 8, 7]), c.given(ROIS, lod=LENGTHS), c.x([3, 2, 2, 2], grad=False),
                                    no_trans=True, spatial_scale=0.5, pooled_height=2, pooled_width=2,
                                    sample_per_part=2)


@case
def grid_sampler(c):
    return L.grid_sampler(c.x([2, 3, 4, 5]), c.x([2, 4, 5, 2], -1.3, 1.3))


@case
def affine_grid(c):
    return L.affine_grid(c.x([2, 2, 3]), [2, 3, 4, 5])


@case
def affine_grid_by_variable(c):
    return L.affine_grid(c.x([2, 2, 3]), c.given(np.array([2, 3, 3, 2], 'int32'), fixed=True))


@case
def affine_grid_sampled(c):
    return L.grid_sampler(c.x([2, 3, 4, 5]), L.affine_grid(c.x([2, 2, 3]), [2, 3, 4, 5]))


@case
def roi_perspective_transform(c):
    return list(L.roi_perspective_transform(c.x([2, 2, 14, 14]), c.given(QUADS, lod=[[1, 1]]), 4, 6, 1.0))


@case
def roi_perspective_transform_scaled(c):
    return list(L.roi_perspective_transform(c.x([2, 2, 8, 8]), c.given(QUADS, lod=[[2, 0]]), 5, 3, 0.5))


@case
def polygon_box_transform(c):
    return L.polygon_box_transform(c.x([2, 8, 3, 4]))


@case
def similarity_focus(c):
    return L.similarity_focus(c.x([2, 3, 2, 4]), 1, [0, 2])


@case
def similarity_focus_other_axes(c):
    x = c.x([2, 3, 2, 4])
    return [L.similarity_focus(x, 2, [1]), L.similarity_focus(x, 3, [0, 3])]


@case
def resize_trilinear(c):
    return L.resize_trilinear(c.x([2, 3, 3, 4, 5]), [4, 3, 7])


@case
def resize_trilinear_edges(c):
    x = c.x([1, 2, 3, 4, 5])
    return [L.resize_trilinear(x, [4, 3, 7], align_corners=False),
            L.resize_trilinear(x, [2, 6, 7], align_corners=False, align_mode=0)]


@case
def resize_trilinear_scaled(c):
    return L.resize_trilinear(c.x([1, 3, 4, 5, 2]), scale=1.5, data_format='NDHWC')


@case
def image_resize_trilinear(c):
    return L.image_resize(c.x([2, 3, 3, 4, 5]), [4, 3, 7], resample='TRILINEAR', data_format='NCDHW')


@case
def adaptive_pool3d(c):
    x = c.x([2, 2, 5, 4, 6])
    return [L.adaptive_pool3d(x, [2, 3, 4], 'avg'), L.adaptive_pool3d(x, [3, 2, 2], 'max'), L.adaptive_pool3d(x, 2, 'avg')]


@case
def adaptive_pool3d_with_index(c):
    values, places = L.adaptive_pool3d(c.x([2, 2, 5, 4, 6]), [3, 2, 2], 'max', require_index=True)
    places.stop_gradient = True
    return [values, places]


@case
def random_crop(c):
    c.random = True
    return L.random_crop(c.x([3, 3, 8, 8], fixed=True), [3, 5, 5])


@case
def crop_tensor(c):
    x = c.x([3, 5, 4])
    return [L.crop_tensor(x, [2, -1, 3], [1, 2, 0]), L.crop_tensor(x, [-1, 2, 4])]


@case
def crop_tensor_by_variables(c):
    x = c.x([3, 5, 4])
    one = fluid.layers.fill_constant([1], 'int32', 1)
    two = fluid.layers.fill_constant([1], 'int32', 2)
    return [L.crop_tensor(x, c.given(np.array([2, 2, 3], 'int32'), fixed=True), [1, 2, 0]),
            L.crop_tensor(x, [two, -1, 3], [1, 2, 0]), L.crop_tensor(x, [2, 2, 3], [one, two, 0])]
