"""Functions on variables under their 2.4 names."""
import _trireme as _C

from ._style import static_style, unary as _unary

__all__ = ['mean', 'sum', 'max', 'min', 'prod', 'cast', 'rand', 'randn', 'uniform', 'normal', 'full',
           'zeros', 'ones', 'zeros_like', 'ones_like', 'transpose', 'reshape', 'concat', 'split',
           'stack', 'squeeze', 'unsqueeze', 'flatten', 'matmul', 'add', 'subtract', 'multiply',
           'divide', 'maximum', 'minimum', 'pow', 'scale', 'assign', 'argmax', 'shape', 'slice',
           'gather', 'clip', 'equal', 'not_equal', 'less_than', 'less_equal', 'greater_than',
           'greater_equal', 'logical_and', 'logical_or', 'logical_not', 'increment', 'add_n',
           'create_parameter', 'unique_consecutive'] + [
    'abs', 'exp', 'log', 'sqrt', 'rsqrt', 'square', 'tanh', 'sin', 'cos', 'floor', 'ceil', 'round',
    'reciprocal', 'sign', 'erf', 'log1p', 'cumsum']


def _reduce(op, layer):
    @static_style
    def function(x, axis=None, keepdim=False, name=None):
        return _C.reduce(op, x, axis, keepdim, name, layer)
    function.__name__ = layer
    function.__doc__ = f'{layer} over axis; None: over all dimensions.'
    return function


mean = _reduce('reduce_mean', 'mean')
max = _reduce('reduce_max', 'max')
min = _reduce('reduce_min', 'min')


@static_style
def sum(x, axis=None, dtype=None, keepdim=False, name=None):
    if dtype is not None:
        x = _C.cast(x, dtype)
    return _C.reduce('reduce_sum', x, axis, keepdim, name, 'sum')


@static_style
def prod(x, axis=None, keepdim=False, dtype=None, name=None):
    if dtype is not None:
        x = _C.cast(x, dtype)
    return _C.reduce('reduce_prod', x, axis, keepdim, name, 'prod')


@static_style
def cast(x, dtype):
    return _C.cast(x, dtype)


def _dtype(dtype):
    return _C.get_default_dtype() if dtype is None else dtype


@static_style
def uniform(shape, dtype=None, min=-1.0, max=1.0, seed=0, name=None):
    return _C.uniform_random(shape, _dtype(dtype), min, max, seed, name)


@static_style
def rand(shape, dtype=None, name=None):
    return _C.uniform_random(shape, _dtype(dtype), 0.0, 1.0, 0, name)


@static_style
def randn(shape, dtype=None, name=None):
    return _C.gaussian_random(shape, 0.0, 1.0, 0, _dtype(dtype), name)


@static_style
def normal(mean=0.0, std=1.0, shape=None, name=None):
    return _C.gaussian_random(shape, mean, std, 0, _C.get_default_dtype(), name)


@static_style
def full(shape, fill_value, dtype=None, name=None):
    return _C.fill_constant(shape, _dtype(dtype), fill_value, False, None, name)


@static_style
def zeros(shape, dtype=None, name=None):
    return _C.fill_constant(shape, _dtype(dtype), 0.0, False, None, name)


@static_style
def ones(shape, dtype=None, name=None):
    return _C.fill_constant(shape, _dtype(dtype), 1.0, False, None, name)


@static_style
def zeros_like(x, dtype=None, name=None):
    out = _C.zeros_like(x)
    return out if dtype is None else _C.cast(out, dtype)


@static_style
def ones_like(x, dtype=None, name=None):
    out = _C.ones_like(x)
    return out if dtype is None else _C.cast(out, dtype)


@static_style
def transpose(x, perm, name=None):
    return _C.transpose(x, perm, name)


@static_style
def reshape(x, shape, name=None):
    return _C.reshape(x, shape, name=name)


@static_style
def concat(x, axis=0, name=None):
    return _C.concat(x, axis, name)


@static_style
def split(x, num_or_sections, axis=0, name=None):
    return _C.split(x, num_or_sections, axis, name)


@static_style
def stack(x, axis=0, name=None):
    return _C.stack(x, axis)


@static_style
def squeeze(x, axis=None, name=None):
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return _C.squeeze(x, axes, name)


@static_style
def unsqueeze(x, axis, name=None):
    return _C.unsqueeze(x, axis, name)


@static_style
def flatten(x, start_axis=0, stop_axis=-1, name=None):
    """Dimensions start_axis to stop_axis (included) as one."""
    rank = len(x.shape)
    start, stop = start_axis % rank, stop_axis % rank
    dims, between = list(x.shape), [d for d in x.shape[start:stop + 1]]
    size = -1
    if all(d >= 0 for d in between):
        size = 1
        for d in between:
            size *= d
    shape = [0 if i < start else dims[i] for i in range(start)] + [size] + dims[stop + 1:]
    return _C.reshape(x, shape, name=name)


