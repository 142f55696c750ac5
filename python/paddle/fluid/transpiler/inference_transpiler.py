"""InferenceTranspiler, for programs of the first releases."""
from ..executor import global_scope
from ..framework import Program

__all__ = ['InferenceTranspiler']


class InferenceTranspiler:
    """Once fused ops of a program in place. Plans fuse what they can when a program is compiled, so there is nothing
    to rewrite, and the program stays as it is."""

    def transpile(self, program, place, scope=None):
        if not isinstance(program, Program):
            raise TypeError(f'program must be a Program, got {type(program).__name__}')
        if not isinstance(scope or global_scope(), type(global_scope())):
            raise TypeError(f'scope must be a Scope, got {type(scope).__name__}')
