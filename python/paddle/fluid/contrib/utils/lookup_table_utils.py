"""The tables of parameter servers in programs of one process: not built, and what serves instead."""

__all__ = ['load_persistables_for_increment', 'load_persistables_for_inference', 'convert_dist_to_sparse_program']

_NOT_BUILT = 'contrib.{} is not built in Trireme: {}'


def load_persistables_for_increment(dirname, executor, program, lookup_table_var, lookup_table_var_path):
    """Not built: fluid.io.load_persistables gives each server its part of all variables, tables too."""
    raise NotImplementedError(_NOT_BUILT.format(
        'load_persistables_for_increment', 'the table is among what fluid.io.save_persistables writes on a trainer; call '
        'fluid.io.load_persistables(executor, dirname, program), which gives each server its part of it'))


def load_persistables_for_inference(dirname, executor, program, lookup_table_var_name):
    """Not built: build the net with is_distributed=False, and load all with fluid.io.load_persistables."""
    raise NotImplementedError(_NOT_BUILT.format(
        'load_persistables_for_inference', 'the table is one variable among those of fluid.io.save_persistables; build the '
        'net with is_distributed=False and call fluid.io.load_persistables(executor, dirname, program)'))


def convert_dist_to_sparse_program(program):
    """Not built: the program from before the transpiler is the one that runs in one process."""
    raise NotImplementedError(_NOT_BUILT.format(
        'convert_dist_to_sparse_program', 'build the net again with is_distributed=False, or keep a clone from before '
        'DistributeTranspiler.transpile; its variables have the same names'))
