"""Sums, products, norms, statistics, comparisons of 2.x."""
import numpy as np
import paddle
from case import case


def _plain(name, function, shape=(2, 3, 4)):
    def build(c):
        return function(c.x(list(shape), -1.5, 2.0))
    case(build, name)


_plain('p_sum_axes', lambda x: paddle.sum(x, axis=[0, 2], keepdim=True))
_plain('p_sum', lambda x: paddle.sum(x))
_plain('p_mean', lambda x: paddle.mean(x, axis=1))
_plain('p_max_min', lambda x: (paddle.max(x, axis=-1), paddle.min(x, axis=0, keepdim=True)))
_plain('p_amax_amin', lambda x: (paddle.amax(x, axis=-1), paddle.amin(x)))
_plain('p_prod', lambda x: paddle.prod(x, axis=1))
_plain('p_logsumexp', lambda x: (paddle.logsumexp(x), paddle.logsumexp(x, axis=1, keepdim=True)))
_plain('p_std_var', lambda x: (paddle.std(x), paddle.var(x, axis=1), paddle.std(x, axis=[0, 2], keepdim=True),
                               paddle.var(x, axis=2, unbiased=False)))
_plain('p_cumsum', lambda x: (paddle.cumsum(x), paddle.cumsum(x, axis=1)))
_plain('p_norm', lambda x: (paddle.norm(x), paddle.norm(x, p=2, axis=1), paddle.norm(x, p=1, axis=-1, keepdim=True),
                            paddle.norm(x, p=3, axis=0), paddle.norm(x, p=float('inf'), axis=2)))
_plain('p_norm_fro', lambda x: paddle.norm(x, p='fro', axis=[1, 2]))
_plain('p_diff', lambda x: (paddle.diff(x), paddle.diff(x, n=2, axis=2)))
_plain('p_count_nonzero', lambda x: paddle.count_nonzero(x, axis=1))
_plain('p_trace', lambda x: paddle.trace(x, 1, 1, 2))
_plain('p_kron', lambda x: paddle.kron(x, x))
_plain('p_renorm', lambda x: paddle.renorm(x, 2.0, 1, 1.5))
_plain('p_scale', lambda x: paddle.scale(x, 2.0, 1.5, bias_after_scale=False))
_plain('p_pow', lambda x: paddle.pow(paddle.abs(x), 1.7))
_plain('p_multi_dot', lambda x: paddle.linalg.multi_dot([x, paddle.transpose(x, [1, 0]), x]), (3, 4))
_plain('p_median_odd', lambda x: paddle.median(paddle.reshape(x, [3, 5]), axis=1), (3, 5))
_plain('p_median_even', lambda x: paddle.median(paddle.reshape(x, [2, 6]), axis=1, keepdim=True), (2, 6))
_plain('p_quantile', lambda x: paddle.quantile(paddle.reshape(x, [2, 7]), 0.3, axis=1), (2, 7))


@case
def p_matrix_power(c):
    return paddle.linalg.matrix_power(c.x([3, 3], fixed=True), 3)


@case
def p_trapezoid(c):
    c.gradients = False  # 2.6.2 gives every sample the gradient of the first
    x = c.x([2, 3, 4])
    return paddle.trapezoid(x, dx=0.5, axis=1), paddle.trapezoid(x, c.x([4], fixed=True))


@case
def p_all_any(c):
    x = c.ids([3, 4], 2) > 0
    return paddle.all(x, axis=1), paddle.any(x, axis=0, keepdim=True), paddle.all(x)


@case
def p_sum_of_truth(c):
    return paddle.sum(c.ids([3, 4], 3) > 1, axis=1), paddle.sum(c.ids([3, 4], 5, dtype='int32'))


@case
def p_arithmetic_of_numbers(c):
    x, y = c.x([3, 4]), c.x([4], 0.5, 2.0, fixed=True)
    return x + y, y - x, 2 * x, 1 - x, x / y, 3.0 / y, x ** 2, -x, y ** x


