"""Values of variables by their names, and which slots of ops are quantised."""
import numpy

from ....core import CPUPlace

__all__ = ['load_variable_data', 'set_variable_data']

_channelwise_quant_axis1_ops = ['conv2d_transpose', 'mul']
# The operands and results that passes look at, by op.
_SLOTS = {'conv2d': (['Input', 'Filter'], ['Output']), 'depthwise_conv2d': (['Input', 'Filter'], ['Output']),
          'conv2d_transpose': (['Input', 'Filter'], ['Output'])}
_WEIGHTS = {'conv2d': 'Filter', 'depthwise_conv2d': 'Filter', 'conv2d_transpose': 'Filter', 'mul': 'Y', 'matmul': 'Y'}
_weight_supported_quantizable_op_type = sorted(_WEIGHTS)
_act_supported_quantizable_op_type = ['concat', 'elementwise_add', 'elementwise_mul', 'leaky_relu', 'pool2d', 'relu',
                                      'relu6', 'reshape2', 'sigmoid', 'softmax', 'tanh', 'transpose2']


def load_variable_data(scope, var_name):
    """A variable's value, as an array."""
    found = scope.find_var(var_name)
    if found is None:
        raise ValueError(f'{var_name} is not in the scope')
    return numpy.array(found.get_tensor())


def set_variable_data(scope, place, var_name, np_value):
    if not isinstance(np_value, numpy.ndarray):
        raise TypeError(f'{var_name} is set from an array, got {type(np_value).__name__}')
    scope.var(var_name).get_tensor().set(np_value, place or CPUPlace())


def _get_op_input_var_names(op):
    """The operands that passes look at; of a gradient op those of its forward op."""
    slots = _SLOTS.get(op.type.removesuffix('_grad'), (['X', 'Y'], None))[0]
    return [name for slot in slots if slot in op.input_names for name in op.input(slot)]


def _get_op_output_var_names(op):
    slots = _SLOTS.get(op.type, (None, ['Out']))[1]
    return [name for slot in slots if slot in op.output_names for name in op.output(slot)]


def quant_tensor(x, scale, quant_axis=0, weight_bits=8):
    """Whole numbers that stand for x: scale is one number, or one for each channel of quant_axis."""
    bound = (1 << (weight_bits - 1)) - 1
    scale = numpy.asarray(scale, x.dtype).reshape([-1 if d == quant_axis else 1 for d in range(x.ndim)]) \
        if numpy.size(scale) > 1 else float(numpy.reshape(scale, -1)[0])
    scaled = numpy.clip(x, -scale, scale) / numpy.where(numpy.equal(scale, 0), 1, scale) * bound
    return numpy.sign(scaled) * numpy.floor(numpy.abs(scaled) + 0.5)
