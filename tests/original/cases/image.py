"""Resizing and cutting images."""
import numpy as np

from case import L, case


def _resize(layer, name, shape=(1, 2, 4, 5), **arguments):
    def build(c):
        return getattr(L, layer)(c.x(list(shape)), **arguments)
    build.__module__ = __name__
    case(build, layer + name)


_resize('resize_bilinear', '', out_shape=[7, 3])
_resize('resize_bilinear', '_scaled', scale=2.0, align_corners=False)
_resize('resize_bilinear', '_mode0', out_shape=[6, 8], align_corners=False, align_mode=0)
_resize('resize_nearest', '', out_shape=[7, 3])
_resize('resize_nearest', '_scaled', scale=2.0, align_corners=False)
_resize('image_resize', '_bilinear', out_shape=[3, 8])
_resize('image_resize', '_nearest', out_shape=[3, 8], resample='NEAREST', align_corners=False)
_resize('image_resize_short', '', out_short_len=6)
_resize('resize_bilinear', '_nhwc', shape=(1, 4, 5, 2), out_shape=[7, 3], data_format='NHWC')
_resize('im2sequence', '', shape=(2, 2, 4, 4), filter_size=2, stride=2)
_resize('im2sequence', '_padded', shape=(2, 1, 3, 4), filter_size=[2, 3], stride=[1, 2], padding=[1, 0, 0, 1])


@case
def resize_by_a_variable(c):
    return L.resize_bilinear(c.x([1, 2, 4, 5]), out_shape=L.assign(np.array([6, 3], 'int32')))


@case
def pad2d_constant(c):
    return L.pad2d(c.x([2, 2, 3, 4]), [1, 0, 2, 1], pad_value=0.5)


@case
def pad2d_reflect(c):
    return L.pad2d(c.x([2, 2, 3, 4]), [1, 2, 2, 1], mode='reflect')


@case
def pad2d_edge_nhwc(c):
    return L.pad2d(c.x([2, 3, 4, 2]), [1, 2, 2, 1], mode='edge', data_format='NHWC')


@case
def pad_constant_like(c):
    return L.pad_constant_like(c.x([3, 4], fixed=True), c.x([2, 3], fixed=True), 0.5)


@case
def unfold(c):
    return L.unfold(c.x([2, 2, 5, 6]), [2, 3], strides=[2, 1], paddings=[1, 0, 0, 2], dilations=[1, 2])


@case
def unfold_by_single_numbers(c):
    return L.unfold(c.x([1, 2, 5, 6]), 3, paddings=1)


@case
def temporal_shift(c):
    return L.temporal_shift(c.x([4, 8, 2, 2], fixed=True), 2, 0.2)


@case
def affine_channel_relu(c):
    return L.affine_channel(c.x([2, 3, 2, 2]), c.x([3], fixed=True), c.x([3], fixed=True), act='relu')


@case
def pixel_shuffle(c):
    return L.pixel_shuffle(c.x([2, 8, 2, 3]), 2)


@case
def shuffle_channel(c):
    return L.shuffle_channel(c.x([2, 6, 2, 2]), 3)


@case
def maxout_of_three(c):
    return L.maxout(c.x([2, 6, 2, 3]), 3)


@case
def lrn_steep(c):
    return L.lrn(c.x([2, 6, 2, 3]), n=5, k=1.5, alpha=0.1)


@case
def interpolate(c):
    return L.interpolate(c.x([1, 2, 4, 5]), [3, 7], resample='NEAREST')
