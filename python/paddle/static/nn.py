"""Layers under their 2.4 names."""
import _trireme as _C

from .._style import static_style
from ..fluid import layers as _layers
from ..fluid.contrib.layers import sparse_embedding as _sparse_embedding


@static_style
def fc(x, size, num_flatten_dims=1, weight_attr=None, bias_attr=None, activation=None, name=None):
    return _C.fc(x, size, num_flatten_dims, weight_attr, bias_attr, activation, name)


@static_style
def embedding(input, size, is_sparse=False, is_distributed=False, padding_idx=None, param_attr=None,
              dtype='float32'):
    return _C.embedding_v2(input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


@static_style
def deform_conv2d(x, offset, mask, num_filters, filter_size, stride=1, padding=0, dilation=1, groups=1,
                  deformable_groups=1, im2col_step=1, weight_attr=None, bias_attr=None, name=None):
    """A convolution whose windows look beside their places; what they see is weighed by mask, where there is one."""
    return _layers.deformable_conv(x, offset, mask, num_filters, filter_size, stride, padding, dilation, groups,
                                   deformable_groups, im2col_step, weight_attr, bias_attr, mask is not None, name)


batch_norm = static_style(_C.batch_norm)
sparse_embedding = static_style(_sparse_embedding)
conv2d = static_style(_C.conv2d)
layer_norm = static_style(_C.layer_norm)
sequence_conv = static_style(_C.sequence_conv)
sequence_expand = static_style(_C.sequence_expand)
sequence_first_step = static_style(_C.sequence_first_step)
sequence_last_step = static_style(_C.sequence_last_step)
sequence_pool = static_style(_C.sequence_pool)
sequence_softmax = static_style(_C.sequence_softmax)
Print = static_style(_layers.Print)

_FROM_FLUID = ('case', 'cond', 'switch_case', 'while_loop', 'StaticRNN', 'group_norm',
               'instance_norm', 'data_norm', 'prelu', 'nce', 'row_conv', 'spectral_norm',
               'conv2d_transpose', 'conv3d', 'conv3d_transpose', 'crf_decoding', 'multi_box_head',
               'bilinear_tensor_product', 'py_func', 'sequence_pad', 'sequence_unpad',
               'sequence_concat', 'sequence_reshape', 'sequence_reverse', 'sequence_slice',
               'sequence_enumerate', 'sequence_expand_as', 'sequence_scatter', 'continuous_value_model')


def __getattr__(name):
    if name not in _FROM_FLUID:
        raise AttributeError(f'paddle.static.nn has no {name}')
    function = getattr(_layers, name)
    function = function if isinstance(function, type) else static_style(function)
    globals()[name] = function
    return function
