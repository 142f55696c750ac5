"""Programs that make the calls of the documents' samples, in their order, on 1 to 4 CPU places."""
import importlib
import inspect
import os
import pydoc
import socket

import numpy
import pytest

import paddle
import paddle.fluid as fluid
import paddle.fluid.transpiler  # noqa: F401
import paddle.static as static
from paddle.fluid import compiler

PLACES = [1, 2, 3, 4]
pytestmark = pytest.mark.usefixtures('environment')


def samples(rows):
    return numpy.random.random(size=(rows, 1)).astype('float32')


def test_compiled_program():
    paddle.enable_static()
    exe = static.Executor(paddle.CPUPlace())
    data = static.data(name='X', shape=[None, 1], dtype='float32')
    hidden = static.nn.fc(x=data, size=10)
    loss = paddle.mean(hidden)
    paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)

    exe.run(static.default_startup_program())
    compiled_prog = static.CompiledProgram(static.default_main_program())
    loss_data, = exe.run(compiled_prog, feed={"X": samples(10)}, fetch_list=[loss.name])
    assert loss_data.shape == (1,)


@pytest.mark.parametrize('places', PLACES)
def test_with_data_parallel(places):
    paddle.enable_static()
    parallel_places = [paddle.CPUPlace()] * places
    os.environ['CPU_NUM'] = str(places)
    exe = static.Executor(paddle.CPUPlace())
    data = static.data(name='X', shape=[None, 1], dtype='float32')
    hidden = static.nn.fc(x=data, size=10)
    loss = paddle.mean(hidden)
    test_program = static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)

    exe.run(static.default_startup_program())
    compiled_train_prog = static.CompiledProgram(
        static.default_main_program()).with_data_parallel(
            loss_name=loss.name, places=parallel_places)
    compiled_test_prog = static.CompiledProgram(
        test_program).with_data_parallel(
            share_vars_from=compiled_train_prog, places=parallel_places)

    loss_data, = exe.run(compiled_train_prog, feed={"X": samples(10)}, fetch_list=[loss.name])
    assert loss_data.shape == (places,)
    test_data = samples(10)
    before, = exe.run(compiled_test_prog, feed={"X": test_data}, fetch_list=[loss.name])
    assert before.shape == (places,)
    exe.run(compiled_train_prog, feed={"X": samples(10)}, fetch_list=[loss.name])
    after, = exe.run(compiled_test_prog, feed={"X": test_data}, fetch_list=[loss.name])
    assert (after < before).all()  # the test program uses the parameters that were trained


@pytest.mark.parametrize('places', PLACES)
def test_parallel_executor(places):
    os.environ['CPU_NUM'] = str(places)
    exe = fluid.Executor(fluid.CPUPlace())
    train_program = fluid.Program()
    startup_program = fluid.Program()
    with fluid.program_guard(train_program, startup_program):
        data = fluid.layers.data(name='X', shape=[1], dtype='float32')
        hidden = fluid.layers.fc(input=data, size=10)
        loss = fluid.layers.mean(hidden)
        test_program = fluid.default_main_program().clone(for_test=True)
        fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)

    exe.run(startup_program)
    train_exe = fluid.ParallelExecutor(use_cuda=False, main_program=train_program,
                                       loss_name=loss.name)
    test_exe = fluid.ParallelExecutor(use_cuda=False, main_program=test_program,
                                      share_vars_from=train_exe)
    loss_data, = train_exe.run(feed={"X": samples(10)}, fetch_list=[loss.name])
    assert loss_data.shape == (places,)
    loss_data, = test_exe.run(feed={"X": samples(10)}, fetch_list=[loss.name])
    assert loss_data.shape == (places,)


