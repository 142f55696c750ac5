"""How programs are rewritten for quantised training, and then for inference: the passes and the transpiler say where
scales are kept, the work is here. Ops that the rewriting puts in front of an op read what it read."""
import numpy

from .... import unique_name
from ....core import VarDesc
from .utils import _WEIGHTS, _get_op_input_var_names, load_variable_data, quant_tensor, set_variable_data

ACTIVATION_TYPES = ('abs_max', 'range_abs_max', 'moving_average_abs_max')
WEIGHT_TYPES = ('abs_max', 'channel_wise_abs_max', 'range_abs_max', 'moving_average_abs_max')
_FLOATS = (VarDesc.VarType.FP32, VarDesc.VarType.FP64)
# Weights of these have a scale for each channel where that is asked for.
_CHANNEL_WISE = ('conv2d', 'depthwise_conv2d')


def bound(bits):
    return (1 << (bits - 1)) - 1


def like(block, name, var, shape=None):
    """A new variable with the type of another one."""
    return block.create_var(name=name, dtype=var.dtype, shape=list(var.shape if shape is None else shape))


class Rewriter:
    """state(block, name, shape, dtype, value) makes a persistable variable with its first value."""

    def __init__(self, state, is_test, moving_rate, window_size):
        self.state, self.is_test = state, is_test
        self.moving_rate, self.window_size = moving_rate, window_size
        self._step = None

    def in_front(self, block, op, op_type, inputs, outputs, attrs):
        block._insert_op(op.idx, type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)

    def averages(self, block, prefix):
        """Inputs and outputs of a moving average in training; the scale is its caller's."""
        if self.is_test:
            return {}, {}
        state, accum = (self.state(block, unique_name.generate(prefix + kind), [1], VarDesc.VarType.FP32, 1.0)
                        for kind in ('state', 'accum'))
        return {'InState': [state], 'InAccum': [accum]}, {'OutState': [state], 'OutAccum': [accum]}

    def quantize(self, block, op, var, kind, bits):
        """Puts the op in front that rounds var; returns (the rounded variable, its scale)."""
        out = like(block, var.name + '.quantized', var)
        attrs = {'bit_length': bits}
        if kind in ('abs_max', 'channel_wise_abs_max'):
            channels = var.shape[0] if kind != 'abs_max' else 1
            scale = like(block, var.name + '.scale', var, [channels])
            name = 'fake_quantize_abs_max' if kind == 'abs_max' else 'fake_channel_wise_quantize_abs_max'
            self.in_front(block, op, name, {'X': [var]}, {'Out': [out], 'OutScale': [scale]}, attrs)
            return out, scale
        scale = self.state(block, var.name + '.scale', [1], var.dtype, 0.001)
        inputs, outputs = {'X': [var], 'InScale': [scale]}, {'Out': [out], 'OutScale': [scale]}
        attrs['is_test'] = self.is_test
        if kind == 'moving_average_abs_max':
            more_in, more_out = self.averages(block, '')
            attrs['moving_rate'] = self.moving_rate
        else:
            attrs['window_size'] = self.window_size
            more_in, more_out = self._window(block, var)
        self.in_front(block, op, f'fake_quantize_{kind}', {**inputs, **more_in}, {**outputs, **more_out}, attrs)
        return out, scale

    def _window(self, block, var):
        if self.is_test:
            return {}, {}
        if self._step is None:
            self._step = self.state(block, '@STEP_COUNTER@', [1], VarDesc.VarType.INT64, 0)
            block._prepend_op(type='increment', inputs={'X': [self._step]}, outputs={'Out': [self._step]},
                              attrs={'step': 1.0})
        scales = self.state(block, unique_name.generate('scales'), [self.window_size], var.dtype, 0.0)
        return {'Iter': [self._step], 'InScales': [scales]}, {'OutScales': [scales]}

    def dequantize(self, block, op, var, scale, channel_wise, bits):
        """Puts the op in front that turns the rounded variable back."""
        out = like(block, var.name + '.dequantized', var)
        if channel_wise:
            self.in_front(block, op, 'fake_channel_wise_dequantize_max_abs', {'X': [var], 'Scales': [scale]},
                          {'Out': [out]}, {'quant_bits': [bits]})
        else:
            self.in_front(block, op, 'fake_dequantize_max_abs', {'X': [var], 'Scale': [scale]}, {'Out': [out]},
                          {'max_range': float(bound(bits))})
        return out

    def insert(self, program, kinds, types, bits, skip):
        """Rounds what ops of these types read. kinds and bits: (of activations, of weights)."""
        for block in program.blocks:
            rounded = {}  # name -> what ops read instead
            for op in list(block.ops):
                forward = op.type in types and not op._is_backward_op() and not skipped(op, skip)
                if not forward and op.type[:-len('_grad')] not in types:
                    continue
                for name in dict.fromkeys(_get_op_input_var_names(op)):
                    var = block._find_var_recursive(name)
                    if forward and name not in rounded and var is not None and var.dtype in _FLOATS:
                        is_weight = var.persistable
                        kind = kinds[is_weight]
                        by_channel = is_weight and kind == 'channel_wise_abs_max' and op.type in _CHANNEL_WISE
                        if kind == 'channel_wise_abs_max' and not by_channel:
                            kind = 'abs_max'
                        whole, scale = self.quantize(block, op, var, kind, bits[is_weight])
                        rounded[name] = self.dequantize(block, op, whole, scale, by_channel, bits[is_weight]).name
                    if name in rounded:
                        op._rename_input(name, rounded[name])


