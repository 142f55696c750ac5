"""What transpilers of others have used."""
from .checkport import wait_server_ready
from .program_utils import (block_to_code, delete_ops, find_op_by_input_arg, find_op_by_output_arg,
                            get_indent_space, op_to_code, program_to_code, variable_to_code)
from .ufind import UnionFind
from .vars_distributed import VarDistributed, VarsDistributed, VarStruct

__all__ = ['wait_server_ready', 'block_to_code', 'delete_ops', 'find_op_by_input_arg', 'find_op_by_output_arg',
           'get_indent_space', 'op_to_code', 'program_to_code', 'variable_to_code', 'UnionFind', 'VarDistributed',
           'VarStruct', 'VarsDistributed']
