"""The passes of quantised training: apply(graph) rewrites the program that an IrGraph holds."""
import numpy

from .... import core
from ....executor import global_scope
from ....graph import IrGraph
from .rewrite import ACTIVATION_TYPES, WEIGHT_TYPES, Freezer, Rewriter, like, skipped, to_int8
from .utils import _get_op_input_var_names, _get_op_output_var_names, load_variable_data, set_variable_data

__all__ = ['QuantizationTransformPass', 'QuantizationFreezePass', 'ConvertToInt8Pass', 'TransformForMobilePass',
           'AddQuantDequantPass', 'OutScaleForTrainingPass', 'OutScaleForInferencePass']

_QUANTIZABLE = ('conv2d', 'depthwise_conv2d', 'mul', 'matmul')
_ADDED = ('elementwise_add', 'pool2d', 'concat', 'relu', 'leaky_relu', 'sigmoid', 'tanh', 'softmax', 'relu6', 'matmul',
          'elementwise_mul', 'reshape2', 'transpose2', 'mean', 'batch_norm', 'dropout', 'split', 'pad2d')
_OBSERVED = ('conv2d', 'depthwise_conv2d', 'mul', 'matmul', 'relu', 'leaky_relu', 'relu6', 'sigmoid', 'tanh', 'prelu',
             'swish', 'softmax', 'batch_norm', 'elementwise_add', 'pool2d', 'reshape2', 'transpose2', 'concat')


def _program_of(graph):
    if not isinstance(graph, IrGraph):
        raise TypeError(f'a pass is applied to an IrGraph, got {type(graph).__name__}: make one with '
                        'IrGraph(core.Graph(program.desc), for_test=...)')
    return graph.graph._program


def _checked(types, known, what):
    types = [types] if isinstance(types, str) else list(types)
    for kind in types:
        if kind not in known:
            raise ValueError(f'{what} knows no quantizable_op_type {kind!r}: choose from {", ".join(known)}')
    return types


def _state_in(scope, place):
    """States with their first values in a scope."""
    def state(block, name, shape, dtype, value):
        var = block.create_var(name=name, shape=shape, dtype=dtype, persistable=True, stop_gradient=True)
        kind = {core.VarDesc.VarType.INT64: 'int64', core.VarDesc.VarType.FP64: 'float64'}.get(dtype, 'float32')
        found = scope.find_var(name)
        if found is None or not found.is_initialized():
            set_variable_data(scope, place, name, numpy.full(shape, value, kind))
        return var
    return state


class QuantizationTransformPass:
    """Operands of convolutions and matrix products are rounded as weight_bits and activation_bits hold them."""

    _supported_quantizable_op_type = list(_QUANTIZABLE)

    def __init__(self, scope=None, place=None, weight_bits=8, activation_bits=8, activation_quantize_type='abs_max',
                 weight_quantize_type='abs_max', window_size=10000, moving_rate=0.9, skip_pattern=('skip_quant',),
                 quantizable_op_type=('conv2d', 'depthwise_conv2d', 'mul'), weight_quantize_func=None,
                 act_quantize_func=None, weight_preprocess_func=None, act_preprocess_func=None, optimizer_func=None,
                 executor=None):
        for func in (weight_quantize_func, act_quantize_func, weight_preprocess_func, act_preprocess_func):
            if func is not None:
                raise NotImplementedError('QuantizationTransformPass: functions of your own for rounding are not built '
                                          'yet in Trireme: leave them None')
        if activation_quantize_type not in ACTIVATION_TYPES:
            raise ValueError(f'activation_quantize_type is {activation_quantize_type!r}; choose from '
                             f'{", ".join(ACTIVATION_TYPES)}')
        if weight_quantize_type not in WEIGHT_TYPES[:2]:
            raise ValueError(f'weight_quantize_type is {weight_quantize_type!r}; choose from {", ".join(WEIGHT_TYPES[:2])}')
        self._scope, self._place = scope or global_scope(), place or core.CPUPlace()
        self._kinds = activation_quantize_type, weight_quantize_type
        self._bits = activation_bits, weight_bits
        self._window_size, self._moving_rate, self._skip = window_size, moving_rate, skip_pattern
        self._types = _checked(quantizable_op_type, _QUANTIZABLE, 'QuantizationTransformPass')

    def apply(self, graph):
        program = _program_of(graph)
        rewriter = Rewriter(_state_in(self._scope, self._place), graph.is_test(), self._moving_rate, self._window_size)
        rewriter.insert(program, self._kinds, self._types, self._bits, self._skip)
        return graph


class QuantizationFreezePass:
    """The rewritten test program on whole numbers: weights in the scope hold them from now on."""

    def __init__(self, scope, place, weight_bits=8, activation_bits=8, weight_quantize_type='abs_max',
                 quantizable_op_type=None):
        assert scope is not None and place is not None, 'a scope and a place are needed'
        self._freezer = Freezer(scope, place, (activation_bits, weight_bits), quantizable_op_type or _QUANTIZABLE)

    def apply(self, graph):
        self._freezer.apply(_program_of(graph))
        return graph


