"""Families of layers, and layers whose arguments are not their op's."""
import _trireme as _C

__all__ = ['elementwise_add', 'elementwise_sub', 'elementwise_mul', 'elementwise_div',
           'elementwise_max', 'elementwise_min', 'elementwise_pow', 'elementwise_mod',
           'elementwise_floordiv', 'reduce_sum', 'reduce_mean', 'reduce_max', 'reduce_min',
           'reduce_prod', 'reduce_all', 'reduce_any', 'less_than', 'less_equal', 'greater_than',
           'greater_equal', 'equal', 'not_equal', 'zeros', 'ones', 'sum', 'sequence_pad',
           'sequence_unpad', 'sequence_mask', 'sequence_reshape', 'sequence_concat', 'unstack',
           'range', 'argmax', 'argmin', 'l2_normalize', 'pow', 'relu6', 'isfinite', 'has_inf',
           'has_nan', 'hard_sigmoid', 'scatter', 'strided_slice', 'gather_nd', 'argsort', 'cumsum',
           'huber_loss', 'bpr_loss', 'cross_entropy2', 'sequence_slice', 'sequence_enumerate',
           'sampling_id', 'uniform_random_batch_size_like', 'logical_xor']


def _elementwise(op):
    def layer(x, y, axis=-1, act=None, name=None):
        return _C.elementwise(op, x, y, axis, act, name)
    layer.__name__, layer.__doc__ = op, f"{op}: y's dimensions meet x's from axis on."
    return layer


def _reduce(op):
    def layer(input, dim=None, keep_dim=False, name=None):
        return _C.reduce(op, input, dim, keep_dim, name)
    layer.__name__, layer.__doc__ = op, f'{op} over dim; None: over all dimensions.'
    return layer


def _compare(op):
    def layer(x, y, force_cpu=None, cond=None, name=None):
        if isinstance(force_cpu, _C.Variable):  # all but less_than take (x, y, cond)
            force_cpu, cond = None, force_cpu
        return _C.compare(op, x, y, cond)
    layer.__name__, layer.__doc__ = op, f'{op}, element by element; a bool variable.'
    return layer


elementwise_add = _elementwise('elementwise_add')
elementwise_sub = _elementwise('elementwise_sub')
elementwise_mul = _elementwise('elementwise_mul')
elementwise_div = _elementwise('elementwise_div')
elementwise_max = _elementwise('elementwise_max')
elementwise_min = _elementwise('elementwise_min')
elementwise_pow = _elementwise('elementwise_pow')
elementwise_mod = _elementwise('elementwise_mod')
elementwise_floordiv = _elementwise('elementwise_floordiv')
reduce_sum = _reduce('reduce_sum')
reduce_mean = _reduce('reduce_mean')
reduce_max = _reduce('reduce_max')
reduce_min = _reduce('reduce_min')
reduce_prod = _reduce('reduce_prod')
reduce_all = _reduce('reduce_all')
reduce_any = _reduce('reduce_any')
less_than = _compare('less_than')
less_equal = _compare('less_equal')
greater_than = _compare('greater_than')
greater_equal = _compare('greater_equal')
equal = _compare('equal')
not_equal = _compare('not_equal')


def zeros(shape, dtype, force_cpu=False, name=None):
    return _C.fill_constant(shape, dtype, 0.0, force_cpu, None, name)


def ones(shape, dtype, force_cpu=False, name=None):
    return _C.fill_constant(shape, dtype, 1.0, force_cpu, None, name)


def sum(x):
    """The sum of several tensors."""
    return _C.apply('sum', {'X': x}, {}, layer='sum')['Out'][0]


def _one(op, inputs, attrs=None, name=None, layer=None, act=None, out='Out'):
    return _C.apply(op, inputs, attrs or {}, name, layer or op, act)[out][0]


def sequence_pad(x, pad_value, maxlen=None, name=None):
    """Sequences as rows of equal length: (padded, lengths)."""
    outs = _C.apply('sequence_pad', {'X': x, 'PadValue': pad_value},
                    {'padded_length': -1 if maxlen is None else maxlen}, name)
    return outs['Out'][0], outs['Length'][0]


def sequence_unpad(x, length, name=None):
    return _one('sequence_unpad', {'X': x, 'Length': length}, name=name)


def sequence_mask(x, maxlen=None, dtype='int64', name=None):
    inputs, attrs = {'X': x}, {'out_dtype': int(_C.to_dtype(dtype))}
    if isinstance(maxlen, _C.Variable):
        inputs['MaxLenTensor'] = maxlen
    else:
        attrs['maxlen'] = -1 if maxlen is None else maxlen
    return _one('sequence_mask', inputs, attrs, name, out='Y')


def sequence_reshape(input, new_dim):
    return _one('sequence_reshape', {'X': input}, {'new_dim': new_dim})


def sequence_concat(input, name=None):
    return _one('sequence_concat', {'X': input}, name=name)


def unstack(x, axis=0, num=None):
    if num is None:
        num = x.shape[axis]
        if num < 0:
            raise ValueError(f'unstack needs num: dimension {axis} of {x.name} is unknown')
    return _C.apply('unstack', {'X': x}, {'axis': axis, 'num': num}, out_counts={'Y': num})['Y']


