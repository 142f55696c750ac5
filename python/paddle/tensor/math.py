"""Arithmetic of 2.4, element by element and along dimensions."""
import math as _math

import _trireme as _C

from .._style import check_axis, one, static_style, unary

__all__ = ['abs', 'exp', 'log', 'sqrt', 'rsqrt', 'square', 'tanh', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh',
           'cosh', 'asinh', 'acosh', 'atanh', 'floor', 'ceil', 'round', 'trunc', 'frac', 'reciprocal', 'sign', 'sgn',
           'erf', 'expm1', 'log1p', 'log2', 'log10', 'logit', 'neg', 'deg2rad', 'rad2deg', 'stanh', 'add', 'subtract',
           'multiply', 'divide', 'maximum', 'minimum', 'fmax', 'fmin', 'pow', 'floor_divide', 'mod', 'remainder',
           'floor_mod', 'hypot', 'logaddexp', 'heaviside', 'lerp', 'ldexp', 'atan2', 'scale', 'clip', 'increment', 'add_n',
           'nan_to_num', 'mean', 'sum', 'max', 'min', 'amax', 'amin', 'prod', 'all', 'any', 'nansum', 'nanmean',
           'count_nonzero', 'logsumexp', 'cumsum', 'diff', 'multiplex', 'isfinite', 'isnan', 'isinf', 'kron', 'trace',
           'sigmoid', 'broadcast_shape', 'inner', 'outer', 'renorm', 'trapezoid', 'gcd', 'lcm']

abs = unary('abs')
exp = unary('exp')
log = unary('log')
sqrt = unary('sqrt')
rsqrt = unary('rsqrt')
square = unary('square')
tanh = unary('tanh')
sigmoid = unary('sigmoid')
sin = unary('sin')
cos = unary('cos')
asin = unary('asin')
acos = unary('acos')
atan = unary('atan')
floor = unary('floor')
ceil = unary('ceil')
round = unary('round')
reciprocal = unary('reciprocal')
sign = unary('sign')
sgn = unary('sign', 'sgn')
erf = unary('erf')
log1p = unary('log1p')


def _elementwise(op, name):
    @static_style
    def function(x, y, name=None):
        return binary(op, x, y, name)
    function.__name__ = name
    function.__doc__ = f'{name}, element by element; dimensions of extent 1 are repeated.'
    return function


def as_variable(value, like):
    """A variable as it is; a number as a variable of one element and the other operand's type."""
    return value if isinstance(value, _C.Variable) else _C.fill_constant([1], like.dtype, value)


def binary(op, x, y, name=None):
    """x and y by an op, either of them a number."""
    if not isinstance(x, _C.Variable):
        x = as_variable(x, y)
    return _C.elementwise(op, x, as_variable(y, x), -1, None, name)


add = _elementwise('elementwise_add', 'add')
subtract = _elementwise('elementwise_sub', 'subtract')
multiply = _elementwise('elementwise_mul', 'multiply')
divide = _elementwise('elementwise_div', 'divide')
maximum = _elementwise('elementwise_max', 'maximum')
minimum = _elementwise('elementwise_min', 'minimum')


def _rounding_down(op, name):
    @static_style
    def function(x, y, name=None):
        return one(op, {'X': x, 'Y': as_variable(y, x)}, {'axis': -1, 'rounds_down': True}, name)
    function.__name__ = name
    function.__doc__ = f'{name}: quotients are rounded down.'
    return function


floor_divide = _rounding_down('elementwise_floordiv', 'floor_divide')
mod = _rounding_down('elementwise_mod', 'mod')
remainder = _rounding_down('elementwise_mod', 'remainder')
floor_mod = _rounding_down('elementwise_mod', 'floor_mod')


@static_style
def tan(x, name=None):
    return divide(sin(x), cos(x), name)


@static_style
def sinh(x, name=None):
    """(e^x - e^-x) / 2, without the loss of small numbers."""
    grown = expm1(x)
    return _C.scale(add(grown, divide(grown, _C.scale(grown, 1.0, 1.0))), 0.5, name=name)


@static_style
def cosh(x, name=None):
    return _C.scale(add(exp(x), exp(_C.scale(x, -1.0))), 0.5, name=name)


@static_style
def asinh(x, name=None):
    """sign(x) * log(|x| + sqrt(x^2 + 1)), by log1p so that small numbers stay."""
    size = abs(x)
    squared = square(x)
    more = divide(squared, _C.scale(sqrt(_C.scale(squared, 1.0, 1.0)), 1.0, 1.0))
    return multiply(sign(x), log1p(add(size, more)), name)


