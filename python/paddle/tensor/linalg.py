"""Products and norms of 2.4."""
import _trireme as _C

from .._style import check_axis, one, static_style
from ..fluid import layers as _layers

__all__ = ['matmul', 'mm', 'bmm', 'mv', 'dot', 't', 'cross', 'dist', 'norm', 'addmm', 'tensordot', 'einsum', 'multi_dot',
           'matrix_power', 'diagonal', 'cov', 'cdist']


@static_style
def matmul(x, y, transpose_x=False, transpose_y=False, name=None):
    return one('matmul_v2', {'X': x, 'Y': y}, {'trans_x': transpose_x, 'trans_y': transpose_y}, name)


@static_style
def mm(input, mat2, name=None):
    """matmul under another name."""
    return one('matmul_v2', {'X': input, 'Y': mat2}, {}, name, 'mm')


@static_style
def bmm(x, y, name=None):
    """Products of the matrices of two batches."""
    return one('bmm', {'X': x, 'Y': y}, {}, name)


@static_style
def mv(x, vec, name=None):
    """A matrix times a vector."""
    return one('matmul_v2', {'X': x, 'Y': vec}, {}, name, 'mv')


@static_style
def dot(x, y, name=None):
    """The sum of products along the last dimension."""
    return one('dot', {'X': x, 'Y': y}, {}, name)


@static_style
def t(input, name=None):
    """A matrix turned over; vectors stay."""
    return _layers.t(input, name)


@static_style
def cross(x, y, axis=9, name=None):
    """The vector at right angles to two of length 3; axis 9: the first dimension of extent 3."""
    return one('cross', {'X': x, 'Y': y}, {'dim': None if axis == 9 else axis}, name)


@static_style
def dist(x, y, p=2, name=None):
    """The p-norm of x - y."""
    return one('dist', {'X': x, 'Y': y}, {'p': float(p)}, name)


def _p_norm(x, p, axes, keepdim):
    size = one('abs', {'X': x})
    if p == float('inf'):
        return _C.reduce('reduce_max', size, axes, keepdim, None)
    if p == -float('inf'):
        return _C.reduce('reduce_min', size, axes, keepdim, None)
    if p == 0:
        there = _C.cast(_C.compare('not_equal', x, _C.zeros_like(x)), x.dtype)
        there.stop_gradient = True
        return _C.reduce('reduce_sum', there, axes, keepdim, None)
    if p == 1:
        return _C.reduce('reduce_sum', size, axes, keepdim, None)
    if p == 2:
        return one('sqrt', {'X': _C.reduce('reduce_sum', one('square', {'X': x}), axes, keepdim, None)})
    powers = _C.reduce('reduce_sum', one('pow', {'X': size}, {'factor': float(p)}), axes, keepdim, None)
    return one('pow', {'X': powers}, {'factor': 1.0 / p})


@static_style
def norm(x, p='fro', axis=None, keepdim=False, name=None):
    """(sum of |x|^p)^(1/p) along axis; 'fro' is 2."""
    if isinstance(p, str):
        if p != 'fro':
            raise NotImplementedError(f"norm: p {p!r} is not built: give 'fro' or a number")
        p = 2
    axes = None if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if axes is not None and len(axes) == 2 and p in (1, float('inf'), -1, -float('inf')):
        raise NotImplementedError(f"norm: p {p} of matrices is not built: give 'fro', or one axis after the other")
    return _p_norm(x, p, axes, keepdim)


@static_style
def addmm(input, x, y, beta=1.0, alpha=1.0, name=None):
    """beta * input + alpha * (x times y)"""
    return _C.elementwise('elementwise_add', _C.scale(one('matmul_v2', {'X': x, 'Y': y}), float(alpha)),
                          _C.scale(input, float(beta)), -1, None, name)


