"""memory_usage: what the variables that a program computes take at a batch size, as the original counts them."""
import _trireme as _C

from ..framework import Program

__all__ = ['memory_usage']

_BYTES = {'float64': 8, 'int64': 8, 'float32': 4, 'int32': 4, 'float16': 2, 'bfloat16': 2, 'int16': 2, 'int8': 1,
          'uint8': 1, 'bool': 1}


def memory_usage(program, batch_size):
    """(low, high, unit): every result of an op once, 5% to 10% more. It shares no memory between variables that do
    not live at a time; CompiledProgram.memory says what a step takes here, which is less."""
    if not isinstance(program, Program):
        raise TypeError(f'memory_usage needs a Program, got {type(program).__name__}')
    if batch_size <= 0:
        raise ValueError(f'batch_size must be positive, got {batch_size}')
    total = 0.0
    block = program.global_block()
    for name in {name for op in block.ops for name in op.output_arg_names}:
        var = block._find_var_recursive(name)
        if var is None or not var._has_shape:
            continue
        elements = 1
        for extent in var.shape:
            elements *= batch_size if extent < 0 else extent
        total += elements * _BYTES[_C.dtype_name(var.dtype)]
    unit = 'B'
    for larger in ('KB', 'MB'):
        if total >= 1024:
            total, unit = total / 1024, larger
    return total * 1.05, total * 1.1, unit
