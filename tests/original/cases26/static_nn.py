"""Layers of paddle.nn and their functions: dense, convolutions, pools, norms, pads, attention."""
import paddle.nn as nn
import paddle.nn.functional as F
from case import case


def _layer(name, make, shape, **how):
    """A layer on one input."""
    def build(c):
        return make()(c.x(list(shape), **how))
    case(build, name)


_layer('nn_linear', lambda: nn.Linear(4, 5), [3, 4])
_layer('nn_linear_of_three', lambda: nn.Linear(4, 5), [2, 3, 4])
_layer('nn_linear_no_bias', lambda: nn.Linear(4, 5, bias_attr=False), [3, 4])
_layer('nn_conv1d', lambda: nn.Conv1D(3, 4, 3, padding=1, stride=2), [2, 3, 9])
_layer('nn_conv1d_last', lambda: nn.Conv1D(3, 4, 3, padding=1, data_format='NLC'), [2, 9, 3])
_layer('nn_conv1d_groups', lambda: nn.Conv1D(4, 8, 3, dilation=2, groups=2), [2, 4, 9])
_layer('nn_conv2d', lambda: nn.Conv2D(3, 4, 3, stride=2, padding=[1, 2]), [2, 3, 7, 6])
_layer('nn_conv2d_same', lambda: nn.Conv2D(3, 4, 3, stride=2, padding='same'), [2, 3, 7, 6])
_layer('nn_conv2d_depthwise', lambda: nn.Conv2D(4, 8, 3, groups=4), [2, 4, 6, 5])
_layer('nn_conv2d_nhwc', lambda: nn.Conv2D(3, 4, 3, padding=1, data_format='NHWC'), [2, 6, 5, 3])
_layer('nn_conv2d_reflect', lambda: nn.Conv2D(3, 4, 3, padding=1, padding_mode='reflect'), [2, 3, 6, 5], fixed=True)
_layer('nn_conv2d_circular', lambda: nn.Conv2D(3, 4, 3, padding=2, padding_mode='circular'), [2, 3, 6, 5], fixed=True)
_layer('nn_conv3d', lambda: nn.Conv3D(2, 3, 3, padding=1), [2, 2, 4, 5, 4])
_layer('nn_conv1d_transpose', lambda: nn.Conv1DTranspose(3, 4, 3, stride=2, output_padding=1), [2, 3, 5])
_layer('nn_conv2d_transpose', lambda: nn.Conv2DTranspose(3, 4, 3, stride=2, padding=1, output_padding=1), [2, 3, 4, 5])
_layer('nn_conv2d_transpose_groups', lambda: nn.Conv2DTranspose(4, 6, 3, groups=2), [2, 4, 4, 5])
_layer('nn_conv3d_transpose', lambda: nn.Conv3DTranspose(2, 3, 2, stride=2), [2, 2, 3, 3, 2])
_layer('nn_layer_norm', lambda: nn.LayerNorm(6), [2, 3, 6])
_layer('nn_layer_norm_of_two', lambda: nn.LayerNorm([3, 6]), [2, 3, 6])
_layer('nn_group_norm', lambda: nn.GroupNorm(2, 4), [3, 4, 5, 5])
_layer('nn_instance_norm_1d', lambda: nn.InstanceNorm1D(3), [2, 3, 7])
_layer('nn_instance_norm_2d', lambda: nn.InstanceNorm2D(3), [2, 3, 5, 4])
_layer('nn_instance_norm_3d', lambda: nn.InstanceNorm3D(3), [2, 3, 3, 4, 2])
_layer('nn_batch_norm', lambda: nn.BatchNorm(3, act='relu'), [4, 3, 5, 4])
_layer('nn_batch_norm_1d', lambda: nn.BatchNorm1D(5), [6, 5])
_layer('nn_batch_norm_1d_lines', lambda: nn.BatchNorm1D(5), [4, 5, 3])
_layer('nn_batch_norm_2d', lambda: nn.BatchNorm2D(3, momentum=0.8, epsilon=1e-3), [4, 3, 5, 4])
_layer('nn_batch_norm_2d_nhwc', lambda: nn.BatchNorm2D(3, data_format='NHWC'), [4, 5, 4, 3])
_layer('nn_batch_norm_2d_global', lambda: nn.BatchNorm2D(3, use_global_stats=True), [4, 3, 5, 4])
_layer('nn_batch_norm_3d', lambda: nn.BatchNorm3D(3), [4, 3, 2, 4, 3])
_layer('nn_local_response_norm', lambda: nn.LocalResponseNorm(3, alpha=0.1, beta=0.6, k=2.0), [2, 6, 4, 4])
_layer('nn_sequential', lambda: nn.Sequential(('in', nn.Linear(4, 6)), ('act', nn.ReLU()), ('out', nn.Linear(6, 2))), [3, 4])
_layer('nn_prelu', lambda: nn.PReLU(3), [2, 3, 4, 4])
_layer('nn_flatten', lambda: nn.Flatten(), [2, 3, 4])
_layer('nn_upsample', lambda: nn.Upsample(size=[5, 8], mode='bilinear'), [2, 3, 4, 5])
_layer('nn_upsample_nearest', lambda: nn.UpsamplingNearest2D(scale_factor=2), [2, 3, 3, 4])
_layer('nn_upsample_bilinear', lambda: nn.UpsamplingBilinear2D(size=[6, 7]), [2, 3, 3, 4])
_layer('nn_pixel_shuffle', lambda: nn.PixelShuffle(2), [2, 8, 3, 4])
_layer('nn_pixel_unshuffle', lambda: nn.PixelUnshuffle(2), [2, 3, 4, 6], fixed=True)
_layer('nn_channel_shuffle', lambda: nn.ChannelShuffle(2), [2, 6, 3, 4])
_layer('nn_zero_pad', lambda: nn.ZeroPad2D([1, 2, 0, 1]), [2, 3, 4, 5])
_layer('nn_pad1d_reflect', lambda: nn.Pad1D([2, 1], mode='reflect'), [2, 3, 6], fixed=True)
_layer('nn_pad2d_replicate', lambda: nn.Pad2D([1, 2, 3, 1], mode='replicate'), [2, 3, 4, 5])
_layer('nn_pad3d_replicate', lambda: nn.Pad3D([1, 2, 1, 0, 2, 1], mode='replicate'), [2, 2, 3, 4, 5], fixed=True)
_layer('nn_pad3d_reflect', lambda: nn.Pad3D([1, 2, 1, 0, 2, 1], mode='reflect'), [2, 2, 3, 4, 5], fixed=True)
_layer('nn_avg_pool1d', lambda: nn.AvgPool1D(3, stride=2, padding=1), [2, 3, 8])
_layer('nn_avg_pool1d_inclusive', lambda: nn.AvgPool1D(3, stride=2, padding=1, exclusive=False), [2, 3, 8])
_layer('nn_avg_pool2d', lambda: nn.AvgPool2D(2, stride=1, padding=1), [2, 3, 5, 4])
_layer('nn_avg_pool2d_divisor', lambda: nn.AvgPool2D(2, divisor_override=3), [2, 3, 6, 4])
_layer('nn_avg_pool3d', lambda: nn.AvgPool3D(2), [2, 2, 4, 4, 6])
_layer('nn_max_pool1d', lambda: nn.MaxPool1D(3, stride=2, padding=1), [2, 3, 8])
_layer('nn_max_pool2d', lambda: nn.MaxPool2D(3, stride=2, ceil_mode=True), [2, 3, 6, 8])
_layer('nn_max_pool3d', lambda: nn.MaxPool3D(2), [2, 2, 4, 4, 6])
_layer('nn_adaptive_avg_pool1d', lambda: nn.AdaptiveAvgPool1D(3), [2, 3, 8])
_layer('nn_adaptive_avg_pool2d', lambda: nn.AdaptiveAvgPool2D([3, 2]), [2, 3, 7, 5])
_layer('nn_adaptive_avg_pool3d', lambda: nn.AdaptiveAvgPool3D([2, 2, 3]), [2, 2, 4, 4, 6], fixed=True)
_layer('nn_adaptive_avg_pool3d_uneven', lambda: nn.AdaptiveAvgPool3D([2, 3, 2]), [2, 2, 5, 4, 6], fixed=True)
_layer('nn_adaptive_max_pool1d', lambda: nn.AdaptiveMaxPool1D(3), [2, 3, 8])
_layer('nn_adaptive_max_pool2d', lambda: nn.AdaptiveMaxPool2D([3, 2]), [2, 3, 7, 5])
_layer('nn_adaptive_max_pool3d', lambda: nn.AdaptiveMaxPool3D([2, 2, 3]), [2, 2, 4, 4, 6], fixed=True)
_layer('nn_unfold', lambda: nn.Unfold(2, paddings=1), [2, 3, 4, 5])
_layer('nn_fold', lambda: nn.Fold([4, 5], 2), [2, 12, 12])
_layer('nn_fold_strided', lambda: nn.Fold([5, 6], [2, 3], strides=2, paddings=1), [2, 12, 9])
_layer('nn_softmax2d', lambda: nn.Softmax2D(), [2, 3, 4, 4])


