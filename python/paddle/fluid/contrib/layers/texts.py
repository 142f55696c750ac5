"""Layers that match texts word by word: products of words, convolutions and means over images of their own sizes."""
import _trireme as _C

from ...layer_helper import LayerHelper

__all__ = ['match_matrix_tensor', 'sequence_topk_avg_pooling', 'var_conv_2d', 'search_pyramid_hash']


def _pair(value, what):
    pair = [value, value] if isinstance(value, int) else list(value)
    if len(pair) != 2:
        raise ValueError(f'{what} is {value!r}: give a number, or one for the height and one for the width')
    return pair


def match_matrix_tensor(x, y, channel_num, act=None, param_attr=None, dtype='float32', name=None):
    """(how every word of a text of x matches every word of the same text of y, channel_num numbers each; x W)."""
    if len(x.shape) != 2 or len(y.shape) != 2 or x.shape[-1] != y.shape[-1] or x.shape[-1] < 1:
        raise ValueError(f'match_matrix_tensor takes x and y of shape [words, width] with one width, got {tuple(x.shape)} '
                         f'and {tuple(y.shape)}')
    helper = LayerHelper('match_matrix_tensor', param_attr=param_attr, act=act, name=name)
    width = x.shape[-1]
    weight = helper.create_parameter(helper.param_attr, [width, channel_num, width], dtype)
    out = helper.create_variable_for_type_inference(dtype)
    product = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op('match_matrix_tensor', inputs={'X': [x], 'Y': [y], 'W': [weight]},
                     outputs={'Out': [out], 'Tmp': [product]}, attrs={'dim_t': channel_num})
    return helper.append_activation(out), product


def sequence_topk_avg_pooling(input, row, col, topks, channel_num):
    """Of every row of every image the means of its largest numbers, one for each of topks and channel."""
    return _C.apply('sequence_topk_avg_pooling', {'X': input, 'ROW': row, 'COLUMN': col},
                    {'topks': list(topks), 'channel_num': channel_num}, None)['Out'][0]


def var_conv_2d(input, row, col, input_channel, output_channel, filter_size, stride=1, param_attr=None, act=None,
                dtype='float32', name=None):
    """A convolution over images that are as high as the sequences of row and as wide as those of col."""
    helper = LayerHelper('var_conv_2d', param_attr=param_attr, act=act, name=name)
    (high, wide), (down, right) = _pair(filter_size, 'filter_size'), _pair(stride, 'stride')
    weight = helper.create_parameter(helper.param_attr, [output_channel, input_channel * high * wide], dtype)
    out = helper.create_variable_for_type_inference(dtype)
    windows = helper.create_variable_for_type_inference(dtype, stop_gradient=True)
    helper.append_op('var_conv_2d', inputs={'X': [input], 'ROW': [row], 'COLUMN': [col], 'W': [weight]},
                     outputs={'Out': [out], 'Col': [windows]},
                     attrs={'InputChannel': input_channel, 'OutputChannel': output_channel, 'KernelH': high,
                            'KernelW': wide, 'StrideH': down, 'StrideW': right})
    return helper.append_activation(out)


def search_pyramid_hash(input, num_emb, space_len, pyramid_layer, rand_len, drop_out_percent, is_training, use_filter,
                        white_list_len, black_list_len, seed, lr, param_attr=None, param_attr_wl=None,
                        param_attr_bl=None, name=None, distribute_update_vars=None, dtype='float32'):
    """Not built: it reads two Bloom filters, of a format that is written down nowhere."""
    raise NotImplementedError('contrib.layers.search_pyramid_hash is not built in Trireme: 1.8.5 builds it with a white and a '
                              'black list alone, which are Bloom filters of a format that nothing describes. Hash the '
                              'pieces with fluid.layers.hash, look them up with fluid.layers.embedding and add them up '
                              'with fluid.layers.sequence_pool')