@static_style
def matmul(x, y, transpose_x=False, transpose_y=False, name=None):
    return _C.apply('matmul_v2', {'X': x, 'Y': y}, {'trans_x': transpose_x, 'trans_y': transpose_y},
                    name, 'matmul_v2')['Out'][0]


def _elementwise(op, name):
    @static_style
    def function(x, y, name=None):
        return _C.elementwise(op, x, y, -1, None, name)
    function.__name__ = name
    return function


add = _elementwise('elementwise_add', 'add')
subtract = _elementwise('elementwise_sub', 'subtract')
multiply = _elementwise('elementwise_mul', 'multiply')
divide = _elementwise('elementwise_div', 'divide')
maximum = _elementwise('elementwise_max', 'maximum')
minimum = _elementwise('elementwise_min', 'minimum')


@static_style
def pow(x, y, name=None):
    if isinstance(y, _C.Variable):
        return _C.elementwise('elementwise_pow', x, y, -1, None, name)
    return _C.apply('pow', {'X': x}, {'factor': y}, name, 'pow')['Out'][0]


@static_style
def scale(x, scale=1.0, bias=0.0, bias_after_scale=True, act=None, name=None):
    return _C.scale(x, scale, bias, bias_after_scale, act, name)


@static_style
def assign(x, output=None):
    return _C.assign(x, output)


@static_style
def argmax(x, axis=None, keepdim=False, dtype='int64', name=None):
    attrs = {'axis': 0 if axis is None else axis, 'keepdims': keepdim and axis is not None,
             'dtype': int(_C.to_dtype(dtype))}
    flat = _C.reshape(x, [-1]) if axis is None else x
    found = _C.apply('arg_max', {'X': flat}, attrs, name, 'argmax')['Out'][0]
    return _C.reshape(found, [1] * len(x.shape)) if axis is None and keepdim else found


@static_style
def shape(input):
    return _C.shape(input)


@static_style
def slice(input, axes, starts, ends):
    return _C.slice(input, axes, starts, ends)


@static_style
def gather(x, index, axis=None, name=None):
    """Rows of x, or what lies at `index` along another axis."""
    if axis in (None, 0):
        return _C.gather(x, index)
    rank = len(x.shape)
    if not -rank <= axis < rank:
        raise ValueError(f'gather: axis is {axis}, but x has {rank} dimensions')
    order = list(range(rank))
    order[0], order[axis] = order[axis], order[0]  # its own inverse
    return _C.transpose(_C.gather(_C.transpose(x, order), index), order)


@static_style
def clip(x, min=None, max=None, name=None):
    big = 3.4028234663852886e38
    return _C.clip(x, -big if min is None else min, big if max is None else max, name)


def _compare(op):
    @static_style
    def function(x, y, name=None):
        return _C.compare(op, x, y)
    function.__name__ = op
    return function


equal = _compare('equal')
not_equal = _compare('not_equal')
less_than = _compare('less_than')
less_equal = _compare('less_equal')
greater_than = _compare('greater_than')
greater_equal = _compare('greater_equal')


@static_style
def logical_and(x, y, out=None, name=None):
    return _C.logical_and(x, y, out)


@static_style
def logical_or(x, y, out=None, name=None):
    return _C.logical_or(x, y, out)


@static_style
def logical_not(x, out=None, name=None):
    return _C.logical_not(x, out)


@static_style
def increment(x, value=1.0, name=None):
    return _C.increment(x, value)


@static_style
def add_n(inputs, name=None):
    return _C.sums(inputs)


@static_style
def create_parameter(shape, dtype, name=None, attr=None, is_bias=False, default_initializer=None):
    return _C.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)


abs = _unary('abs')
exp = _unary('exp')
log = _unary('log')
sqrt = _unary('sqrt')
rsqrt = _unary('rsqrt')
square = _unary('square')
tanh = _unary('tanh')
sin = _unary('sin')
cos = _unary('cos')
floor = _unary('floor')
ceil = _unary('ceil')
round = _unary('round')
reciprocal = _unary('reciprocal')
sign = _unary('sign')
erf = _unary('erf')
log1p = _unary('log1p')


@static_style
def cumsum(x, axis=None, dtype=None, name=None):
    if dtype is not None:
        x = _C.cast(x, dtype)
    attrs = {'flatten': True} if axis is None else {'axis': axis}
    return _C.apply('cumsum', {'X': x}, attrs, name, 'cumsum')['Out'][0]


@static_style
def unique_consecutive(x, return_inverse=False, return_counts=False, axis=None, dtype='int64',
                       name=None):
    """x with equal neighbours made one; also which of them each element is, and how many each was."""
    wanted = [slot for slot, asked in (('Index', return_inverse), ('Counts', return_counts)) if asked]
    outs = _C.apply('unique_consecutive', {'X': x},
                    {'return_inverse': return_inverse, 'return_counts': return_counts,
                     'axis': [] if axis is None else [axis], 'dtype': int(_C.to_dtype(dtype))},
                    name, out_counts={slot: 1 for slot in wanted}, stop_gradient=True)
    results = tuple(outs[slot][0] for slot in ['Out'] + wanted)
    return results if wanted else results[0]