@case
def nn_embedding(c):
    return nn.Embedding(7, 3)(c.ids([4, 2], 7))


@case
def nn_embedding_padding(c):
    return nn.Embedding(5, 3, padding_idx=-2)(c.ids([6, 2], 5))


@case
def nn_bilinear(c):
    return nn.Bilinear(3, 4, 5)(c.x([2, 3]), c.x([2, 4]))


@case
def nn_spectral_norm(c):
    c.gradients = False  # u and v are drawn, and the original's gradient departs
    return nn.SpectralNorm([3, 4], dim=1, power_iters=2)(c.x([3, 4], fixed=True))


@case
def nn_cosine_similarity(c):
    return nn.CosineSimilarity(axis=1)(c.x([3, 5]), c.x([3, 5]))


@case
def nn_pairwise_distance(c):
    return nn.PairwiseDistance()(c.x([3, 5]), c.x([3, 5]))


@case
def f_max_pool2d_with_places(c):
    return F.max_pool2d(c.x([2, 3, 6, 4]), 2, return_mask=True)


@case
def f_max_unpool2d(c):
    values, places = F.max_pool2d(c.x([2, 3, 6, 4]), 2, return_mask=True)
    return F.max_unpool2d(values, places, 2)


@case
def f_pad_all(c):
    return F.pad(c.x([2, 3, 4]), [0, 0, 1, 2, 2, 1], value=0.5)