@pytest.mark.parametrize('places', PLACES)
def test_parallel_executor_feeds(places):
    os.environ['CPU_NUM'] = str(places)
    exe = fluid.Executor(fluid.CPUPlace())
    train_program = fluid.Program()
    startup_program = fluid.Program()
    with fluid.program_guard(train_program, startup_program):
        data = fluid.layers.data(name='X', shape=[1], dtype='float32')
        hidden = fluid.layers.fc(input=data, size=10)
        loss = fluid.layers.mean(hidden)
        fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
        exe.run(startup_program)
        train_exe = fluid.ParallelExecutor(use_cuda=False, main_program=train_program,
                                           loss_name=loss.name)

    # A dict is split; with 2 places each has a piece of shape (5, 1).
    loss_data, pieces = train_exe.run(feed={"X": samples(10)}, fetch_list=[loss.name, "X"])
    assert loss_data.shape == (places,)
    assert pieces.shape == (10, 1)
    # A list has a dict for each place; their sizes may differ.
    assert train_exe.device_count == places
    feed = [{"X": samples(10 - place)} for place in range(train_exe.device_count)]
    loss_data, = train_exe.run(feed=feed, fetch_list=[loss.name])
    assert loss_data.shape == (places,)


@pytest.mark.parametrize('places', PLACES)
def test_drop_local_exe_scopes(places):
    os.environ['CPU_NUM'] = str(places)
    train_program = fluid.Program()
    startup_program = fluid.Program()
    with fluid.program_guard(train_program, startup_program):
        data = fluid.layers.data(name='X', shape=[1], dtype='float32')
        hidden = fluid.layers.fc(input=data, size=10)
        loss = fluid.layers.mean(hidden)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup_program)
    parallel_exe = fluid.ParallelExecutor(use_cuda=False, main_program=train_program,
                                          loss_name=loss.name)  # accepted without a backward part
    x = samples(10)
    loss_data, = parallel_exe.run(feed={"X": x}, fetch_list=[loss.name])
    assert loss_data.shape == (places,)
    parallel_exe.drop_local_exe_scopes()
    again, = parallel_exe.run(feed={"X": x}, fetch_list=[loss.name])
    numpy.testing.assert_array_equal(again, loss_data)


@pytest.mark.parametrize('places', PLACES)
@pytest.mark.parametrize('memory_opt', [True, False])
def test_guide(places, memory_opt):
    """The guide's sample defines no net, no feed and no imports, and overwrites loss."""
    os.environ['CPU_NUM'] = str(places)
    data = fluid.layers.data(name='X', shape=[1], dtype='float32')
    loss = fluid.layers.mean(fluid.layers.fc(input=data, size=10))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    feed_dict = {'X': samples(10)}

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    loss_data = exe.run(fluid.default_main_program(), feed=feed_dict, fetch_list=[loss.name])
    assert loss_data[0].shape == (1,)

    exec_strategy = fluid.ExecutionStrategy()
    exec_strategy.num_threads = places * 4
    build_strategy = fluid.BuildStrategy()
    build_strategy.memory_optimize = True if memory_opt else False
    compiled_prog = compiler.CompiledProgram(
        fluid.default_main_program()).with_data_parallel(
            loss_name=loss.name, build_strategy=build_strategy, exec_strategy=exec_strategy)
    loss_data, = exe.run(compiled_prog, feed=feed_dict, fetch_list=[loss.name])
    assert loss_data.shape == (places,)


def small_net():
    data = fluid.layers.data(name='X', shape=[1], dtype='float32')
    loss = fluid.layers.mean(fluid.layers.fc(input=data, size=10))
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    return loss


@pytest.mark.parametrize('role', ['PSERVER', 'TRAINER'])
def test_transpiler_for_parameter_servers(role, recwarn):
    """The sample's endpoints, 192.168.0.1 and .2, are two listeners here: a trainer waits for them."""
    small_net()
    listeners = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    endpoints = [f'127.0.0.1:{listener.getsockname()[1]}' for listener in listeners]
    pserver_endpoints = ",".join(endpoints)
    current_endpoint = endpoints[0]
    t = fluid.DistributeTranspiler()
    t.transpile(0, pservers=pserver_endpoints, trainers=4)
    if role == "PSERVER":
        pserver_program = t.get_pserver_program(current_endpoint)
        pserver_startup_program = t.get_startup_program(current_endpoint, pserver_program)
        assert 'listen_and_serv' in [op.type for op in pserver_program.global_block().ops]
        assert pserver_startup_program.global_block().ops
    else:
        trainer_program = t.get_trainer_program()
        assert 'send' in [op.type for op in trainer_program.global_block().ops]
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize('places', PLACES)
def test_transpiler_for_nccl2(places):
    """The sample gives the list as workers, which is not in transpile's printed signature."""
    os.environ['CPU_NUM'] = str(places)
    loss_var = small_net()
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    t = fluid.DistributeTranspiler(config=config)
    workers = "192.168.0.1:6174"
    t.transpile(0, workers=workers, current_endpoint="192.168.0.1:6174")
    exe = fluid.ParallelExecutor(False, loss_name=loss_var.name,
                                 num_trainers=len(workers.split(",")), trainer_id=0)
    loss_data, = exe.run([loss_var.name], feed={'X': samples(10)})
    assert loss_data.shape == (places,)