@static_style
def acosh(x, name=None):
    less = _C.scale(x, 1.0, -1.0)
    return log1p(add(less, sqrt(multiply(less, _C.scale(x, 1.0, 1.0)))), name)


@static_style
def atanh(x, name=None):
    return _C.scale(subtract(log1p(x), log1p(_C.scale(x, -1.0))), 0.5, name=name)


@static_style
def atan2(x, y, name=None):
    """The angle of the point (y, x)."""
    from .search import where
    angle = atan(divide(x, y))
    turned = add(angle, where(_at_least_zero(x), full(_math.pi, x), full(-_math.pi, x)))
    return where(_C.compare('less_than', y, full(0.0, y)), turned, angle)


def full(value, x):
    from .creation import full_like
    return full_like(x, value)


def _at_least_zero(x):
    return _C.compare('greater_equal', x, full(0.0, x))


@static_style
def expm1(x, name=None):
    """e^x - 1; near 0 by tanh, which keeps small numbers."""
    from .search import where
    half = tanh(_C.scale(_C.clip(x, -1.0, 1.0), 0.5))
    near = divide(_C.scale(half, 2.0), _C.scale(half, -1.0, 1.0))
    return where(_C.compare('less_than', abs(x), full(1.0, x)), near, _C.scale(exp(x), 1.0, -1.0))


@static_style
def trunc(input, name=None):
    """Towards 0, to whole numbers."""
    return multiply(sign(input), floor(abs(input)), name)


@static_style
def frac(x, name=None):
    return subtract(x, trunc(x), name)


@static_style
def log2(x, name=None):
    return _C.scale(log(x), 1 / _math.log(2), name=name)


@static_style
def log10(x, name=None):
    return _C.scale(log(x), 1 / _math.log(10), name=name)


@static_style
def logit(x, eps=None, name=None):
    """log(x / (1 - x)); eps: x is cut to [eps, 1 - eps] first."""
    x = x if eps is None else _C.clip(x, eps, 1 - eps)
    return log(divide(x, _C.scale(x, -1.0, 1.0)), name)


@static_style
def neg(x, name=None):
    return _C.scale(x, -1.0, name=name)


@static_style
def deg2rad(x, name=None):
    return _C.scale(_floating(x), _math.pi / 180, name=name)


@static_style
def rad2deg(x, name=None):
    return _C.scale(_floating(x), 180 / _math.pi, name=name)


def _floating(x):
    return x if _C.dtype_name(x.dtype).startswith(('float', 'bfloat')) else _C.cast(x, 'float32')


@static_style
def stanh(x, scale_a=0.67, scale_b=1.7159, name=None):
    return one('stanh', {'X': x}, {'scale_a': scale_a, 'scale_b': scale_b}, name)


def _without_nan(op):
    @static_style
    def function(x, y, name=None):
        from .search import where
        x_there = where(isnan(x), y, x)
        return _C.elementwise(op, x_there, where(isnan(y), x, y), -1, None, name)
    return function


fmax = _without_nan('elementwise_max')
fmax.__doc__ = 'The larger of two; a number rather than NaN.'
fmin = _without_nan('elementwise_min')
fmin.__doc__ = 'The smaller of two; a number rather than NaN.'


@static_style
def pow(x, y, name=None):
    if isinstance(y, _C.Variable):
        return _C.elementwise('elementwise_pow', x, y, -1, None, name)
    return one('pow', {'X': x}, {'factor': float(y)}, name)


@static_style
def hypot(x, y, name=None):
    return sqrt(add(square(x), square(y)), name)


@static_style
def logaddexp(x, y, name=None):
    """log(e^x + e^y)"""
    return add(maximum(x, y), log1p(exp(neg(abs(subtract(x, y))))), name)


@static_style
def heaviside(x, y, name=None):
    """0 below 0, y at 0, 1 above."""
    above = _C.cast(_C.compare('greater_than', x, full(0.0, x)), x.dtype)
    at = _C.cast(_C.compare('equal', x, full(0.0, x)), x.dtype)
    above.stop_gradient = at.stop_gradient = True
    return add(above, multiply(at, y), name)


@static_style
def lerp(x, y, weight, name=None):
    """x + weight * (y - x)"""
    apart = subtract(y, x)
    return add(x, _C.scale(apart, float(weight)) if not isinstance(weight, _C.Variable) else multiply(apart, weight), name)


@static_style
def ldexp(x, y, name=None):
    """x * 2^y"""
    return multiply(_floating(x), exp(_C.scale(_floating(y), _math.log(2))), name)


@static_style
def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    return _C.scale(x, scale, bias, bias_after_scale, act, name)


@static_style
def clip(x, min=None, max=None, name=None):
    from ..fluid import layers
    if min is None and max is None:
        return _C.scale(x)
    return layers.clamp(x, min, max, name=name)


