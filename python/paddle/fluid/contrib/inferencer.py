"""Inferencer: a net with parameters that a Trainer saved."""
from .. import core, io, unique_name
from ..compiler import CompiledProgram
from ..executor import Executor, scope_guard
from ..framework import Program, program_guard
from .trainer import check_and_get_place

__all__ = ['Inferencer']


class Inferencer:
    """infer_func() builds the net and returns what is inferred."""

    def __init__(self, infer_func, param_path, place=None, parallel=False):
        self.param_path, self.scope, self.parallel = param_path, core.Scope(), parallel
        self.place = check_and_get_place(place)
        program = Program()
        with program_guard(program, Program()), unique_name.guard():
            self.predict_var = infer_func()
        self.exe = Executor(self.place)
        with scope_guard(self.scope):
            io.load_params(self.exe, param_path, program)
        self.inference_program = program.clone(for_test=True)
        if parallel:
            self.inference_program = CompiledProgram(self.inference_program).with_data_parallel()

    def infer(self, inputs, return_numpy=True):
        """inputs: name -> value of the data variables. Returns a list with what infer_func returned."""
        if not isinstance(inputs, dict):
            raise ValueError(f'inputs must be a dict of names and values, got {type(inputs).__name__}')
        with scope_guard(self.scope):
            return self.exe.run(self.inference_program, feed=inputs, fetch_list=[self.predict_var.name],
                                return_numpy=return_numpy)
