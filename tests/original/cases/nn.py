"""Layers with parameters, convolutions, pools, norms, embeddings, dropout."""
import paddle.fluid as fluid
from case import L, case


@case
def fc(c):
    return L.fc(c.x([3, 4]), 5)


@case
def fc_activated_no_bias(c):
    return L.fc(c.x([3, 4]), 5, act='relu', bias_attr=False)


@case
def fc_flattened(c):
    return L.fc(c.x([2, 3, 4]), 5, num_flatten_dims=2, act='tanh')


@case
def fc_of_images(c):
    return L.fc(c.x([2, 3, 4, 4]), 5, act='softmax')


@case
def fc_two_inputs(c):
    return L.fc([c.x([3, 4]), c.x([3, 6])], 5, act='sigmoid')


@case
def fc_shared_parameter(c):
    x = c.x([3, 4])
    hidden = L.fc(x, 4, param_attr='shared', bias_attr='bias')
    return L.fc(hidden, 4, param_attr='shared', bias_attr='bias')


@case
def fc_of_a_sequence(c):
    return L.fc(c.x([5, 3], lod=[[2, 3]]), 4)


@case
def fc_frozen(c):
    hidden = L.fc(c.x([3, 4]), 5, param_attr=fluid.ParamAttr(trainable=False))
    return L.fc(hidden, 2)


@case
def embedding(c):
    return L.embedding(c.ids([4, 1], 7), [7, 3])


@case
def embedding_padding(c):
    return L.embedding(c.ids([6, 1], 4), [4, 3], padding_idx=2)


@case
def embedding_padding_from_the_end(c):
    return L.embedding(c.ids([6, 1], 4), [4, 3], padding_idx=-1)


@case
def embedding_of_a_sequence(c):
    return L.embedding(c.ids([5, 1], 7, lod=[[3, 2]]), [7, 3], param_attr='table')


@case
def embedding_of_fluid(c):
    return fluid.embedding(c.ids([4, 2], 7), [7, 3])


@case
def embedding_sparse_trained(c):
    words = L.embedding(c.ids([4, 1], 7), [7, 3], is_sparse=True)
    return c.train(L.reduce_mean(L.square(L.fc(words, 2))))


@case
def rows_of_a_sparse_gradient(c):
    table = L.embedding(c.given([[3], [1], [3], [0]]), [6, 2], is_sparse=True, param_attr='table')
    loss = L.reduce_sum(L.elementwise_mul(table, c.x([4, 2])))
    (_, gradient), = fluid.backward.append_backward(loss)
    c.gradients = False
    return L.get_tensor_from_selected_rows(L.merge_selected_rows(gradient))


def _conv2d(name, shape, filters, size, **arguments):
    def build(c):
        return L.conv2d(c.x(shape), filters, size, **arguments)
    build.__module__ = __name__
    case(build, 'conv2d' + name)


_conv2d('', [2, 3, 6, 6], 4, 3)
_conv2d('_padded', [2, 3, 6, 6], 4, 3, padding=1, act='relu')
_conv2d('_strided', [2, 3, 7, 6], 4, [3, 2], stride=[2, 1], padding=[1, 0], bias_attr=False)
_conv2d('_dilated', [2, 3, 7, 7], 2, 3, dilation=2)
_conv2d('_groups', [2, 4, 5, 5], 6, 3, groups=2, padding=1)
_conv2d('_depthwise', [2, 4, 5, 5], 4, 3, groups=4, padding=1)
_conv2d('_depthwise_doubled', [2, 3, 5, 5], 6, 3, groups=3, stride=2)
_conv2d('_same', [2, 3, 5, 6], 2, 3, stride=2, padding='SAME')
_conv2d('_valid', [2, 3, 5, 6], 2, 3, padding='VALID')
_conv2d('_four_paddings', [2, 3, 5, 6], 2, 3, padding=[1, 2, 0, 1])
_conv2d('_nhwc', [2, 5, 5, 3], 2, 3, padding=1, data_format='NHWC')
_conv2d('_one_by_one', [2, 3, 4, 4], 5, 1)


def _transposed(name, shape, filters, **arguments):
    def build(c):
        return L.conv2d_transpose(c.x(shape), filters, **arguments)
    build.__module__ = __name__
    case(build, 'conv2d_transpose' + name)


