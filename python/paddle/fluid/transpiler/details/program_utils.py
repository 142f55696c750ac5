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


def find_op_by_input_arg(block, arg_name):
    """Index of the first op that reads arg_name; -1: none does."""
    return next((i for i, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def op_to_code(op, skip_op_callstack=True):
    """The op on one line."""
    return op._text()


def variable_to_code(var):
    """The variable on one line."""
    return var._text()


def block_to_code(block, block_idx, fout=None, indent=0, skip_op_callstack=True):
    """Prints one block."""
    text = block._text()
    print('\n'.join(get_indent_space(indent) + line for line in text.splitlines()), file=fout or sys.stdout)


def get_indent_space(indent, space_num=4):
    return ' ' * (indent * space_num)


def program_to_code(prog, fout=None, skip_op_callstack=True):
    """Prints the program in readable form."""
    print(prog._text(), file=fout or sys.stdout)
