"""Making, shaping, cutting and gathering tensors."""
import numpy as np

import paddle.fluid as fluid
from case import L, case


@case
def reshape_known(c):
    return L.reshape(c.x([2, 3, 4]), [6, 4])


@case
def reshape_zero_and_unknown(c):
    return L.reshape(c.x([2, 3, 4]), [0, -1], act='tanh')


@case
def reshape_by_a_variable(c):
    return L.reshape(c.x([2, 3, 4]), L.assign(np.array([4, 6], 'int32')))


@case
def reshape_by_a_list_with_a_variable(c):
    return L.reshape(c.x([2, 3, 4]), [L.fill_constant([1], 'int32', 4), 6])


@case
def transpose(c):
    return L.transpose(c.x([2, 3, 4]), [1, 0, 2])


@case
def transpose_four(c):
    return L.transpose(c.x([2, 3, 4, 5]), [0, 2, 3, 1])


@case
def flatten(c):
    return L.flatten(c.x([2, 3, 4]))


@case
def flatten_axis2(c):
    return L.flatten(c.x([2, 3, 4, 5]), axis=2)


@case
def flatten_axis0(c):
    return L.flatten(c.x([2, 3]), axis=0)


@case
def squeeze(c):
    return L.squeeze(c.x([2, 1, 3, 1]), [1])


@case
def squeeze_all(c):
    return L.squeeze(c.x([2, 1, 3, 1], fixed=True), [])


@case
def unsqueeze(c):
    return L.unsqueeze(c.x([2, 3]), [0, 2])


@case
def expand(c):
    return L.expand(c.x([2, 3]), [2, 3])


@case
def expand_by_variables(c):
    return L.expand(c.x([2, 3]), [L.fill_constant([1], 'int32', 2), 1])


@case
def expand_by_a_tensor(c):
    return L.expand(c.x([2, 3], fixed=True), L.assign(np.array([2, 2], 'int32')))


@case
def concat(c):
    return L.concat([c.x([2, 3]), c.x([2, 4]), c.x([2, 1])], axis=1)


@case
def concat_rows(c):
    return L.concat([c.x([2, 3]), c.x([4, 3])])


@case
def concat_last_axis(c):
    return L.concat([c.x([2, 3, 2]), c.x([2, 3, 4])], axis=-1)


@case
def split_even(c):
    return L.split(c.x([2, 6]), 3)


@case
def split_sections(c):
    return L.split(c.x([2, 6, 2]), [1, 2, 3], dim=1)


@case
def split_with_unknown(c):
    return L.split(c.x([2, 6]), [1, -1, 3], dim=1)


@case
def stack(c):
    return L.stack([c.x([2, 3]), c.x([2, 3])])


@case
def stack_last(c):
    return L.stack([c.x([2, 3]), c.x([2, 3]), c.x([2, 3])], axis=-1)


@case
def unstack(c):
    return L.unstack(c.x([2, 3, 4]), axis=1)


@case
def slice(c):
    return L.slice(c.x([4, 5, 6]), axes=[1, 2], starts=[1, -3], ends=[4, 100])


@case
def slice_by_variables(c):
    return L.slice(c.x([4, 5]), axes=[0, 1], starts=[1, L.fill_constant([1], 'int32', 2)], ends=[3, 5])


@case
def slice_rows(c):
    return L.slice(c.x([4, 5]), axes=[0], starts=[1], ends=[3])


@case
def subscripts(c):
    x = c.x([4, 5, 3], fixed=True)
    return [x[1], x[1:3], x[:, 2], x[-1], x[1:4, 0]]


@case
def strided_slice(c):
    return L.strided_slice(c.x([4, 5, 6], fixed=True), axes=[1, 2], starts=[0, 1], ends=[5, 6], strides=[2, 3])


@case
def strided_slice_backwards(c):
    return L.strided_slice(c.x([4, 6], fixed=True), axes=[1], starts=[-1], ends=[-7], strides=[-2])


@case
def strided_slice_backwards_by_one(c):
    return L.strided_slice(c.x([4, 6], fixed=True), axes=[1], starts=[4], ends=[1], strides=[-1])


@case
def gather(c):
    return L.gather(c.x([5, 3]), c.given(np.array([3, 0, 3], 'int64')))


@case
def gather_distinct(c):
    return L.gather(c.x([5, 3]), c.given(np.array([3, 0, 4], 'int64')))


@case
def gather_int32(c):
    return L.gather(c.x([5, 3]), c.given(np.array([[4], [1]], 'int32')))


