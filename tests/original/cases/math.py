"""Arithmetic of tensors: element by element, reductions, comparisons, products."""
import numpy as np

import paddle.fluid as fluid
from case import L, case


def _add(name, build):
    build.__module__ = __name__
    case(build, name)


def _elementwise(op, low=-2.0, high=2.0):
    def same(c):
        return getattr(L, op)(c.x([3, 4], low, high), c.x([3, 4], low, high))

    def trailing(c):
        return getattr(L, op)(c.x([2, 3, 4], low, high), c.x([4], low, high, fixed=True))

    def middle(c):
        return getattr(L, op)(c.x([2, 3, 4, 5], low, high), c.x([3, 4], low, high, fixed=True), axis=1)

    def activated(c):
        return getattr(L, op)(c.x([3, 4], low, high), c.x([3, 1], low, high), act='tanh')

    for kind, build in (('same', same), ('trailing', trailing), ('middle', middle), ('activated', activated)):
        _add('%s_%s' % (op, kind), build)


for _op in ('elementwise_add', 'elementwise_sub', 'elementwise_mul', 'elementwise_max', 'elementwise_min'):
    _elementwise(_op)
_elementwise('elementwise_div', 0.5, 2.0)
_elementwise('elementwise_pow', 0.5, 2.0)


def _integers(op, low):
    def build(c):
        x = np.arange(-9, 9).reshape(3, 6) if low < 0 else np.arange(1, 19).reshape(3, 6)
        return getattr(L, op)(c.given(x.astype('int64')), c.given(np.array([[2, 3, 4, 5, 3, 7]] * 3, 'int64')))
    _add('%s_%s' % (op, 'negative' if low < 0 else 'positive'), build)


for _op in ('elementwise_mod', 'elementwise_floordiv'):
    _integers(_op, -1)
    _integers(_op, 1)


@case
def elementwise_add_of_int32(c):
    return L.elementwise_add(c.ids([3, 4], 100, dtype='int32'), c.ids([3, 4], 100, dtype='int32'))


@case
def operators_of_variables(c):
    x, y = c.x([3, 4], 0.5, 2.0), c.x([3, 4], 0.5, 2.0)
    return [x + y, x - y, x * y, x / y, x ** y, -x, x + 2.0, 2.0 - x, 3.0 / y, x * 0.5]


@case
def comparisons_of_variables(c):
    x, y = c.x([3, 4]), c.x([3, 4])
    return [x < y, x <= y, x > y, x >= y]


def _reduce(op, low=-2.0, high=2.0):
    def all_of_it(c):
        return getattr(L, op)(c.x([3, 4, 2], low, high))

    def one(c):
        return getattr(L, op)(c.x([3, 4, 2], low, high), dim=1)

    def two_kept(c):
        return getattr(L, op)(c.x([3, 4, 2], low, high), dim=[0, -1], keep_dim=True)

    for kind, build in (('all', all_of_it), ('one', one), ('two_kept', two_kept)):
        _add('%s_%s' % (op, kind), build)


for _op in ('reduce_sum', 'reduce_mean', 'reduce_max', 'reduce_min'):
    _reduce(_op)
_reduce('reduce_prod', 0.5, 1.5)


def _logic(op, dim, keep):
    def build(c):
        x = c.given(np.array([[True, False, True], [True, True, True]]))
        return getattr(L, op)(x, dim=dim, keep_dim=keep)
    _add('%s_%s' % (op, 'all' if dim is None else dim), build)


for _op in ('reduce_all', 'reduce_any'):
    _logic(_op, None, False)
    _logic(_op, 1, True)
    _logic(_op, 0, False)


def _compare(op):
    def build(c):
        return getattr(L, op)(c.ids([4, 5], 3), c.ids([4, 5], 3))
    _add(op, build)

    def floats(c):
        x = c.x([3, 4])
        return getattr(L, op)(x, L.fill_constant([1], 'float32', 0.1))
    _add(op + '_a_number', floats)


for _op in ('equal', 'not_equal', 'less_than', 'less_equal', 'greater_than', 'greater_equal'):
    _compare(_op)


def _logical(op):
    def build(c):
        x = c.given(np.array([True, False, True, False]))
        y = c.given(np.array([True, True, False, False]))
        return getattr(L, op)(x) if op == 'logical_not' else getattr(L, op)(x, y)
    _add(op, build)


for _op in ('logical_and', 'logical_or', 'logical_xor', 'logical_not'):
    _logical(_op)


@case
def mean(c):
    return L.mean(c.x([3, 4]))


@case
def mul(c):
    return L.mul(c.x([3, 4]), c.x([4, 5], fixed=True))


@case
def mul_columns(c):
    return L.mul(c.x([2, 3, 4]), c.x([2, 2, 5], fixed=True), x_num_col_dims=2, y_num_col_dims=2)


@case
def matmul(c):
    return L.matmul(c.x([3, 4]), c.x([4, 5], fixed=True))


@case
def matmul_transposed(c):
    return L.matmul(c.x([2, 4, 3]), c.x([2, 5, 4]), transpose_x=True, transpose_y=True, alpha=0.5)


@case
def matmul_broadcast(c):
    return L.matmul(c.x([2, 3, 4]), c.x([4, 5], fixed=True))


@case
def matmul_vectors(c):
    return L.matmul(c.x([4], fixed=True), c.x([4], fixed=True))


