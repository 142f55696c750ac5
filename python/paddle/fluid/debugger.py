"""Programs to look at: as text, and as pictures made by graphviz."""
import os
import shutil
import subprocess

from .desc import BlockDesc, ProgramDesc
from .framework import Block, Program
from .graphviz_text import block_text

__all__ = ['pprint_program_codes', 'pprint_block_codes', 'draw_block_graphviz']


def pprint_program_codes(program_desc):
    """Prints the blocks of a program, or of its desc."""
    program = program_desc._thing if isinstance(program_desc, ProgramDesc) else program_desc
    if not isinstance(program, Program):
        raise TypeError(f'pprint_program_codes takes a Program or its desc, got {type(program).__name__}')
    for block in program.blocks:
        pprint_block_codes(block)


def pprint_block_codes(block_desc, show_backward=False):
    """Prints one block; the ops of gradients and updates only with show_backward."""
    block = block_desc._thing if isinstance(block_desc, BlockDesc) else block_desc
    if not isinstance(block, Block):
        raise TypeError(f'pprint_block_codes takes a Block or its desc, got {type(block).__name__}')
    print(f'block {block.idx}, inside {block.parent_idx}')
    for var in block._var_list():
        if show_backward or '@GRAD' not in var.name:
            print('    ' + var._text())
    for op in block.ops:
        if show_backward or not (op._is_backward_op() or op._is_optimize_op()):
            print('    ' + op._text())


def draw_block_graphviz(block, highlights=None, path='./temp.dot'):
    """Writes the block as a graph to path, and a PDF beside it where graphviz is installed."""
    with open(path, 'w') as file:
        file.write(block_text(block, highlights or ()))
    if shutil.which('dot'):
        subprocess.run(['dot', '-Tpdf', path, '-o', os.path.splitext(path)[0] + '.pdf'], check=True)