@static_style
def tensordot(x, y, axes=2, name=None):
    """The sum of products along several dimensions of both."""
    if isinstance(axes, int):
        left, right = list(range(len(x.shape) - axes, len(x.shape))), list(range(axes))
    else:
        left, right = ([a] if isinstance(a, int) else list(a) for a in (axes if len(axes) == 2 else (axes, axes)))
    left, right = [check_axis('tensordot', a, x) for a in left], [check_axis('tensordot', a, y) for a in right]
    letters = 'abcdefghijklmnopqrstuvwxyz'
    of_x = letters[:len(x.shape)]
    of_y = list(letters[len(x.shape):len(x.shape) + len(y.shape)])
    for a, b in zip(left, right):
        of_y[b] = of_x[a]
    kept = [c for i, c in enumerate(of_x) if i not in left] + [c for i, c in enumerate(of_y) if i not in right]
    return einsum(f"{of_x},{''.join(of_y)}->{''.join(kept)}", x, y)


def _extents(operand, names, known):
    for name, extent in zip(names, operand.shape):
        if known.get(name, -1) in (-1, 1):
            known[name] = extent


def _pair(x, of_x, y, of_y, kept, known):
    """One product of two operands: (variable, names), batch names first."""
    batch = [c for c in of_x if c in of_y and c in kept]
    summed = [c for c in of_x if c in of_y and c not in kept]
    rows, columns = [c for c in of_x if c not in of_y], [c for c in of_y if c not in of_x]

    def matrix(var, names, first, second):
        order = batch + first + second
        var = var if order == list(names) else _C.transpose(var, [names.index(c) for c in order])
        return _C.reshape(var, [known[c] for c in batch] + [_size(first, known), _size(second, known)])
    out = one('matmul_v2', {'X': matrix(x, of_x, rows, summed), 'Y': matrix(y, of_y, summed, columns)})
    names = ''.join(batch + rows + columns)
    return _C.reshape(out, [known[c] for c in names] or [1]), names


def _size(names, known):
    sizes = [known[c] for c in names]
    if len(sizes) == 1:
        return sizes[0]
    total = 1
    for size in sizes:
        if size < 0:
            return -1
        total *= size
    return total


def _summed_out(x, names, kept):
    """x without the dimensions that nobody else names."""
    gone = [i for i, c in enumerate(names) if c not in kept]
    if len(set(names)) != len(names):
        raise NotImplementedError(f'einsum: {names} names a dimension twice: take the diagonal first')
    if not gone:
        return x, names
    return _C.reduce('reduce_sum', x, gone, False, None), ''.join(c for c in names if c in kept)


@static_style
def einsum(equation, *operands):
    """Sums of products by names of dimensions: einsum('bij,bjk->bik', x, y)."""
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    left, arrow, right = equation.replace(' ', '').partition('->')
    inputs = left.split(',')
    if '...' in equation:
        spare = [c for c in 'ZYXWVUTSRQPONMLKJIHGFEDCBA' if c not in equation]
        most = max(len(x.shape) - len(names) + 3 for x, names in zip(operands, inputs) if '...' in names)
        dots = ''.join(spare[:most])
        inputs = [names.replace('...', dots[most - (len(x.shape) - len(names) + 3):])
                  for x, names in zip(operands, inputs)]
        right = right.replace('...', dots)
    if not arrow:
        joined = ''.join(inputs)
        right = ''.join(sorted(c for c in set(joined) if joined.count(c) == 1))
    if len(inputs) != len(operands) or any(len(n) != len(x.shape) for n, x in zip(inputs, operands)):
        raise ValueError(f'einsum: {equation!r} does not fit operands of shapes '
                         f'{[list(x.shape) for x in operands]}')
    known = {}
    for x, names in zip(operands, inputs):
        _extents(x, names, known)
    terms = list(zip(operands, inputs))
    x, names = terms.pop(0)
    x, names = _summed_out(x, names, right + ''.join(n for _, n in terms))
    while terms:
        y, of_y = terms.pop(0)
        later = right + ''.join(n for _, n in terms)
        y, of_y = _summed_out(y, of_y, later + names)
        x, names = _summed_out(x, names, later + of_y)
        x, names = _pair(x, names, y, of_y, later, known)
    x, names = _summed_out(x, names, right)
    return x if names == right else _C.transpose(x, [names.index(c) for c in right])