_transposed('', [2, 3, 4, 4], 2, filter_size=3)
_transposed('_strided', [2, 3, 4, 4], 2, filter_size=4, stride=2, padding=1, act='tanh')
_transposed('_sized', [2, 3, 4, 4], 2, output_size=[9, 9], stride=2)
_transposed('_sized_with_filter', [2, 3, 4, 4], 2, output_size=[8, 8], filter_size=3, stride=2, padding=1)
_transposed('_groups', [2, 4, 4, 4], 4, filter_size=3, groups=2)
_transposed('_dilated', [2, 3, 4, 4], 2, filter_size=3, dilation=2)


@case
def conv3d(c):
    return L.conv3d(c.x([1, 2, 4, 4, 4]), 3, 3, padding=1)


@case
def conv3d_strided(c):
    return L.conv3d(c.x([1, 2, 4, 5, 4]), 2, [2, 3, 2], stride=2, act='relu')


@case
def conv3d_transpose(c):
    return L.conv3d_transpose(c.x([1, 2, 3, 3, 3]), 2, filter_size=3, stride=2)


def _pool2d(name, shape=(2, 2, 6, 6), **arguments):
    def build(c):
        return L.pool2d(c.x(list(shape)), **arguments)
    build.__module__ = __name__
    case(build, 'pool2d' + name)


for _kind in ('max', 'avg'):
    _pool2d('_' + _kind, pool_size=2, pool_type=_kind, pool_stride=2)
    _pool2d('_%s_overlapping' % _kind, pool_size=3, pool_type=_kind, pool_stride=1, pool_padding=1)
    _pool2d('_%s_ceil' % _kind, shape=(2, 2, 7, 5), pool_size=[3, 2], pool_type=_kind, pool_stride=2, ceil_mode=True)
    _pool2d('_%s_global' % _kind, pool_type=_kind, global_pooling=True)
    _pool2d('_%s_same' % _kind, shape=(2, 2, 5, 5), pool_size=3, pool_type=_kind, pool_stride=2, pool_padding='SAME')
    _pool2d('_%s_nhwc' % _kind, shape=(2, 6, 6, 2), pool_size=2, pool_type=_kind, pool_stride=2, data_format='NHWC')
_pool2d('_avg_inclusive', pool_size=3, pool_type='avg', pool_stride=2, pool_padding=1, exclusive=False)
_pool2d('_avg_ceil_inclusive', shape=(2, 2, 7, 5), pool_size=3, pool_type='avg', pool_stride=2, ceil_mode=True,
        exclusive=False, pool_padding=1)


@case
def pool3d_max(c):
    return L.pool3d(c.x([1, 2, 4, 4, 4]), pool_size=2, pool_stride=2)


@case
def pool3d_avg(c):
    return L.pool3d(c.x([1, 2, 4, 5, 4]), pool_size=3, pool_type='avg', pool_stride=2, pool_padding=1)


@case
def adaptive_pool2d_avg(c):
    return L.adaptive_pool2d(c.x([2, 2, 5, 7]), [2, 3], pool_type='avg')


@case
def adaptive_pool2d_max(c):
    return L.adaptive_pool2d(c.x([2, 2, 5, 7]), [2, 3], pool_type='max')


@case
def adaptive_pool2d_max_with_index(c):
    return list(L.adaptive_pool2d(c.x([2, 2, 6, 6]), 3, pool_type='max', require_index=True))


@case
def batch_norm(c):
    return L.batch_norm(c.x([4, 3]))


@case
def batch_norm_of_images(c):
    return L.batch_norm(c.x([3, 2, 3, 3]), act='relu', momentum=0.7, epsilon=1e-3)


@case
def batch_norm_in_test(c):
    return L.batch_norm(c.x([3, 2, 3, 3]), is_test=True)


@case
def batch_norm_global(c):
    return L.batch_norm(c.x([3, 2, 3, 3]), use_global_stats=True)


@case
def batch_norm_nhwc(c):
    return L.batch_norm(c.x([3, 3, 3, 2]), data_layout='NHWC')


@case
def batch_norm_trained(c):
    hidden = L.batch_norm(L.fc(c.x([6, 4]), 5), moving_mean_name='m', moving_variance_name='v')
    return c.train(L.reduce_mean(L.square(L.fc(hidden, 1))))


@case
def inplace_abn(c):
    return L.inplace_abn(c.x([3, 2, 3, 3]), act='leaky_relu', act_alpha=0.2)


@case
def inplace_abn_elu(c):
    return L.inplace_abn(c.x([3, 2, 3, 3]), act='elu', act_alpha=0.7)


@case
def layer_norm(c):
    return L.layer_norm(c.x([3, 5]))


@case
def layer_norm_axis2(c):
    return L.layer_norm(c.x([2, 3, 4]), begin_norm_axis=2, act='relu')