@case
def matmul_of_a_vector(c):
    return L.matmul(c.x([2, 3, 4], fixed=True), c.x([4], fixed=True))


@case
def matmul_four_dims(c):
    return L.matmul(c.x([2, 3, 4, 5]), c.x([2, 3, 4, 5]), transpose_y=True, alpha=0.25)


@case
def cos_sim(c):
    return L.cos_sim(c.x([3, 5]), c.x([3, 5]))


@case
def cos_sim_one_row(c):
    return L.cos_sim(c.x([3, 5]), c.x([1, 5], fixed=True))


@case
def l2_normalize(c):
    return L.l2_normalize(c.x([3, 5]), axis=1)


@case
def l2_normalize_axis0(c):
    return L.l2_normalize(c.x([3, 5, 2]), axis=0, epsilon=1e-6)


@case
def sum_of_three(c):
    return L.sum([c.x([3, 4]), c.x([3, 4]), c.x([3, 4])])


@case
def sums_of_three(c):
    return L.sums([c.x([3, 4]), c.x([3, 4]), c.x([3, 4])])


@case
def cumsum(c):
    return L.cumsum(c.x([3, 4]))


@case
def cumsum_reverse(c):
    return L.cumsum(c.x([3, 4]), axis=0, exclusive=True, reverse=True)


@case
def cumsum_exclusive(c):
    return L.cumsum(c.x([3, 4]), axis=1, exclusive=True)


@case
def increment(c):
    return L.increment(c.given(np.array([3.0], 'float32'), fixed=True), value=2.0)


@case
def isfinite_has_inf_has_nan(c):
    x = c.given(np.array([1.0, np.inf, 3.0], 'float32'))
    y = c.given(np.array([1.0, np.nan, 3.0], 'float32'))
    return [L.isfinite(x), L.has_inf(x), L.has_nan(x), L.isfinite(y), L.has_inf(y), L.has_nan(y)]


@case
def argmax_argmin(c):
    x = c.x([3, 4, 2])
    return [L.argmax(x), L.argmax(x, axis=1), L.argmin(x, axis=-1), L.argmin(x)]


@case
def argsort(c):
    return list(L.argsort(c.x([3, 5])))


@case
def argsort_axis0_descending(c):
    return list(L.argsort(c.x([3, 5]), axis=0, descending=True))


@case
def topk(c):
    return list(L.topk(c.x([3, 6]), k=3))


@case
def topk_of_a_variable(c):
    return list(L.topk(c.x([3, 6]), k=L.fill_constant([1], 'int32', 2)))


@case
def bilinear_tensor_product(c):
    return L.bilinear_tensor_product(c.x([3, 4]), c.x([3, 5]), size=6)


@case
def bilinear_tensor_product_activated(c):
    return L.bilinear_tensor_product(c.x([3, 4]), c.x([3, 5]), size=2, act='tanh', bias_attr=False)


@case
def float64(c):
    return L.tanh(L.matmul(c.x([3, 4], dtype='float64'), c.x([4, 5], fixed=True, dtype='float64')))


@case
def error_clip(c):
    x = c.x([3, 4])
    hidden = L.scale(x, 3.0)
    fluid.default_main_program().current_block().var(hidden.name)._set_error_clip(
        fluid.clip.ErrorClipByValue(max=0.2, min=-0.1))
    return L.scale(hidden, 2.0)


@case
def bmm(c):
    return L.bmm(c.x([2, 3, 4]), c.x([2, 4, 2]))


@case
def dot(c):
    return L.dot(c.x([3, 4]), c.x([3, 4]))


@case
def kron(c):
    return L.kron(c.x([2, 3], fixed=True), c.x([3, 2], fixed=True))


@case
def cross(c):
    return [L.cross(c.x([2, 3, 2], fixed=True), c.x([2, 3, 2], fixed=True)),
            L.cross(c.x([3, 3], fixed=True), c.x([3, 3], fixed=True), 1)]


@case
def dist(c):
    x, y = c.x([2, 3]), c.x([2, 3], 1.5, 2.5)
    return [L.dist(x, y), L.dist(x, y, 1), L.dist(x, y, 3), L.dist(x, y, float('inf')), L.dist(x, y, 0)]


@case
def allclose(c):
    x = c.given(np.array([1, 2, np.nan], 'float32'))
    return [L.allclose(x, x), L.allclose(x, x, equal_nan=True)]


@case
def addcmul(c):
    return L.addcmul(c.x([2, 3]), c.x([2, 3]), c.x([2, 3]), 0.5)


@case
def clamp(c):
    x = c.x([3, 4])
    return [L.clamp(x, -0.3, 0.4), L.clamp(x, min=0.1)]


@case
def elementwise_equal(c):
    return L.elementwise_equal(c.ids([6], 2), c.ids([6], 2))


@case
def logsumexp(c):
    return L.logsumexp(c.x([3, 4]), dim=1)


@case
def logsumexp_of_all(c):
    return L.logsumexp(c.x([3, 4]), keepdim=True)


@case
def log_softmax(c):
    return [L.log_softmax(c.x([3, 4])), L.log_softmax(c.x([3, 4]), axis=0)]


@case
def fsp_matrix(c):
    return L.fsp_matrix(c.x([2, 3, 2, 2]), c.x([2, 2, 2, 2]))
