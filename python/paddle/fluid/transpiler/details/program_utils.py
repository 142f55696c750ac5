"""Small edits of programs, and programs as text."""
import sys


def delete_ops(block, ops):
    for op in ops:
        block._remove_op(block.ops.index(op))


def find_op_by_output_arg(block, arg_name, reverse=False):
    """Index of the first (reverse: the last) op that writes arg_name; -1: none does."""
    found = [i for i, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    if not found:
        return -1
    return found[-1] if reverse else found[0]


def program_to_code(prog, fout=None, skip_op_callstack=True):
    """Prints the program in readable form."""
    print(prog._text(), file=fout or sys.stdout)
