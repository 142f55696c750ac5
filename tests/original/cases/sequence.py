"""Layers of sequences (LoD)."""
import numpy as np

import paddle.fluid as fluid
from case import L, case

LENGTHS = [[3, 1, 2]]


def _pool(kind, **arguments):
    def build(c):
        return L.sequence_pool(c.x([6, 3], lod=LENGTHS), kind, **arguments)
    build.__module__ = __name__
    case(build, 'sequence_pool_%s' % kind + ('_test' if arguments else ''))


for _kind in ('sum', 'average', 'sqrt', 'max', 'last', 'first'):
    _pool(_kind)
_pool('max', is_test=True)


@case
def sequence_pool_with_an_empty_sequence(c):
    return L.sequence_pool(c.x([5, 3], lod=[[3, 0, 2]]), 'sum', pad_value=0.5)


@case
def sequence_pool_max_with_an_empty_sequence(c):
    return L.sequence_pool(c.x([5, 3], lod=[[3, 0, 2]]), 'max', pad_value=0.5)


@case
def sequence_pool_of_two_levels(c):
    return L.sequence_pool(c.x([6, 3], lod=[[2, 1], [3, 1, 2]]), 'average')


@case
def sequence_first_and_last(c):
    x = c.x([6, 3], lod=LENGTHS)
    return [L.sequence_first_step(x), L.sequence_last_step(x)]


@case
def sequence_softmax(c):
    return L.sequence_softmax(c.x([6, 1], lod=LENGTHS))


@case
def sequence_conv(c):
    return L.sequence_conv(c.x([6, 3], lod=LENGTHS), num_filters=4)


@case
def sequence_conv_wide(c):
    return L.sequence_conv(c.x([6, 3], lod=LENGTHS), num_filters=2, filter_size=4, act='tanh', bias_attr=False)


@case
def sequence_conv_ahead(c):
    return L.sequence_conv(c.x([6, 3], lod=LENGTHS), num_filters=2, filter_size=3, padding_start=0)


@case
def sequence_conv_pool(c):
    return fluid.nets.sequence_conv_pool(c.x([6, 3], lod=LENGTHS), num_filters=2, filter_size=3)


@case
def sequence_expand(c):
    return L.sequence_expand(c.x([2, 3]), c.x([5, 1], lod=[[2, 3]], grad=False))


@case
def sequence_expand_sequences(c):
    return L.sequence_expand(c.x([4, 1], lod=[[2, 2]]), c.x([6, 1], lod=[[2, 2], [1, 1, 2, 2]], grad=False),
                             ref_level=0)


@case
def sequence_expand_as(c):
    return L.sequence_expand_as(c.x([3, 2]), c.x([6, 1], lod=LENGTHS, grad=False))


@case
def sequence_concat(c):
    return L.sequence_concat([c.x([6, 2], lod=LENGTHS), c.x([5, 2], lod=[[1, 2, 2]])])


@case
def sequence_reshape(c):
    return L.sequence_reshape(c.x([6, 2], lod=[[2, 4]]), new_dim=4)


@case
def sequence_reverse(c):
    return L.sequence_reverse(c.x([6, 2], lod=LENGTHS))


@case
def sequence_slice(c):
    return L.sequence_slice(c.x([6, 2], lod=LENGTHS), c.given(np.array([[1], [0], [0]], 'int64')),
                            c.given(np.array([[2], [1], [1]], 'int64')))


@case
def sequence_pad(c):
    return list(L.sequence_pad(c.x([6, 2], lod=LENGTHS), L.assign(np.array([0.25], 'float32'))))


@case
def sequence_pad_longer(c):
    return list(L.sequence_pad(c.x([6, 2], lod=LENGTHS), L.assign(np.array([0.0], 'float32')), maxlen=5))


@case
def sequence_unpad(c):
    return L.sequence_unpad(c.x([3, 4, 2]), c.given(np.array([3, 1, 4], 'int64')))


@case
def sequence_mask(c):
    x = c.given(np.array([3, 1, 2], 'int64'))
    return [L.sequence_mask(x), L.sequence_mask(x, maxlen=5, dtype='float32'),
            L.sequence_mask(x, maxlen=L.fill_constant([1], 'int32', 4), dtype='int32')]


@case
def sequence_enumerate(c):
    return L.sequence_enumerate(c.ids([6, 1], 9, low=1, lod=LENGTHS), win_size=2, pad_value=0)


@case
def sequence_scatter(c):
    return L.sequence_scatter(c.x([3, 5]), c.given(np.array([[0], [2], [4], [1], [0], [3]], 'int64'), lod=LENGTHS),
                              c.x([6, 1], lod=LENGTHS))


@case
def lod_reset_by_lengths(c):
    return L.sequence_pool(L.lod_reset(c.x([6, 2], lod=LENGTHS), target_lod=[0, 2, 6]), 'sum')


@case
def lod_reset_by_a_sequence(c):
    return L.lod_reset(c.x([6, 2]), y=c.x([6, 1], lod=[[1, 5]], grad=False))


@case
def lod_append(c):
    return L.lod_append(c.x([6, 2], lod=LENGTHS), [0, 1, 2, 3, 4, 5, 6])


@case
def reorder_by_rank(c):
    x = c.x([6, 2], lod=LENGTHS)
    table = fluid.layers.control_flow.lod_rank_table(x)
    return L.reorder_lod_tensor_by_rank(c.x([3, 2]), table)


@case
def lod_through_a_net(c):
    x = c.ids([6, 1], 9, lod=LENGTHS)
    words = L.embedding(x, [9, 4])
    return L.sequence_softmax(L.fc(L.fc(words, 5, act='tanh'), 1))