@static_style
def increment(x, value=1.0, name=None):
    return _C.increment(x, value)


@static_style
def add_n(inputs, name=None):
    return _C.sums(inputs if isinstance(inputs, (list, tuple)) else [inputs])


@static_style
def multiplex(inputs, index, name=None):
    """Row i of the operand that index[i] names."""
    return one('multiplex', {'X': inputs, 'Ids': index}, {}, name)


@static_style
def isnan(x, name=None):
    return _C.compare('not_equal', x, x)


@static_style
def isinf(x, name=None):
    return _C.compare('equal', abs(x), full(float('inf'), x))


@static_style
def isfinite(x, name=None):
    return _C.compare('less_than', abs(x), full(float('inf'), x))


@static_style
def nan_to_num(x, nan=0.0, posinf=None, neginf=None, name=None):
    """Numbers for what is none: the largest there are for infinities, unless others are given."""
    from .search import where
    import numpy
    largest = float(numpy.finfo(_C.dtype_name(x.dtype)).max)
    x = where(isnan(x), full(nan, x), x)
    x = where(_C.compare('equal', x, full(float('inf'), x)), full(largest if posinf is None else posinf, x), x)
    return where(_C.compare('equal', x, full(-float('inf'), x)), full(-largest if neginf is None else neginf, x), x)


def _reduce(op, layer):
    @static_style
    def function(x, axis=None, keepdim=False, name=None):
        return _C.reduce(op, x, _axes(axis), keepdim, name, layer)
    function.__name__ = layer
    function.__doc__ = f'{layer} over axis; None: over all dimensions.'
    return function


def _axes(axis):
    """None for an empty list: all dimensions."""
    return None if isinstance(axis, (list, tuple)) and not axis else axis


mean = _reduce('reduce_mean', 'mean')
max = _reduce('reduce_max', 'max')
min = _reduce('reduce_min', 'min')
amax = _reduce('reduce_max', 'amax')
amin = _reduce('reduce_min', 'amin')
all = _reduce('reduce_all', 'all')
any = _reduce('reduce_any', 'any')


def _summable(x):
    """Truth values and small whole numbers are added up as int64."""
    return _C.cast(x, 'int64') if _C.dtype_name(x.dtype) in ('bool', 'int32') else x


@static_style
def sum(x, axis=None, dtype=None, keepdim=False, name=None):
    x = _summable(x) if dtype is None else _C.cast(x, dtype)
    return _C.reduce('reduce_sum', x, _axes(axis), keepdim, name, 'sum')


@static_style
def prod(x, axis=None, keepdim=False, dtype=None, name=None):
    x = _summable(x) if dtype is None else _C.cast(x, dtype)
    return _C.reduce('reduce_prod', x, _axes(axis), keepdim, name, 'prod')


@static_style
def nansum(x, axis=None, dtype=None, keepdim=False, name=None):
    """sum, where NaN counts as 0."""
    from .search import where
    return sum(where(isnan(x), full(0.0, x), x), axis, dtype, keepdim, name)


@static_style
def nanmean(x, axis=None, keepdim=False, name=None):
    """mean of what is not NaN."""
    count = _C.reduce('reduce_sum', _C.cast(_C.compare('equal', x, x), x.dtype), _axes(axis), keepdim, None)
    return divide(nansum(x, axis, None, keepdim), count, name)


@static_style
def count_nonzero(x, axis=None, keepdim=False, name=None):
    there = _C.cast(_C.compare('not_equal', x, full(0, x)), 'int64')
    return _C.reduce('reduce_sum', there, _axes(axis), keepdim, name)


@static_style
def logsumexp(x, axis=None, keepdim=False, name=None):
    """log of the sum of e^x along axis."""
    from ..fluid import layers
    return layers.logsumexp(x, _axes(axis), keepdim, name=name)


@static_style
def cumsum(x, axis=None, dtype=None, name=None):
    """Sums from the start up to each element; axis None: of all elements in a row."""
    x = x if dtype is None else _C.cast(x, dtype)
    x, axis = (_C.reshape(x, [-1]), 0) if axis is None else (x, axis)
    return one('cumsum', {'X': x}, {'axis': axis}, name)


