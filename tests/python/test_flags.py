"""Every flag that is called honoured changes what a user sees; docs/flags.md says of each what it does."""
import ast
import ctypes
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import _trireme as _C
import paddle.fluid as fluid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FLAGS = _C.list_flags()


# What is seen with a flag as it stands: each builds what it needs anew.

def problem(call, *errors):
    try:
        call()
    except errors as error:
        return str(error).splitlines()[0]
    return 'none'


def run(build, feed, **options):
    """What a program of its own gives for a feed."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        out = build()
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        return exe.run(main, feed=feed, fetch_list=[out], **options)[0]


def nan_is_found():
    def negative():
        return fluid.layers.log(fluid.data('x', [2]))
    return problem(lambda: run(negative, {'x': -np.ones(2, 'float32')}), RuntimeError) != 'none'


def passes_are_compared():
    """Numbers that differ from run to run look like those of a wrong pass."""
    calls = []

    def build():
        out = fluid.default_main_program().current_block().create_var('out', dtype='float32', shape=[2])
        return fluid.layers.py_func(lambda x: calls.append(1) or np.array(x) + len(calls),
                                    fluid.data('x', [2]), out)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        run(build, {'x': np.ones(2, 'float32')})
    return any('passes changed numbers' in str(warning.message) for warning in seen)


def kernel_of_a_convolution():
    """Of sizes that Winograd's algorithm is taken for."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        image = fluid.data('image', [32, 64, 32, 32])
        out = fluid.layers.conv2d(image, 64, 3, padding=1, bias_attr=False)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        compiled = fluid.CompiledProgram(main)
        exe.run(compiled, feed={'image': np.ones([32, 64, 32, 32], 'float32')}, fetch_list=[out])
        algorithm = re.search('onednn (direct|winograd)', compiled.explain())
        return algorithm.group(1) if algorithm else 'direct'  # without oneDNN there is no other


def memory_nobody_wrote():
    """Behind the one element of a tensor, in its line of memory."""
    tensor = fluid.LoDTensor()
    tensor.set(np.zeros(1, 'float32'), fluid.CPUPlace())
    return ctypes.string_at(tensor._ptr() + 4, 4) == b'\xff' * 4


def threads():
    run(lambda: fluid.layers.fc(fluid.data('x', [512, 512]), 512), {'x': np.ones([512, 512], 'float32')})
    return len(os.listdir('/proc/self/task'))


def transpiled():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        out = fluid.layers.fc(fluid.data('x', [None, 4]), 1)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(out))
        transpiler = fluid.DistributeTranspiler()
        transpiler.transpile(0, program=main, startup_program=startup, pservers='127.0.0.1:1', trainers=1)
    return transpiler, startup


def how_long_a_run_waits():
    """For a server that is not there."""
    transpiler, startup = transpiled()
    transpiler.get_trainer_program()
    return problem(lambda: fluid.Executor(fluid.CPUPlace()).run(startup), Exception)


def server_threads(use):
    def written():
        serve = transpiled()[0].get_pserver_program('127.0.0.1:1').global_block().ops[-1]
        return serve.attr('rpc_%s_thread_num' % use)
    return written


def what_a_gpu_needs():
    return problem(lambda: fluid.Executor(fluid.CUDAPlace(0)).run(fluid.Program()), RuntimeError)


def shares_of_a_batch():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data('x', [None, 1])
        out = fluid.layers.scale(x, 2.0)
    compiled = fluid.CompiledProgram(program).with_data_parallel(places=[fluid.CPUPlace()] * 2)
    pieces = fluid.Executor(fluid.CPUPlace()).run(
        compiled, feed={'x': np.ones([5, 1], 'float32')}, fetch_list=[out], return_merged=False)[0]
    return [len(piece) for piece in pieces]


def numbers_of_a_seed():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        drawn = fluid.layers.uniform_random([3], seed=5)
    return fluid.Executor(fluid.CPUPlace()).run(main, fetch_list=[drawn])[0].tolist()