def skipped(op, patterns):
    """Whether the op stands in a name scope that is left as it is."""
    scope = op.attr('op_namescope') if op.has_attr('op_namescope') else ''
    return any(pattern in scope for pattern in ([patterns] if isinstance(patterns, str) else patterns or []))


class Freezer:
    """Turns a rewritten test program into one on whole numbers: weights hold them in the scope, results are turned
    back behind each op."""

    def __init__(self, scope, place, bits, types):
        self.scope, self.place, (self.activation_bits, self.weight_bits), self.types = scope, place, bits, types

    def apply(self, program):
        for block in program.blocks:
            makers = {name: op for op in block.ops for name in op.output_arg_names}
            renamed, done, dropped = {}, {}, []
            for op in list(block.ops):
                for name in op.input_arg_names:
                    if name in renamed:
                        op._rename_input(name, renamed[name])
                if op.type not in self.types:
                    continue
                weight, activation = None, None
                for name in dict.fromkeys(_get_op_input_var_names(op)):
                    back = makers.get(name)
                    if back is None or not back.type.startswith('fake_') or 'dequantize' not in back.type:
                        continue
                    whole = makers[back.input('X')[0]]
                    origin = whole.input('X')[0]
                    dropped.append(back)
                    if block._var_recursive(origin).persistable:
                        weight = done.get(origin) or self._round(origin, whole)
                        done[origin] = weight
                        dropped.append(whole)
                        op._rename_input(name, origin)
                    else:
                        activation = whole.output('OutScale')[0]
                        op._rename_input(name, whole.output('Out')[0])
                if weight is not None and activation is not None:
                    self._behind(block, op, weight, activation, renamed)
            for op in {id(op): op for op in dropped}.values():
                block._remove_op(op.idx)

    def _round(self, name, op):
        """The weight becomes whole numbers; returns its scales."""
        value = load_variable_data(self.scope, name)
        by_channel = op.type == 'fake_channel_wise_quantize_abs_max'
        scale = abs(value).reshape(value.shape[0], -1).max(1) if by_channel else numpy.array([abs(value).max()])
        set_variable_data(self.scope, self.place, name,
                          quant_tensor(value, scale, 0, self.weight_bits).astype(value.dtype))
        return scale.astype(value.dtype), by_channel

    def _behind(self, block, op, weight, activation, renamed):
        scale, by_channel = weight
        out_name, = [name for slot in op.output_names for name in op.output(slot)][:1]
        var = block._var_recursive(out_name)
        back = like(block, out_name + '.dequantized', var)
        bits = bound(self.activation_bits) * bound(self.weight_bits)
        if by_channel:
            held = block.create_var(name=unique_name.generate('channel_scale'), shape=list(scale.shape), dtype=var.dtype,
                                    persistable=True)
            set_variable_data(self.scope, self.place, held.name, scale)
            block._insert_op(op.idx + 1, type='fake_channel_wise_dequantize_max_abs',
                             inputs={'X': [var], 'Scales': [held.name, activation]}, outputs={'Out': [back]},
                             attrs={'quant_bits': [self.weight_bits, self.activation_bits]})
        else:
            block._insert_op(op.idx + 1, type='fake_dequantize_max_abs', inputs={'X': [var], 'Scale': [activation]},
                             outputs={'Out': [back]}, attrs={'max_range': float(bits / scale[0])})
        renamed[out_name] = back.name


def to_int8(program, scope, place, types):
    """Weights that hold whole numbers become int8 variables."""
    for block in program.blocks:
        for op in block.ops:
            if op.type not in types or op.type not in _WEIGHTS or not op.input(_WEIGHTS[op.type]):
                continue
            name = op.input(_WEIGHTS[op.type])[0]
            var = block._find_var_recursive(name)
            if var is None or not var.persistable or var.dtype not in _FLOATS:
                continue
            made = block.create_var(name=name + '.int8', dtype=VarDesc.VarType.INT8, shape=list(var.shape),
                                    persistable=True)
            set_variable_data(scope, place, made.name, load_variable_data(scope, name).astype('int8'))
            op._rename_input(name, made.name)
