"""op_freq_statistic: which ops a program has, and which follow each other."""
import collections

from ..framework import Program

__all__ = ['op_freq_statistic']


def op_freq_statistic(program):
    """([(op, how often)], [(op->op, how often)]), the most frequent first; a pair is an op and one that reads from it."""
    if not isinstance(program, Program):
        raise TypeError(f'op_freq_statistic needs a Program, got {type(program).__name__}')
    single, pairs = collections.Counter(), collections.Counter()
    parameters = {param.name for param in program.all_parameters()}
    written = {}
    for op in program.global_block().ops:
        single[op.type] += 1
        for name in op.input_arg_names:
            if name in written and name not in parameters:
                pairs[f'{written[name]}->{op.type}'] += 1
        written.update(dict.fromkeys(op.output_arg_names, op.type))
    return single.most_common(), pairs.most_common()