@case
def gather_nd(c):
    return L.gather_nd(c.x([3, 4, 2]), c.given(np.array([[0, 1], [2, 3], [0, 1]], 'int64')))


@case
def gather_nd_elements(c):
    return L.gather_nd(c.x([3, 4]), c.given(np.array([[[0, 1]], [[2, 3]]], 'int32')))


@case
def scatter_overwrite(c):
    return L.scatter(c.x([5, 3]), c.given(np.array([3, 0], 'int64')), c.x([2, 3]))


@case
def scatter_add(c):
    return L.scatter(c.x([5, 3]), c.given(np.array([3, 0, 3], 'int64')), c.x([3, 3]), overwrite=False)


@case
def one_hot(c):
    return L.one_hot(c.ids([4, 1], 5), 5)


@case
def one_hot_of_fluid(c):
    return fluid.one_hot(c.ids([4, 2], 5), 5)


@case
def pad(c):
    return L.pad(c.x([2, 3], fixed=True), [1, 0, 2, 1], pad_value=0.5)


@case
def pad_four(c):
    return L.pad(c.x([1, 2, 3, 3], fixed=True), [0, 0, 1, 0, 0, 2, 1, 1])


@case
def crop(c):
    return L.crop(c.x([4, 5], fixed=True), shape=[2, 3], offsets=[1, 1])


@case
def crop_like(c):
    return L.crop(c.x([4, 5], fixed=True), shape=c.x([2, 2], fixed=True, grad=False), offsets=[2, 3])


@case
def reverse(c):
    return L.reverse(c.x([3, 4]), [0, 1])


@case
def reverse_one(c):
    return L.reverse(c.x([3, 4]), 1)


@case
def diag(c):
    return L.diag(c.x([3], fixed=True))


@case
def diag_of_array(c):
    return L.diag(np.array([1.0, 2.0, 3.0], 'float32'))


@case
def sign_of_array(c):
    return L.sign(np.array([1.0, -2.0, 0.0], 'float32'))


@case
def cast(c):
    return [L.cast(c.x([2, 3], -3.0, 3.0), 'int32'), L.cast(c.ids([2, 3], 3), 'bool'),
            L.cast(c.ids([2, 3], 9), 'float32')]


@case
def cast_to_double(c):
    return L.cast(c.x([2, 3]), 'float64')


@case
def assign(c):
    return [L.assign(c.x([2, 3])), L.assign(np.array([[1.5, -2.0]], 'float32')),
            L.assign(np.array([3, 4], 'int32'))]


@case
def shape(c):
    return L.shape(c.x([2, 3, 4]))


@case
def zeros_ones(c):
    x = c.x([2, 3])
    return [L.zeros([2, 3], 'float32'), L.ones([3], 'int64'), L.zeros_like(x), L.ones_like(x)]


@case
def fill_constant(c):
    return [L.fill_constant([2, 3], 'float32', 1.5), L.fill_constant([1], 'int64', 7),
            L.fill_constant([2], 'bool', True), L.fill_constant([2], 'float64', 0.1)]


@case
def fill_constant_by_variables(c):
    return [L.fill_constant([L.fill_constant([1], 'int32', 2), 3], 'float32', 1.5),
            L.fill_constant(L.assign(np.array([3, 2], 'int32')), 'int32', 4)]


@case
def fill_constant_batch_size_like(c):
    x = c.x([4, 3])
    return [L.fill_constant_batch_size_like(x, [-1, 5], 'float32', 2.5),
            L.fill_constant_batch_size_like(x, [2, -1], 'int64', 3, input_dim_idx=0, output_dim_idx=1)]


@case
def range_of_numbers(c):
    return [L.range(0, 10, 2, 'int32'), L.range(1.0, 2.0, 0.3, 'float32'), L.range(5, 0, -1, 'int64')]


@case
def linspace(c):
    return L.linspace(0.0, 1.0, 5, 'float32')


@case
def eye(c):
    return [L.eye(3), L.eye(2, 4, dtype='int32')]


@case
def where_true(c):
    return L.where(c.given(np.array([[True, False], [True, True]])))


@case
def is_empty(c):
    return L.is_empty(c.x([2, 3]))


@case
def unique(c):
    return list(L.unique(c.given(np.array([2, 3, 3, 1, 5, 3], 'int64'), fixed=True)))


@case
def unique_with_counts(c):
    return list(L.unique_with_counts(c.given(np.array([2, 3, 3, 1, 5, 3], 'int64'), fixed=True)))