@case
def f_interpolate(c):
    x = c.x([2, 3, 4, 5], fixed=True)
    return (F.interpolate(x, scale_factor=2), F.interpolate(x, size=[3, 7]), F.interpolate(x, size=[7, 9], mode='bilinear'),
            F.interpolate(x, scale_factor=[2, 3], mode='bilinear', align_corners=True),
            F.interpolate(x, size=[7, 9], mode='bilinear', align_mode=1), F.interpolate(x, size=[2, 3], mode='area'))


@case
def f_interpolate_lines(c):
    return F.interpolate(c.x([2, 3, 5], fixed=True), size=[8], mode='linear', data_format='NCW')


@case
def f_normalize(c):
    x = c.x([3, 5])
    return F.normalize(x), F.normalize(x, p=1, axis=0)


@case
def f_dropout_tested(c):
    x = c.x([3, 5])
    return F.dropout(x, 0.4, training=False), F.dropout(x, 0.4, training=False, mode='downscale_in_infer')


@case
def f_dropout_random(c):
    c.random = True
    x = c.x([3, 5, 2, 2], fixed=True)
    return (F.dropout(x, 0.4), F.dropout(x, 0.4, axis=0), F.dropout2d(x, 0.4), F.alpha_dropout(x, 0.4))


@case
def f_sequence_mask(c):
    return F.sequence_mask(c.ids([4], 6, 1), maxlen=7, dtype='float32')


@case
def f_affine_grid(c):
    theta = c.x([2, 2, 3])
    return F.affine_grid(theta, [2, 3, 4, 5]), F.affine_grid(theta, [2, 3, 4, 5], align_corners=False)


@case
def f_temporal_shift(c):
    return F.temporal_shift(c.x([4, 8, 3, 2]), 2, 0.25)


@case
def f_one_hot(c):
    return F.one_hot(c.ids([3, 2], 5), 5)


@case
def f_label_smooth(c):
    return F.label_smooth(F.one_hot(c.ids([3], 5), 5), epsilon=0.2)


@case
def f_linear(c):
    return F.linear(c.x([3, 4]), c.x([4, 2], fixed=True), c.x([2], fixed=True))


@case
def nn_multi_head_attention(c):
    return nn.MultiHeadAttention(6, 2)(c.x([2, 3, 6]), c.x([2, 4, 6]), c.x([2, 4, 6]))


@case
def nn_multi_head_attention_masked(c):
    mask = c.ids([2, 1, 3, 3], 2) > 0
    return nn.MultiHeadAttention(6, 2, need_weights=True)(c.x([2, 3, 6]), attn_mask=mask)


@case
def nn_transformer_encoder(c):
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, activation='gelu')
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(6))(c.x([2, 3, 6]))


@case
def nn_transformer_encoder_norm_first(c):
    return nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, normalize_before=True)(c.x([2, 3, 6]))


@case
def nn_transformer(c):
    net = nn.Transformer(6, 2, 1, 1, 8, dropout=0.0)
    return net(c.x([2, 3, 6]), c.x([2, 4, 6]), tgt_mask=net.generate_square_subsequent_mask(4))


@case
def nn_tested(c):
    net = nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(48, 2))
    net.eval()
    return net(c.x([2, 3, 6, 5], fixed=True))


class _Block(nn.Layer):
    def __init__(self, width):
        super(_Block, self).__init__()
        self.layers = nn.LayerList([nn.Linear(width, width) for _ in range(2)])
        self.by_name = nn.LayerDict({'out': nn.Linear(width, 2)})
        self.scale = self.create_parameter([width], default_initializer=nn.initializer.Constant(1.0))
        self.more = nn.ParameterList([self.create_parameter([width]) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x)) + x
        return self.by_name['out'](x * self.scale + self.more[0] - self.more[1])


@case
def nn_own_layer(c):
    return _Block(4)(c.x([3, 4]))