@case
def p_whole_quotients(c):
    x, y = c.ids([3, 5], 9, -9), c.ids([3, 5], 5, 1)
    return x // y, x % y, paddle.floor_divide(x, y), paddle.mod(x, y), paddle.remainder(x, y)


@case
def p_broadcast(c):
    x, y = c.x([3, 1, 4]), c.x([2, 1], fixed=True)
    return paddle.add(x, y), paddle.multiply(y, x), paddle.maximum(x, y), paddle.minimum(y, x), paddle.subtract(y, x)


@case
def p_matmuls(c):
    x, y = c.x([2, 3, 4]), c.x([2, 4, 5])
    return paddle.matmul(x, y), paddle.bmm(x, y), paddle.matmul(x, x, transpose_y=True), x.matmul(y)


@case
def p_matmul_of_vectors(c):
    x, y, v = c.x([3, 4]), c.x([4, 2], fixed=True), c.x([4], fixed=True)
    return (paddle.mm(x, y), paddle.mv(x, v), paddle.matmul(x, v), paddle.inner(x, v), paddle.outer(v, v),
            paddle.dot(v, v), paddle.t(y))


@case
def p_addmm(c):
    return paddle.addmm(c.x([3, 5]), c.x([3, 4]), c.x([4, 5], fixed=True), beta=0.5, alpha=1.5)


@case
def p_cross_and_dist(c):
    x, y = c.x([4, 3]), c.x([4, 3])
    return paddle.cross(x, y, axis=1), paddle.dist(x, y, 2)


@case
def p_einsum(c):
    x, y = c.x([2, 3, 4], fixed=True), c.x([2, 4, 5], fixed=True)
    return paddle.einsum('bij,bjk->bik', x, y), paddle.einsum('bij->ji', x)


@case
def p_einsum_of_heads(c):
    q, k = c.x([2, 3, 4, 5], fixed=True), c.x([2, 6, 4, 5], fixed=True)
    return paddle.einsum('blhd,bmhd->bhlm', q, k)


@case
def p_tensordot(c):
    x, y = c.x([2, 3, 4], fixed=True), c.x([3, 4, 5], fixed=True)
    return paddle.tensordot(x, y, axes=2)


@case
def p_multiplex(c):
    return paddle.multiplex([c.x([3, 4]), c.x([3, 4])], c.given(np.array([[1], [0], [1]], 'int32')))


@case
def p_add_n(c):
    return paddle.add_n([c.x([3, 4]), c.x([3, 4]), c.x([3, 4])])


@case
def p_comparisons(c):
    x, y = c.ids([3, 5], 4), c.ids([3, 5], 4)
    return (paddle.equal(x, y), paddle.not_equal(x, y), paddle.less_than(x, y), paddle.greater_equal(x, y), x > y, x <= y,
            paddle.equal_all(x, y))


@case
def p_truth(c):
    x, y = c.ids([3, 5], 2) > 0, c.ids([3, 5], 2) > 0
    return (paddle.logical_and(x, y), paddle.logical_or(x, y), paddle.logical_xor(x, y), paddle.logical_not(x),
            paddle.bitwise_and(x, y), paddle.bitwise_xor(x, y))


@case
def p_allclose(c):
    x = c.x([3, 4])
    return paddle.allclose(x, x + 1e-9), paddle.allclose(x, x + 0.1)


@case
def p_increment(c):
    return paddle.increment(c.given(np.array([3], 'int64'), fixed=True), 2)


@case
def methods_of_variables(c):
    x = c.x([3, 4], 0.2, 2.0)
    return (x.mean(), x.sum(axis=1), x.reshape([-1, 2, 2]), x.transpose([1, 0]), x.astype('int64'), x.max(axis=0),
            x.exp(), x.log(), x.unsqueeze(1), x.flatten(), x.argmax(axis=1), x.clip(0.5, 1.5), x.sqrt().square(),
            x.tile([1, 2]), x.cumsum(axis=1), x.norm(), x.std(), x.topk(2)[0], x[:, 1:3], x[0], x.add(x), x.pow(2))
