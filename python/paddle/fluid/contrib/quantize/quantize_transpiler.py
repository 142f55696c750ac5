"""QuantizeTranspiler: quantised training of a Program, with scales that its startup program makes."""
from ... import core
from ...executor import global_scope
from ...framework import default_main_program, default_startup_program
from ..slim.quantization.rewrite import ACTIVATION_TYPES, Freezer, Rewriter, to_int8

__all__ = ['QuantizeTranspiler']

_TYPES = ('conv2d', 'depthwise_conv2d', 'mul')
# What ops that round read in training alone: the test program's own are never filled.
_TRAINED = ('Iter', 'InScales', 'InAccum', 'InState')


def _original_var_name(var_name):
    """The variable that a rounded one stands for."""
    for suffix in ('.quantized.dequantized', '.quantized', '.dequantized', '.scale'):
        if var_name.endswith(suffix):
            return var_name[:-len(suffix)]
    return var_name


class QuantizeTranspiler:
    def __init__(self, weight_bits=8, activation_bits=8, activation_quantize_type='abs_max',
                 weight_quantize_type='abs_max', window_size=10000, moving_rate=0.9):
        for kind in (activation_quantize_type, weight_quantize_type):
            if kind not in ACTIVATION_TYPES:
                raise ValueError(f'a quantize type is {kind!r}; choose from {", ".join(ACTIVATION_TYPES)}')
        self._kinds = activation_quantize_type, weight_quantize_type
        self._bits = activation_bits, weight_bits
        self._window_size, self._moving_rate = window_size, moving_rate

    def training_transpile(self, program=None, startup_program=None):
        """Rounds what convolutions and matrix products of the program read, in its gradients too."""
        program = default_main_program() if program is None else program
        startup = (default_startup_program() if startup_program is None else startup_program).global_block()

        def state(block, name, shape, dtype, value):
            facts = dict(name=name, shape=shape, dtype=dtype, persistable=True)
            made = startup.create_var(**facts)
            startup.append_op(type='fill_constant', outputs={'Out': [made]},
                              attrs={'shape': shape, 'dtype': dtype, 'value': float(value)})
            if name.endswith('.scale'):  # all_parameters lists it: save_params and load_params take it along
                return block.program.global_block().create_parameter(name=name, shape=shape, dtype=dtype, trainable=False)
            return block.create_var(stop_gradient=True, **facts)
        Rewriter(state, False, self._moving_rate, self._window_size).insert(
            program, self._kinds, _TYPES, self._bits, None)

    def freeze_program(self, program, place, scope=None):
        """The test program (a clone of the transpiled one) on whole numbers; weights in the scope hold them then."""
        for block in program.blocks:
            for op in block.ops:
                if op.type.startswith('fake_') and op.has_attr('is_test'):
                    op._set_attr('is_test', True)
                    for slot in _TRAINED:
                        if slot in op.input_names:
                            op.desc.set_input(slot, [])
        Freezer(scope or global_scope(), place or core.CPUPlace(), self._bits, _TYPES).apply(program)

    def convert_to_int8(self, program, place, scope=None):
        """Weights of a frozen program become int8 variables."""
        to_int8(program, scope or global_scope(), place or core.CPUPlace(), _TYPES)