# Flag: two values, and what must differ between them.
SEEN = {
    'FLAGS_check_nan_inf': (False, True, nan_is_found),
    'FLAGS_check_passes': (False, True, passes_are_compared),
    'FLAGS_conv_winograd': (True, False, kernel_of_a_convolution),
    'FLAGS_fast_check_nan_inf': (False, True, nan_is_found),
    'FLAGS_gpu_library': ('nowhere.so', 'elsewhere.so', what_a_gpu_needs),
    'FLAGS_init_allocated_mem': (False, True, memory_nobody_wrote),
    'FLAGS_original_random': (False, True, numbers_of_a_seed),
    'FLAGS_paddle_num_threads': (1, 5, threads),
    'FLAGS_rpc_deadline': (20, 50, how_long_a_run_waits),
    'FLAGS_rpc_get_thread_num': (12, 5, server_threads('get')),
    'FLAGS_rpc_prefetch_thread_num': (12, 5, server_threads('prefetch')),
    'FLAGS_rpc_send_thread_num': (12, 5, server_threads('send')),
    'FLAGS_split_by_chunks': (False, True, shares_of_a_batch),
}


# Those that need more than a process of their own: which test sees them.
SEEN_THERE = {
    'FLAGS_allow_tf32': 'cuda/cuda_nets_test.cc',
    'FLAGS_collective_limit': 'python/test_ranks_end.py',
    'FLAGS_drop_answers': 'python/test_ps_sync.py',
    'FLAGS_hang_watchdog': 'python/test_ps_ends.py',
    'FLAGS_heartbeat_limit': 'python/test_ps_ends.py',
    'FLAGS_job_token': 'python/test_ps_tables.py',
    'FLAGS_lost_trainer': 'python/test_ps_ends.py',
    'FLAGS_plaintext': 'python/test_ps_tables.py',
    'FLAGS_selected_gpus': 'python/test_gpus.py',
    'FLAGS_server_return_limit': 'python/test_ps_recovery.py',
    'FLAGS_server_snapshot': 'python/test_ps_recovery.py',
    'FLAGS_table_directory': 'python/test_ps_rows.py',
    'FLAGS_table_memory': 'python/test_ps_rows.py',
    'FLAGS_server_snapshot_seconds': 'python/test_ps_recovery.py',
    'FLAGS_tls_authority': 'python/test_tls.py',
    'FLAGS_tls_certificate': 'python/test_tls.py',
    'FLAGS_tls_key': 'python/test_tls.py',
}


def test_nothing_is_called_honoured_that_is_not_seen():
    assert {flag['name'] for flag in FLAGS if flag['use'] == 'honoured'} == set(SEEN) | set(SEEN_THERE)
    for name, test in SEEN_THERE.items():
        with open(os.path.join(ROOT, 'tests', test)) as file:
            assert name.removeprefix('FLAGS_') in file.read(), f'{test} does not set {name}'


@pytest.mark.parametrize('name', SEEN)
def test_an_honoured_flag_changes_what_is_seen(name):
    """In a process of its own: flags are the process's, and some cannot be taken back."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), name], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}, timeout=120)
    assert done.returncode == 0, done.stderr
    one, other = ast.literal_eval(done.stdout.splitlines()[-1])
    if name == 'FLAGS_conv_winograd' and one == 'direct':
        pytest.skip('this machine has no kernels for Winograd\'s algorithm')
    assert one != other, one


def test_the_document_is_printed_from_the_table():
    sys.path.insert(0, os.path.join(ROOT, 'tools'))
    import flag_docs
    assert open(os.path.join(ROOT, 'docs', 'flags.md')).read() == flag_docs.page(), 'make docs writes it'


if __name__ == '__main__':
    first, second, see = SEEN[sys.argv[1]]
    found = []
    for value in (first, second):
        fluid.set_flags({sys.argv[1]: value})
        found.append(see())
    print(found)
