"""summary: the parameters and multiplications of a program, op by op."""
import math

from ..framework import Program

__all__ = ['summary']


def _product(extents):
    return math.prod(extent for extent in extents if extent > 0)


def _numbers(op, var):
    """(shape of the input, of the output, parameters, floating-point operations) of one op, or None."""
    if op.type in ('conv2d', 'depthwise_conv2d'):
        kernel, shown = var(op, 'Filter'), var(op, 'Output')
        with_bias = bool(op.input('Bias')) if 'Bias' in op.input_names else False
        count = _product(kernel) + (kernel[0] if with_bias else 0)
        return var(op, 'Input'), shown, count, 2 * _product(kernel[1:]) * _product(shown[1:])
    if op.type in ('mul', 'fc', 'matmul'):
        weight = var(op, 'W' if op.type == 'fc' else 'Y')
        shown = var(op, 'Out')
        return var(op, 'Input' if op.type == 'fc' else 'X'), shown, _product(weight), 2 * _product(weight)
    if op.type == 'pool2d':
        window = op.attr('ksize')
        shown = var(op, 'Out')
        return var(op, 'X'), shown, 0, _product(shown[1:]) * _product(window)
    if op.type == 'batch_norm':
        shape = var(op, 'X')
        return shape, var(op, 'Y'), 4 * _product(var(op, 'Scale')), 2 * _product(shape[1:])
    if op.type in ('relu', 'sigmoid', 'tanh', 'leaky_relu', 'prelu', 'relu6', 'softmax'):
        shape = var(op, 'X')
        return shape, var(op, 'Out'), 1 if op.type == 'prelu' else 0, _product(shape[1:])
    return None


def summary(main_prog):
    """Prints a table of the ops that compute, one row each, and the sums; returns (parameters, operations)."""
    if not isinstance(main_prog, Program):
        raise TypeError(f'summary needs a Program, got {type(main_prog).__name__}')
    rows = []
    for block in main_prog.blocks:
        def shape_of(op, slot, block=block):
            names = op.input(slot) if slot in op.input_names else op.output(slot)
            return list(block._var_recursive(names[0]).shape)
        for op in block.ops:
            numbers = _numbers(op, shape_of)
            if numbers:
                rows.append((op.type, *numbers))
    print(f'{"op":18} {"input":22} {"output":22} {"parameters":>12} {"operations":>16}')
    for kind, before, after, parameters, operations in rows:
        print(f'{kind:18} {str(tuple(before[1:])):22} {str(tuple(after[1:])):22} {parameters:12,} {operations:16,}')
    parameters, operations = sum(row[3] for row in rows), sum(row[4] for row in rows)
    print(f'parameters: {parameters:,}\noperations for one sample: {operations:,}')
    return parameters, operations
