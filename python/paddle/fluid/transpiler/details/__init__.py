"""What transpilers of others have used."""
from .checkport import wait_server_ready
from .program_utils import delete_ops, find_op_by_output_arg, program_to_code
from .ufind import UnionFind
from .vars_distributed import VarDistributed, VarsDistributed

__all__ = ['wait_server_ready', 'delete_ops', 'find_op_by_output_arg', 'program_to_code',
           'UnionFind', 'VarDistributed', 'VarsDistributed']
