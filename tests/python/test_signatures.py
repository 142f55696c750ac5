"""Signatures of what the documents describe: names, order and defaults as printed there, in
inspect.signature and in help()."""
import inspect
import io
import pydoc

import pytest

import paddle
import paddle.fluid as fluid

ENDPOINT = "'127.0.0.1:6174'"
COMPILED = 'program_or_graph, build_strategy=None'
DATA_PARALLEL = ('loss_name=None, build_strategy=None, exec_strategy=None, share_vars_from=None, '
                 'places=None')

# What is called; how it is reached; its documented parameters.
DOCUMENTED = [
    ('paddle.static.CompiledProgram', paddle.static.CompiledProgram, COMPILED),
    ('fluid.CompiledProgram', fluid.CompiledProgram, COMPILED),
    ('fluid.compiler.CompiledProgram', fluid.compiler.CompiledProgram, COMPILED),
    ('CompiledProgram.with_data_parallel', paddle.static.CompiledProgram.with_data_parallel,
     DATA_PARALLEL),
    ('fluid.CompiledProgram.with_data_parallel', fluid.CompiledProgram.with_data_parallel,
     DATA_PARALLEL),
    ('fluid.ParallelExecutor', fluid.ParallelExecutor,
     'use_cuda, loss_name=None, main_program=None, share_vars_from=None, exec_strategy=None, '
     'build_strategy=None, num_trainers=1, trainer_id=0, scope=None'),
    ('ParallelExecutor.run', fluid.ParallelExecutor.run,
     'fetch_list, feed=None, feed_dict=None, return_numpy=True'),
    ('ParallelExecutor.drop_local_exe_scopes', fluid.ParallelExecutor.drop_local_exe_scopes, ''),
    ('fluid.transpiler.DistributeTranspiler', fluid.transpiler.DistributeTranspiler,
     'config=None'),
    ('fluid.DistributeTranspiler', fluid.DistributeTranspiler, 'config=None'),
    ('DistributeTranspiler.transpile', fluid.DistributeTranspiler.transpile,
     f'trainer_id, program=None, pservers={ENDPOINT}, trainers=1, sync_mode=True, '
     f'startup_program=None, current_endpoint={ENDPOINT}'),
    ('DistributeTranspiler.get_trainer_program', fluid.DistributeTranspiler.get_trainer_program,
     'wait_port=True'),
    ('DistributeTranspiler.get_pserver_program', fluid.DistributeTranspiler.get_pserver_program,
     'endpoint'),
    ('DistributeTranspiler.get_pserver_programs', fluid.DistributeTranspiler.get_pserver_programs,
     'endpoint'),
    ('DistributeTranspiler.get_startup_program', fluid.DistributeTranspiler.get_startup_program,
     'endpoint, pserver_program=None, startup_program=None'),
    ('fluid.transpiler.DistributeTranspilerConfig', fluid.transpiler.DistributeTranspilerConfig,
     ''),
    ('fluid.transpiler.HashName', fluid.transpiler.HashName, 'pserver_endpoints'),
    ('fluid.transpiler.RoundRobin', fluid.transpiler.RoundRobin, 'pserver_endpoints'),
    ('fluid.transpiler.memory_optimize', fluid.transpiler.memory_optimize,
     'input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=False'),
    ('fluid.memory_optimize', fluid.memory_optimize,
     'input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=False'),
    ('fluid.transpiler.release_memory', fluid.transpiler.release_memory,
     'input_program, skip_opt_set=None'),
    ('fluid.release_memory', fluid.release_memory, 'input_program, skip_opt_set=None'),
]


def shown(called):
    signature = inspect.signature(called)
    parameters = [parameter.replace(annotation=inspect.Parameter.empty)
                  for parameter in signature.parameters.values() if parameter.name != 'self']
    return str(inspect.Signature(parameters))[1:-1]


@pytest.mark.parametrize('name, called, parameters', DOCUMENTED, ids=[d[0] for d in DOCUMENTED])
def test_signature_is_the_documents(name, called, parameters):
    assert shown(called) == parameters


@pytest.mark.parametrize('name, called, parameters', DOCUMENTED, ids=[d[0] for d in DOCUMENTED])
def test_help_shows_parameters_and_says_something(name, called, parameters):
    assert inspect.getdoc(called)
    out = io.StringIO()
    pydoc.Helper(output=out)(called)
    for parameter in filter(None, parameters.split(', ')):
        assert parameter in out.getvalue()