def range(start, end, step, dtype, name=None):
    """Numbers from start to end (not included) by step."""
    def operand(value):
        if isinstance(value, _C.Variable):
            return value if value.dtype == _C.to_dtype(dtype) else _C.cast(value, dtype)
        return _C.fill_constant([1], dtype, value)
    return _one('range', {'Start': operand(start), 'End': operand(end), 'Step': operand(step)},
                name=name)


def argmax(x, axis=0):
    return _one('arg_max', {'X': x}, {'axis': axis})


def argmin(x, axis=0):
    return _one('arg_min', {'X': x}, {'axis': axis})


def l2_normalize(x, axis, epsilon=1e-12, name=None):
    axis = 0 if len(x.shape) == 1 else axis
    return _one('norm', {'X': x}, {'axis': 1 if axis is None else axis, 'epsilon': epsilon}, name,
                'l2_normalize')


def pow(x, factor=1.0, name=None):
    if isinstance(factor, _C.Variable):
        return _one('pow', {'X': x, 'FactorTensor': factor}, name=name)
    return _one('pow', {'X': x}, {'factor': factor}, name)


def relu6(x, threshold=6.0, name=None):
    return _one('relu6', {'X': x}, {'threshold': threshold}, name)


def hard_sigmoid(x, slope=0.2, offset=0.5, name=None):
    return _one('hard_sigmoid', {'X': x}, {'slope': slope, 'offset': offset}, name)


def isfinite(x):
    return _one('isfinite', {'X': x})


def has_inf(x):
    return _one('isinf', {'X': x}, layer='isinf')


def has_nan(x):
    return _one('isnan', {'X': x}, layer='isnan')


def scatter(input, index, updates, name=None, overwrite=True):
    return _one('scatter', {'X': input, 'Ids': index, 'Updates': updates},
                {'overwrite': overwrite}, name)


def strided_slice(input, axes, starts, ends, strides):
    """Elements between starts and ends, some apart; each a list, of numbers or variables, or a variable."""
    # infer_flags: -1 where a bound is known when it runs.
    inputs, attrs = {'Input': input}, {'axes': list(axes), 'infer_flags': [1] * len(axes)}
    for what, given in (('Starts', starts), ('Ends', ends), ('Strides', strides)):
        if isinstance(given, _C.Variable):
            inputs[what + 'Tensor'] = given
            attrs['infer_flags'] = [-1] * len(axes)
        elif any(isinstance(one, _C.Variable) for one in given):
            inputs[what + 'TensorList'] = [one if isinstance(one, _C.Variable)
                                           else _C.fill_constant([1], 'int32', one) for one in given]
            attrs['infer_flags'] = [-1 if isinstance(one, _C.Variable) else flag
                                    for one, flag in zip(given, attrs['infer_flags'])]
        else:
            attrs[what.lower()] = list(given)
    return _one('strided_slice', inputs, attrs)


def gather_nd(input, index, name=None):
    return _one('gather_nd', {'X': input, 'Index': index}, name=name)


def argsort(input, axis=-1, descending=False, name=None):
    """(sorted, where each element stood)."""
    outs = _C.apply('argsort', {'X': input}, {'axis': axis, 'descending': descending}, name)
    return outs['Out'][0], outs['Indices'][0]


def cumsum(x, axis=None, exclusive=None, reverse=None):
    """Sums from the start of the axis up to each element; None: the last axis."""
    return _one('cumsum', {'X': x}, {'axis': -1 if axis is None else axis,
                                     'exclusive': bool(exclusive), 'reverse': bool(reverse)})


def huber_loss(input, label, delta):
    return _one('huber_loss', {'X': input, 'Y': label}, {'delta': delta})


def bpr_loss(input, label, name=None):
    return _one('bpr_loss', {'X': input, 'Label': label}, name=name, out='Y')


def cross_entropy2(input, label, ignore_index=-100):
    return _one('cross_entropy2', {'X': input, 'Label': label}, {'ignore_index': ignore_index},
                out='Y')


def sequence_slice(input, offset, length, name=None):
    return _one('sequence_slice', {'X': input, 'Offset': offset, 'Length': length}, name=name)


def sequence_enumerate(input, win_size, pad_value=0, name=None):
    return _one('sequence_enumerate', {'X': input}, {'win_size': win_size, 'pad_value': pad_value},
                name)


def sampling_id(x, min=0.0, max=1.0, seed=0, dtype='float32'):
    """A class for each row, drawn by the row's probabilities: int64, as embeddings take it.

    The default of dtype is the original's, whose result was int64 all the same; another type is
    cast to.
    """
    ids = _one('sampling_id', {'X': x}, dict(min=min, max=max, seed=seed))
    return ids if _C.to_dtype(dtype) in (ids.dtype, _C.to_dtype('float32')) else _C.cast(ids, dtype)


def uniform_random_batch_size_like(input, shape, dtype='float32', input_dim_idx=0, output_dim_idx=0,
                                   min=-1.0, max=1.0, seed=0):
    return _one('uniform_random_batch_size_like', {'Input': input},
                dict(min=min, max=max, seed=seed, shape=list(shape), dtype=int(_C.to_dtype(dtype)),
                     input_dim_idx=input_dim_idx, output_dim_idx=output_dim_idx))


def logical_xor(x, y, out=None, name=None):
    found = _one('logical_xor', {'X': x, 'Y': y}, name=name)
    return found if out is None else _C.assign(found, out)
