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