@static_style
def diff(x, n=1, axis=-1, prepend=None, append=None, name=None):
    """Each element less the one before it, n times."""
    axis = check_axis('diff', axis, x)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = _C.concat(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        later, earlier = _C.slice(x, [axis], [1], [2 ** 31 - 1]), _C.slice(x, [axis], [0], [-1])
        x = _C.compare('not_equal', later, earlier) if _C.dtype_name(x.dtype) == 'bool' else subtract(later, earlier)
    return x


@static_style
def trapezoid(y, x=None, dx=None, axis=-1, name=None):
    """The area under the points y: at x, or dx apart."""
    if x is not None and dx is not None:
        raise ValueError('trapezoid: give x or dx, not both')
    axis = check_axis('trapezoid', axis, y)
    middles = _C.scale(add(_C.slice(y, [axis], [1], [2 ** 31 - 1]), _C.slice(y, [axis], [0], [-1])), 0.5)
    if x is None:
        return _C.reduce('reduce_sum', _C.scale(middles, 1.0 if dx is None else float(dx)), [axis], False, name)
    widths = diff(x, 1, axis if len(x.shape) == len(y.shape) else -1)
    if len(x.shape) == 1 and axis != len(y.shape) - 1:
        widths = _C.reshape(widths, [-1] + [1] * (len(y.shape) - 1 - axis))
    return _C.reduce('reduce_sum', multiply(middles, widths), [axis], False, name)


@static_style
def kron(x, y, name=None):
    """Kronecker's product."""
    return one('kron', {'X': x, 'Y': y}, {}, name)


@static_style
def trace(x, offset=0, axis1=0, axis2=1, name=None):
    """The sum of a diagonal."""
    return one('trace', {'Input': x}, {'offset': offset, 'dim1': axis1, 'dim2': axis2}, name)


def broadcast_shape(x_shape, y_shape):
    """The shape of x + y."""
    x_shape, y_shape = list(x_shape), list(y_shape)
    rank = len(x_shape) if len(x_shape) > len(y_shape) else len(y_shape)
    pairs = zip([1] * (rank - len(x_shape)) + x_shape, [1] * (rank - len(y_shape)) + y_shape)
    found = []
    for a, b in pairs:
        if a != b and 1 not in (a, b) and -1 not in (a, b):
            raise ValueError(f'shapes {x_shape} and {y_shape} do not go together: {a} and {b}')
        found.append(b if a == 1 else a if b in (1, -1) or a == b else b)
    return found


@static_style
def inner(x, y, name=None):
    """The sum of products along the last dimensions."""
    if len(x.shape) == 1 and len(y.shape) == 1:
        return one('dot', {'X': x, 'Y': y}, {}, name, 'inner')
    rows, columns = list(x.shape[:-1]), list(y.shape[:-1])
    out = one('matmul_v2', {'X': _C.reshape(x, [-1, x.shape[-1]]), 'Y': _C.reshape(y, [-1, y.shape[-1]])},
              {'trans_y': True}, name, 'inner')
    return _C.reshape(out, rows + columns) if len(rows) != 1 or len(columns) != 1 else out


@static_style
def outer(x, y, name=None):
    """Every element of x times every element of y."""
    return multiply(_C.reshape(x, [-1, 1]), _C.reshape(y, [1, -1]), name)


@static_style
def renorm(x, p, axis, max_norm):
    """Slices along axis, cut to a p-norm of max_norm."""
    axis = check_axis('renorm', axis, x)
    others = [i for i in range(len(x.shape)) if i != axis]
    powers = _C.reduce('reduce_sum', one('pow', {'X': abs(x)}, {'factor': float(p)}), others, True, None)
    length = one('pow', {'X': powers}, {'factor': 1.0 / p})
    shrink = _C.clip(divide(full(max_norm, length), _C.scale(length, 1.0, 1e-7)), 0.0, 1.0)
    return multiply(x, shrink)


def _whole(name, x, y):
    from .manipulation import broadcast_tensors
    for each in (x, y):
        if _C.dtype_name(each.dtype) not in ('int32', 'int64'):
            raise TypeError(f'{name} takes int32 or int64, not {_C.dtype_name(each.dtype)}: {each.name}')
    return [maximum(each, subtract(full(0, each), each)) for each in broadcast_tensors([x, y])]


@static_style
def gcd(x, y, name=None):
    """The largest whole number that divides both; 0 where both are 0."""
    from ..fluid.layers import while_loop
    from .search import where

    def goes_on(_, rest):
        return any(_C.compare('not_equal', rest, full(0, rest)))

    def step(largest, rest):
        done = _C.compare('equal', rest, full(0, rest))
        return [where(done, largest, rest), where(done, rest, mod(largest, where(done, full(1, rest), rest)))]
    return while_loop(goes_on, step, _whole('gcd', x, y))[0]


@static_style
def lcm(x, y, name=None):
    """The least whole number that both divide; 0 where one of them is 0."""
    from .search import where
    x, y = _whole('lcm', x, y)
    largest = gcd(x, y)
    return multiply(floor_divide(x, where(_C.compare('equal', largest, full(0, x)), full(1, x), largest)), y)