@case
def layer_norm_plain(c):
    return L.layer_norm(c.x([3, 2, 4]), scale=False, shift=False, epsilon=1e-3)


@case
def instance_norm(c):
    return L.instance_norm(c.x([2, 3, 4, 4]))


@case
def group_norm(c):
    return L.group_norm(c.x([2, 4, 3, 3]), groups=2)


@case
def group_norm_plain(c):
    return L.group_norm(c.x([2, 6, 3, 3]), groups=3, param_attr=False, bias_attr=False, act='tanh')


@case
def data_norm(c):
    return L.data_norm(c.x([4, 3]))


@case
def data_norm_trained(c):
    hidden = L.data_norm(c.x([4, 3]))
    return c.train(L.reduce_mean(L.square(L.fc(hidden, 1))))


@case
def data_norm_trained_first(c):
    """Of data that needs no gradient the statistics move all the same."""
    hidden = L.data_norm(c.x([4, 3], grad=False), summary_decay_rate=0.5)
    return c.train(L.reduce_mean(L.square(L.fc(hidden, 1))))


@case
def lrn(c):
    return L.lrn(c.x([2, 6, 3, 3]))


@case
def spectral_norm(c):
    weight = L.create_parameter([4, 3], 'float32', name='weight')
    return L.spectral_norm(weight, dim=0, power_iters=2)


@case
def spectral_norm_dim1(c):
    weight = L.create_parameter([2, 3, 2, 2], 'float32', name='weight')
    return L.spectral_norm(weight, dim=1, power_iters=1)


@case
def spectral_norm_after_many_rounds(c):
    weight = L.create_parameter([4, 3], 'float32', name='weight')
    return L.spectral_norm(weight, dim=0, power_iters=200)


@case
def dropout_in_test(c):
    return L.dropout(c.x([3, 4]), 0.3, is_test=True)


@case
def dropout_in_test_upscaled(c):
    return L.dropout(c.x([3, 4]), 0.3, is_test=True, dropout_implementation='upscale_in_train')


@case
def dropout_nothing(c):
    return L.dropout(c.x([3, 4]), 0.0)


@case
def dropout_everything(c):
    return L.dropout(c.x([3, 4]), 1.0, dropout_implementation='upscale_in_train')


@case
def dropout_at_random(c):
    c.random = True
    return L.dropout(c.x([3, 4]), 0.5, seed=3)


@case
def random_shapes(c):
    c.random = True
    x = c.x([4, 3], grad=False)
    return [L.uniform_random([2, 3], min=-0.5, max=0.5, seed=1), L.gaussian_random([3, 2], seed=1),
            L.uniform_random_batch_size_like(x, [-1, 5]), L.gaussian_random_batch_size_like(x, [-1, 2]),
            L.sampling_id(L.softmax(x))]


@case
def randint_shapes(c):
    c.random = True
    return [L.randint(0, 5, [2, 3]), L.randint(10, shape=[4])]


@case
def row_conv(c):
    return L.row_conv(c.x([6, 3], lod=[[4, 2]]), 2)


@case
def row_conv_activated(c):
    return L.row_conv(c.x([6, 3], lod=[[1, 5]]), 3, act='tanh')


@case
def row_conv_padded_batch(c):
    return L.row_conv(c.x([2, 5, 3]), 2)


@case
def maxout(c):
    return L.maxout(c.x([2, 4, 3, 3]), groups=2)


@case
def img_conv_group(c):
    return fluid.nets.img_conv_group(c.x([2, 1, 8, 8]), conv_num_filter=[2, 2], pool_size=2, conv_act='relu',
                                     conv_with_batchnorm=True, pool_stride=2)


@case
def simple_img_conv_pool(c):
    return fluid.nets.simple_img_conv_pool(c.x([2, 1, 8, 8]), num_filters=2, filter_size=3, pool_size=2,
                                           pool_stride=2, act='relu')


@case
def glu(c):
    return fluid.nets.glu(c.x([3, 6]))


@case
def scaled_dot_product_attention(c):
    return fluid.nets.scaled_dot_product_attention(c.x([2, 3, 4]), c.x([2, 5, 4]), c.x([2, 5, 6]), num_heads=2)


@case
def affine_channel(c):
    return L.affine_channel(c.x([2, 3, 2, 2]), L.create_parameter([3], 'float32'),
                            L.create_parameter([3], 'float32'))


@case
def autoincreased_step_counter(c):
    counter = L.autoincreased_step_counter(begin=3, step=2)
    return L.cast(counter, 'float32')