class ConvertToInt8Pass:
    """Weights of a frozen program become int8 variables, a quarter of the bytes."""

    def __init__(self, scope, place, quantizable_op_type=None):
        assert scope is not None and place is not None, 'a scope and a place are needed'
        self._scope, self._place, self._types = scope, place, quantizable_op_type or _QUANTIZABLE

    def apply(self, graph):
        to_int8(_program_of(graph), self._scope, self._place, self._types)
        return graph


class TransformForMobilePass:
    """Ops get the names that engines on phones know: quantize and dequantize. Such a program is saved, not run."""

    def apply(self, graph):
        for block in _program_of(graph).blocks:
            for op in block.ops:
                if op.type.startswith('fake_quantize_') and 'dequantize' not in op.type[5:]:
                    op._set_type('quantize')
                elif op.type in ('fake_dequantize_max_abs', 'fake_channel_wise_dequantize_max_abs'):
                    op._set_type('dequantize')
        return graph


class AddQuantDequantPass:
    """What ops without weights read is rounded and turned back, with a moving average as its scale."""

    _supported_quantizable_op_type = list(_ADDED)

    def __init__(self, scope=None, place=None, moving_rate=0.9, quant_bits=8, skip_pattern=('skip_quant',),
                 quantizable_op_type=('elementwise_add', 'pool2d'), is_full_quantized=False):
        self._scope, self._place = scope or global_scope(), place or core.CPUPlace()
        self._moving_rate, self._bits, self._skip = moving_rate, quant_bits, skip_pattern
        self._types = list(_ADDED) if is_full_quantized else _checked(quantizable_op_type, _ADDED, 'AddQuantDequantPass')

    def apply(self, graph):
        state = _state_in(self._scope, self._place)
        rewriter = Rewriter(state, graph.is_test(), self._moving_rate, 0)
        for block in _program_of(graph).blocks:
            rounded = {}
            for op in list(block.ops):
                names = list(dict.fromkeys(_get_op_input_var_names(op)))
                if op.type in self._types and not op._is_backward_op() and not skipped(op, self._skip):
                    variables = [block._var_recursive(name) for name in names]
                    if any(var.persistable for var in variables):
                        continue  # a bias is added there
                    for var in variables:
                        if var.name not in rounded:
                            rounded[var.name] = self._round(rewriter, state, block, op, var)
                elif not (op._is_backward_op() and op.type[:-len('_grad')] in self._types):
                    continue
                for name in names:
                    if name in rounded:
                        op._rename_input(name, rounded[name])
        return graph

    def _round(self, rewriter, state, block, op, var):
        out = like(block, var.name + '.quant_dequant', var)
        scale = state(block, out.name + '.scale', [1], var.dtype, 0.001)
        more_in, more_out = rewriter.averages(block, 'quant_dequant.')
        rewriter.in_front(block, op, 'fake_quantize_dequantize_moving_average_abs_max',
                          {'X': [var], 'InScale': [scale], **more_in}, {'Out': [out], 'OutScale': [scale], **more_out},
                          {'bit_length': self._bits, 'moving_rate': self._moving_rate, 'is_test': rewriter.is_test})
        return out.name




class OutScaleForTrainingPass:
    """Watches the largest numbers of results; OutScaleForInferencePass writes them down."""

    def __init__(self, scope=None, place=None, moving_rate=0.9):
        self._scope, self._place, self._moving_rate = scope or global_scope(), place or core.CPUPlace(), moving_rate

    def apply(self, graph):
        state = _state_in(self._scope, self._place)
        rewriter = Rewriter(state, graph.is_test(), self._moving_rate, 0)
        for block in _program_of(graph).blocks:
            for op in [op for op in block.ops if op.type in _OBSERVED and not op._is_backward_op()]:
                for name in _get_op_output_var_names(op):
                    var = block._var_recursive(name)
                    scale = state(block, name + '@scale', [1], var.dtype, 1.0)
                    more_in, more_out = rewriter.averages(block, 'out_scale.')
                    block._insert_op(op.idx + 1, type='moving_average_abs_max_scale', inputs={'X': [var], **more_in},
                                     outputs={'OutScale': [scale], **more_out},
                                     attrs={'moving_rate': self._moving_rate, 'is_test': graph.is_test()})
        return graph


class OutScaleForInferencePass:
    """Ops get what was watched of their results, as the attribute out_threshold."""

    def __init__(self, scope=None):
        self._scope = scope or global_scope()

    def apply(self, graph):
        for block in _program_of(graph).blocks:
            for op in block.ops:
                for name in _get_op_output_var_names(op) if op.type in _OBSERVED else ():
                    if self._scope.find_var(name + '@scale') is not None:
                        op._set_attr('out_threshold', float(load_variable_data(self._scope, name + '@scale')[0]))
        return graph