@static_style
def multi_dot(x, name=None):
    """The product of several matrices, in the order that takes the fewest steps."""
    sizes = [m.shape[0] for m in x] + [x[-1].shape[1]] if len(x[-1].shape) == 2 else None
    if sizes is None or len(x[0].shape) != 2 or any(size < 0 for size in sizes):
        out = x[0]
        for other in x[1:]:
            out = one('matmul_v2', {'X': out, 'Y': other})
        return out
    best = {}

    def cost(i, j):
        if i == j:
            return 0, None
        if (i, j) not in best:
            best[i, j] = min((cost(i, k)[0] + cost(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                             for k in range(i, j))
        return best[i, j]

    def product(i, j):
        if i == j:
            return x[i]
        k = cost(i, j)[1]
        return one('matmul_v2', {'X': product(i, k), 'Y': product(k + 1, j)})
    return product(0, len(x) - 1)


@static_style
def matrix_power(x, n, name=None):
    """x times itself, n times; n is 0 or more."""
    if n < 0:
        raise NotImplementedError('matrix_power: inverses are not built in Trireme: give n of 0 or more')
    if n == 0:
        ones = _C.ones_like(x)
        return _layers.tril(_layers.triu(ones))
    out = None
    while n:
        if n & 1:
            out = x if out is None else one('matmul_v2', {'X': out, 'Y': x})
        n >>= 1
        x = one('matmul_v2', {'X': x, 'Y': x}) if n else x
    return out


@static_style
def diagonal(x, offset=0, axis1=0, axis2=1, name=None):
    """A diagonal of matrices, as the last dimension."""
    rank = len(x.shape)
    axis1, axis2 = axis1 % rank, axis2 % rank
    others = [i for i in range(rank) if i not in (axis1, axis2)]
    rows, columns = x.shape[axis1], x.shape[axis2]
    if rows < 0 or columns < 0:
        raise ValueError(f'diagonal: dimensions {axis1} and {axis2} of x {list(x.shape)} must be known')
    first = max(0, offset) + max(0, -offset) * columns
    count = max(0, min(rows - max(0, -offset), columns - max(0, offset)))
    flat = _C.reshape(_C.transpose(x, others + [axis1, axis2]), [x.shape[i] for i in others] + [rows * columns])
    import numpy
    places = _C.assign((first + numpy.arange(count) * (columns + 1)).astype('int64'))
    return one('index_select', {'X': flat, 'Index': places}, {'dim': len(others)}, name, 'diagonal')


@static_style
def cov(x, rowvar=True, ddof=True, fweights=None, aweights=None, name=None):
    """Covariances of variables, one to a row (rowvar) or a column."""
    if fweights is not None or aweights is not None:
        raise NotImplementedError('cov: weights are not built in Trireme: weigh the samples first')
    x = x if rowvar else _layers.t(x)
    count = x.shape[1]
    if count < 0:
        raise ValueError('cov: the number of samples must be known')
    apart = _C.elementwise('elementwise_sub', x, _C.reduce('reduce_mean', x, [1], True, None), -1, None, None)
    return _C.scale(one('matmul_v2', {'X': apart, 'Y': apart}, {'trans_y': True}), 1.0 / (count - bool(ddof)), name=name)


@static_style
def corrcoef(x, rowvar=True, name=None):
    """Correlations of variables, one to a row (rowvar) or a column: covariances by both deviations, within [-1, 1]."""
    together = cov(x, rowvar)
    deviation = _C.apply('sqrt', {'X': _layers.reduce_sum(together * _layers.eye(together.shape[0], dtype=_C.dtype_name(x.dtype)),
                                                          dim=1, keep_dim=True)}, {}, None)['Out'][0]
    both = one('matmul_v2', {'X': deviation, 'Y': deviation}, {'trans_y': True})
    return _C.clip(_C.elementwise('elementwise_div', together, both, -1, None, None), -1.0, 1.0)


@static_style
def cdist(x, y, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary', name=None):
    """The p-norm of each row of x less each row of y."""
    apart = _C.elementwise('elementwise_sub', _C.unsqueeze(x, [-2]), _C.unsqueeze(y, [-3]), -1, None, None)
    return _p_norm(apart, p, [-1], False)