def test_transpiler_for_nccl2_with_two_trainers_says_what_is_missing():
    loss_var = small_net()
    config = fluid.DistributeTranspilerConfig()
    config.mode = "nccl2"
    t = fluid.DistributeTranspiler(config=config)
    workers = "192.168.0.1:6174,192.168.0.2:6174"
    t.transpile(0, workers=workers, current_endpoint="192.168.0.1:6174")
    with pytest.raises(NotImplementedError, match='several processes'):
        fluid.ParallelExecutor(False, loss_name=loss_var.name,
                               num_trainers=len(workers.split(",")), trainer_id=0)


transpiler = fluid.transpiler
DOCUMENTED = [
    (static.CompiledProgram, '(program_or_graph, build_strategy=None)'),
    (static.CompiledProgram.with_data_parallel,
     '(loss_name=None, build_strategy=None, exec_strategy=None, share_vars_from=None, places=None)'),
    (fluid.ParallelExecutor,
     '(use_cuda, loss_name=None, main_program=None, share_vars_from=None, exec_strategy=None, '
     'build_strategy=None, num_trainers=1, trainer_id=0, scope=None)'),
    (fluid.ParallelExecutor.run, '(fetch_list, feed=None, feed_dict=None, return_numpy=True)'),
    (fluid.ParallelExecutor.drop_local_exe_scopes, '()'),
    (transpiler.DistributeTranspiler, '(config=None)'),
    (transpiler.DistributeTranspiler.transpile,
     "(trainer_id, program=None, pservers='127.0.0.1:6174', trainers=1, sync_mode=True, "
     "startup_program=None, current_endpoint='127.0.0.1:6174')"),
    (transpiler.DistributeTranspiler.get_trainer_program, '(wait_port=True)'),
    (transpiler.DistributeTranspiler.get_pserver_program, '(endpoint)'),
    (transpiler.DistributeTranspiler.get_pserver_programs, '(endpoint)'),
    (transpiler.DistributeTranspiler.get_startup_program,
     '(endpoint, pserver_program=None, startup_program=None)'),
    (transpiler.HashName, '(pserver_endpoints)'),
    (transpiler.RoundRobin, '(pserver_endpoints)'),
    (transpiler.memory_optimize,
     '(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=False)'),
    (transpiler.release_memory, '(input_program, skip_opt_set=None)'),
]


@pytest.mark.parametrize('callable_, printed', DOCUMENTED, ids=lambda x: getattr(x, '__qualname__', ''))
def test_signatures_are_as_printed(callable_, printed):
    signature = inspect.signature(callable_)
    # What a sample uses beyond the printed signature can only be given by name.
    shown = [p for p in signature.parameters.values() if p.name != 'self' and p.kind != p.KEYWORD_ONLY]
    assert str(signature.replace(parameters=shown)) == printed
    assert all(p.name in pydoc.render_doc(callable_) for p in shown)


def test_both_names_are_one_class():
    assert static.ParallelExecutor is fluid.ParallelExecutor
    assert static.CompiledProgram is fluid.CompiledProgram is fluid.compiler.CompiledProgram
    module = importlib.import_module('paddle.fluid.parallel_executor')
    assert module.ParallelExecutor is fluid.ParallelExecutor
    assert static.BuildStrategy is fluid.BuildStrategy
    assert static.ExecutionStrategy is fluid.ExecutionStrategy


def test_transpiler_config_has_the_documented_fields():
    config = fluid.transpiler.DistributeTranspilerConfig()
    assert config.slice_var_up is True
    config.split_method = fluid.transpiler.HashName
    assert isinstance(config.min_block_size, int)