@case
def multiplex(c):
    return L.multiplex([c.x([3, 2]), c.x([3, 2])], c.given(np.array([[1], [0], [1]], 'int32')))


@case
def create_tensors(c):
    made = L.create_global_var([2], 1.5, 'float32', persistable=True, name='made')
    parameter = L.create_parameter([3, 2], 'float32', name='given')
    return [L.scale(made, 2.0), L.matmul(c.x([2, 3]), parameter)]


@case
def create_bias_parameter(c):
    parameter = L.create_parameter([3], 'float32', is_bias=True)
    other = L.create_parameter([3], 'float32', default_initializer=fluid.initializer.Constant(0.7))
    return [L.elementwise_add(c.x([2, 3]), parameter), L.elementwise_mul(c.x([2, 3]), other)]


@case
def shard_index(c):
    return L.shard_index(c.ids([4, 1], 20), index_num=20, nshards=2, shard_id=0)


@case
def index_sample(c):
    return L.index_sample(c.x([3, 5]), c.ids([3, 2], 5))


@case
def gather_tree(c):
    ids = c.ids([3, 2, 2], 9, fixed=True)
    return L.gather_tree(ids, c.ids([3, 2, 2], 2, fixed=True))


@case
def expand_as(c):
    return L.expand_as(c.x([2, 3], fixed=True), c.x([4, 6], fixed=True, grad=False))


@case
def tensor_array_stacked(c):
    array = L.create_array('float32')
    for i in (0, 1, 2):
        L.array_write(c.x([2, 3]), L.fill_constant([1], 'int64', i), array)
    stacked, sizes = L.tensor_array_to_tensor(array, axis=1, use_stack=True)
    return [stacked, sizes, L.array_length(array)]


@case
def tensor_array_joined(c):
    array = L.create_array('float32')
    for i, width in enumerate((1, 3, 2)):
        L.array_write(c.x([2, width]), L.fill_constant([1], 'int64', i), array)
    joined, sizes = L.tensor_array_to_tensor(array, axis=1)
    return [joined, sizes]


@case
def flip_two(c):
    return L.flip(c.x([2, 3, 4]), [0, 2])


@case
def roll_both_ways(c):
    x = c.x([3, 4], fixed=True)
    return [L.roll(x, [1, -2], [0, 1]), L.roll(x, 5)]


@case
def triangles(c):
    x = c.x([2, 3, 4])
    return [L.tril(x, 1), L.triu(x, -1)]


@case
def diag_embed_below(c):
    return L.diag_embed(c.x([2, 3]), offset=-1, dim1=0, dim2=2)


@case
def trace_above(c):
    return [L.trace(c.x([3, 4], fixed=True), 1), L.trace(c.x([3, 2, 4], fixed=True), -1, 0, 2)]


@case
def space_to_depth(c):
    return L.space_to_depth(c.x([2, 8, 4, 2]), 2)


@case
def index_select(c):
    return L.index_select(c.x([3, 4]), c.given(np.array([3, 0, 3], 'int64')), 1)


@case
def scatter_nd_add(c):
    index = c.given(np.array([[1, 1], [0, 1], [1, 1]], 'int64'))
    return L.scatter_nd_add(c.x([3, 2, 2]), index, c.x([3, 2]))


@case
def scatter_nd(c):
    return L.scatter_nd(c.given(np.array([[1], [3], [1]], 'int64')), c.x([3, 2]), [4, 2])


@case
def meshgrid(c):
    return L.meshgrid([c.x([3], fixed=True), c.x([2], fixed=True)])


@case
def size_and_rank(c):
    x = c.x([3, 2], fixed=True)
    return [L.size(x), L.rank(x)]


@case
def eye_batch(c):
    return L.eye(2, 3, [2, 2])


@case
def full_and_like(c):
    return [L.full([2, 3], 1.5), L.full([2], 3, dtype='int64'), L.full_like(c.x([2, 2]), 2.5)]


@case
def arange(c):
    return [L.arange(1, 4), L.arange(5, 1, -2, 'int64')]


@case
def nonzero(c):
    x = c.given(np.array([[0, 1.5], [2, 0]], 'float32'))
    return [L.nonzero(x)] + list(L.nonzero(x, as_tuple=True))


@case
def t_of_a_matrix(c):
    return L.t(c.x([2, 3]))


@case
def randn(c):
    c.random = True
    return L.randn([3, 4])
