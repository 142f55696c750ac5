"""Shapes, places, search and creation of 2.x."""
import numpy as np
import paddle
from case import case


@case
def p_reshape_and_friends(c):
    x = c.x([2, 3, 4])
    return (paddle.reshape(x, [0, -1]), paddle.flatten(x, 1, 2), paddle.flatten(x), paddle.transpose(x, [2, 0, 1]),
            paddle.unsqueeze(x, [0, 2]), paddle.squeeze(paddle.unsqueeze(x, 1), 1), paddle.moveaxis(x, 0, 2))


@case
def p_pieces(c):
    x = c.x([3, 4, 6])
    return (*paddle.split(x, [1, -1], axis=1), *paddle.chunk(x, 3, axis=2), *paddle.unbind(x, axis=1),
            *paddle.unstack(x, axis=1), paddle.stack([x, x], axis=1), paddle.concat([x, x], axis=-1))


@case
def p_expand(c):
    x = c.x([3, 1, 4])
    return (paddle.expand(x, [-1, 5, 4]), paddle.expand(x, [2, -1, 5, -1]), paddle.broadcast_to(x, [3, 2, 4]))


@case
def p_expand_of_truth(c):
    return paddle.expand(c.ids([3, 1], 2) > 0, [3, 4])


@case
def p_expand_as(c):
    return paddle.expand_as(c.x([1, 4], fixed=True), c.x([3, 4], fixed=True))


@case
def p_broadcast_tensors(c):
    return paddle.broadcast_tensors([c.x([1, 4], fixed=True), c.x([3, 1], fixed=True)])


@case
def p_tile(c):
    x = c.x([2, 3])
    return paddle.tile(x, [2, 2]), paddle.tile(x, [2, 1, 2]), paddle.tile(x, [3])


@case
def p_turned(c):
    x = c.x([2, 3, 4])
    return (paddle.flip(x, [0, 2]), paddle.roll(x, 1, axis=1), paddle.roll(x, [1, 2], axis=[0, 2]), paddle.roll(x, 3),
            paddle.rot90(x, 1, [1, 2]), paddle.rot90(x, 3, [0, 1]), paddle.rot90(x, 2, [1, 2]))


@case
def p_gathers(c):
    x, places = c.x([4, 3, 5], fixed=True), c.given(np.array([2, 0], 'int64'), fixed=True)
    return paddle.gather(x, places)


@case
def p_gather_axis(c):
    x, places = c.x([4, 3, 5], fixed=True), c.given(np.array([2, 0], 'int64'), fixed=True)
    return paddle.gather(x, places, axis=1)


@case
def p_index_select(c):
    x, places = c.x([4, 3, 5], fixed=True), c.given(np.array([2, 0], 'int64'), fixed=True)
    return paddle.index_select(x, places), paddle.index_select(x, places, axis=2)


@case
def p_gather_nd(c):
    return paddle.gather_nd(c.x([4, 3, 5], fixed=True), c.ids([2, 2], 3))


@case
def p_index_sample(c):
    return paddle.index_sample(c.x([3, 6]), c.ids([3, 2], 6))


@case
def p_scatter(c):
    x, updates = c.x([5, 3], fixed=True), c.x([2, 3], fixed=True)
    places = c.given(np.array([3, 1], 'int64'), fixed=True)
    c.gradients = False
    return paddle.scatter(x, places, updates), paddle.scatter(x, places, updates, overwrite=False)


@case
def p_scatter_nd(c):
    places = c.given(np.array([[1], [3], [1]], 'int64'), fixed=True)
    updates = c.x([3, 4], fixed=True)
    return paddle.scatter_nd(places, updates, [5, 4]), paddle.scatter_nd_add(c.x([5, 4], fixed=True), places, updates)


@case
def p_slices(c):
    x = c.x([4, 5, 6], fixed=True)
    return (paddle.slice(x, [0, 2], [1, -3], [3, 6]), paddle.strided_slice(x, [1], [0], [5], [2]),
            paddle.crop(x, [2, -1, 3], [1, 0, 2]), x[1:3, ::2], x[..., -1], x[:, None, 2])


@case
def p_along_axis(c):
    x = c.x([3, 4], fixed=True)
    return paddle.take_along_axis(x, c.given(np.array([[0, 2], [3, 1], [1, 1]], 'int64'), fixed=True), 1)


@case
def p_along_axis0(c):
    x = c.x([3, 4], fixed=True)
    return paddle.take_along_axis(x, c.given(np.array([[0, 2, 1, 1]], 'int64'), fixed=True), 0)


@case
def p_put_along_axis(c):
    places = c.given(np.array([[0], [3], [1]], 'int64'), fixed=True)
    x, y = c.x([3, 4], fixed=True), c.x([3, 1], fixed=True)
    return paddle.put_along_axis(x, places, y, 1), paddle.put_along_axis(x, places, y, 1, reduce='add')


@case
def p_index_add(c):
    places = c.given(np.array([2, 0], 'int64'), fixed=True)
    return paddle.index_add(c.x([4, 3], fixed=True), places, 0, c.x([2, 3], fixed=True))


@case
def p_unique(c):
    x = c.given(np.array([3, 1, 3, 2, 1, 3], 'int64'), fixed=True)
    return paddle.unique(x, return_index=True, return_inverse=True, return_counts=True)


@case
def p_repeat_interleave(c):
    x = c.x([2, 3], fixed=True)
    return paddle.repeat_interleave(x, 2, axis=1), paddle.repeat_interleave(x, 3, axis=0), paddle.repeat_interleave(x, 2)


@case
def p_where(c):
    x, y = c.x([3, 4]), c.x([3, 4])
    return paddle.where(x > y, x, y), paddle.where(x > 0, x, paddle.zeros_like(x))


@case
def p_where_spread(c):
    return paddle.where(c.ids([3, 1], 2) > 0, c.x([1, 4], fixed=True), c.x([3, 4]))


@case
def p_masked(c):
    x = c.x([3, 4], fixed=True)
    return paddle.masked_select(x, x > 0.1)


@case
def p_order(c):
    x = c.x([3, 6])
    return (paddle.sort(x, axis=1), paddle.sort(x, axis=0, descending=True), *paddle.topk(x, 2), *paddle.topk(x, 3, axis=1,
            largest=False), *paddle.kthvalue(x, 2, axis=1))


@case
def p_argsort(c):
    x = c.x([3, 6])
    return paddle.argsort(x), paddle.argsort(x, axis=0, descending=True)


@case
def p_argmax(c):
    x = c.x([3, 4, 5])
    return (paddle.argmax(x), paddle.argmax(x, axis=1), paddle.argmax(x, axis=-1, keepdim=True), paddle.argmin(x, axis=0),
            paddle.argmax(x, axis=1, dtype='int32'), paddle.argmin(x))


@case
def p_nonzero(c):
    x = c.ids([3, 4], 3)
    return paddle.nonzero(x)


@case
def p_searchsorted(c):
    ordered = c.given(np.array([1, 3, 5, 7], 'float32'), fixed=True)
    x = c.given(np.array([[0, 3], [4, 9]], 'float32'), fixed=True)
    return (paddle.searchsorted(ordered, x), paddle.searchsorted(ordered, x, right=True),
            paddle.bucketize(x, ordered), paddle.bucketize(x, ordered, right=True))


@case
def p_made(c):
    x = c.x([3, 4])
    return (paddle.arange(2, 9, 3), paddle.arange(5), paddle.arange(0.5, 2.5, 0.5), paddle.linspace(0, 1, 5),
            paddle.eye(3, 4), paddle.full([2, 3], 7), paddle.full_like(x, 2.5), paddle.zeros([2], 'int64'),
            paddle.ones_like(x), paddle.tril_indices(3, 3), paddle.triu_indices(3, 4, 1), paddle.logspace(0, 2, 3))


@case
def p_triangles(c):
    x = c.x([4, 4], fixed=True)
    return paddle.tril(x), paddle.triu(x, 1), paddle.tril(x, -1)


@case
def p_diagonals(c):
    c.gradients = False  # 2.6.2 gives diag none, we do
    x, v = c.x([3, 4], fixed=True), c.x([3], fixed=True)
    return (paddle.diag(v), paddle.diag(v, 1), paddle.diag(v, -1, 2.0), paddle.diagflat(v), paddle.diag_embed(x))


@case
def p_diagonal(c):
    return paddle.diagonal(c.x([3, 4], fixed=True), 1)


@case
def p_diag_of_a_matrix(c):
    c.gradients = False  # 2.6.2 has one for vectors only
    x = c.x([3, 4], fixed=True)
    return paddle.diag(x), paddle.diag(x, 1), paddle.diag(x, -1)


@case
def p_diagonals_of_batches(c):
    return paddle.diagonal(c.x([2, 3, 4], fixed=True), -1, 1, 2)


@case
def p_meshgrid(c):
    return paddle.meshgrid(c.x([3], fixed=True), c.x([4], fixed=True))


@case
def p_shapes(c):
    x = c.x([3, 4])
    return paddle.shape(x), paddle.numel(x)


@case
def p_casts(c):
    x = c.x([3, 4], -3.0, 3.0)
    return paddle.cast(x, 'int64'), x.astype('int32'), paddle.cast(x > 0, 'float32')


@case
def p_shard_index(c):
    return paddle.shard_index(c.ids([4, 1], 20), 20, 2, 0)


@case
def p_take(c):
    return paddle.take(c.x([3, 4], fixed=True), c.given(np.array([[0, 5], [-1, 11]], 'int64'), fixed=True))


@case
def p_to_tensor(c):
    return c.x([3, 2]) + paddle.to_tensor([1.5, 2.0])


@case
def p_drawn(c):
    c.random = True
    return (paddle.rand([2, 3]), paddle.randn([2, 3]), paddle.uniform([4], min=0.0, max=2.0), paddle.normal(1.0, 2.0, [3]),
            paddle.randint(2, 9, [4]), paddle.randperm(6), paddle.bernoulli(c.x([3, 4], 0.1, 0.9, grad=False)),
            paddle.multinomial(c.x([3, 4], 0.1, 0.9, grad=False), 2))
