"""What the documents of CompiledProgram, ParallelExecutor and DistributeTranspiler promise, on CPU places.

Every way to call them that the documents show is here, and every loss is compared with numpy's.
"""
import importlib
import inspect
import pydoc
import socket

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
import paddle.fluid.transpiler  # noqa: F401
import paddle.static as static
from paddle.fluid import compiler
from parallel_toy import value

PLACES = [1, 2, 3, 4]
pytestmark = pytest.mark.usefixtures('environment')


@pytest.fixture
def on_cpus(monkeypatch):
    """on_cpus(n): the environment says that there are n CPU devices."""
    return lambda count: monkeypatch.setenv('CPU_NUM', str(count))


def rows(count):
    """Three features a row, other ones for each count."""
    return np.random.RandomState(count).uniform(-1, 1, (count, 3)).astype('float32')


def loss_of(features):
    """What the nets below compute with the parameters of now."""
    return np.mean(np.square(features @ value('fc_0.w_0') + value('fc_0.b_0')))


def losses_of(features, places):
    """The same, of each place's share of the rows."""
    ends = [len(features) * place // places for place in range(places + 1)]
    return [loss_of(features[begin:end]) for begin, end in zip(ends, ends[1:])]


def in_static():
    """(executor that has started it, loss, program to test with), built with the names of paddle.static."""
    paddle.enable_static()
    x = static.data(name='features', shape=[None, 3], dtype='float32')
    loss = paddle.mean(paddle.square(static.nn.fc(x=x, size=4)))
    for_test = static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(learning_rate=0.1).minimize(loss)
    starter = static.Executor(paddle.CPUPlace())
    starter.run(static.default_startup_program())
    return starter, loss, for_test


def in_fluid(train=True):
    """(main program, program to test with, loss), with the names of paddle.fluid; started."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data(name='features', shape=[3], dtype='float32')
        loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(input=x, size=4)))
        for_test = fluid.default_main_program().clone(for_test=True)
        if train:
            fluid.optimizer.SGD(learning_rate=0.1).minimize(loss)
    fluid.Executor(fluid.CPUPlace()).run(startup)
    return main, for_test, loss


def test_a_compiled_program_runs_as_the_program_would():
    runner, loss, _ = in_static()
    once = static.CompiledProgram(static.default_main_program())
    expected = loss_of(rows(10))
    got, = runner.run(once, feed={'features': rows(10)}, fetch_list=[loss.name])
    assert got.shape == (1,)
    np.testing.assert_allclose(got, [expected], rtol=1e-5)
    assert loss_of(rows(10)) < expected  # and it has learnt


@pytest.mark.parametrize('places', PLACES)
def test_a_test_program_shares_what_training_changes(places, on_cpus):
    on_cpus(places)
    runner, loss, for_test = in_static()
    where = [paddle.CPUPlace()] * places
    train = static.CompiledProgram(static.default_main_program()).with_data_parallel(
        places=where, loss_name=loss.name)
    test = static.CompiledProgram(for_test).with_data_parallel(places=where, share_vars_from=train)
    for _ in range(3):
        for compiled, count in ((train, 10), (test, 9)):
            expected = losses_of(rows(count), places)
            got, = runner.run(compiled, feed={'features': rows(count)}, fetch_list=[loss.name])
            np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize('places', PLACES)
def test_parallel_executors_share_what_training_changes(places, on_cpus):
    on_cpus(places)
    main, for_test, loss = in_fluid()
    train = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name, main_program=main)
    test = fluid.ParallelExecutor(use_cuda=False, share_vars_from=train, main_program=for_test)
    for _ in range(3):
        for executor, count in ((train, 10), (test, 9)):
            expected = losses_of(rows(count), places)
            got, = executor.run(fetch_list=[loss.name], feed={'features': rows(count)})
            np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize('places', PLACES)
def test_a_dict_is_split_and_a_list_has_a_dict_for_each_place(places, on_cpus):
    on_cpus(places)
    main, _, loss = in_fluid()
    parallel = fluid.ParallelExecutor(use_cuda=False, main_program=main, loss_name=loss.name)
    assert parallel.device_count == places
    joined, = parallel.run(fetch_list=['features'], feed={'features': rows(10)})
    np.testing.assert_array_equal(joined, rows(10))
    batches = [rows(10 - place) for place in range(places)]  # their sizes may differ
    expected = [loss_of(batch) for batch in batches]
    got, = parallel.run(fetch_list=[loss.name], feed=[{'features': batch} for batch in batches])
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize('places', PLACES)
def test_dropped_scopes_take_nothing_that_lasts(places, on_cpus):
    on_cpus(places)
    main, _, loss = in_fluid(train=False)
    # A loss_name is accepted without a backward part.
    parallel = fluid.ParallelExecutor(use_cuda=False, main_program=main, loss_name=loss.name)
    ask = dict(fetch_list=[loss.name], feed={'features': rows(10)})
    first, = parallel.run(**ask)
    parallel.drop_local_exe_scopes()
    second, = parallel.run(**ask)
    np.testing.assert_array_equal(second, first)
    np.testing.assert_allclose(first, losses_of(rows(10), places), rtol=1e-5)


@pytest.mark.parametrize('reuse', [True, False])
@pytest.mark.parametrize('places', PLACES)
def test_one_program_runs_plain_and_with_strategies(places, reuse, on_cpus):
    """As the guide does it: the places come from the environment, both strategies are given."""
    on_cpus(places)
    loss, runner = default_net(), fluid.Executor(fluid.CPUPlace())
    runner.run(fluid.default_startup_program())
    ask = dict(fetch_list=[loss.name], feed={'features': rows(10)})
    expected = loss_of(rows(10))
    np.testing.assert_allclose(runner.run(fluid.default_main_program(), **ask), [[expected]], rtol=1e-5)
    threads, passes = fluid.ExecutionStrategy(), fluid.BuildStrategy()
    threads.num_threads = 4 * places
    passes.memory_optimize = reuse
    both = compiler.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        exec_strategy=threads, build_strategy=passes, loss_name=loss.name)
    expected = losses_of(rows(10), places)
    np.testing.assert_allclose(runner.run(both, **ask), [expected], rtol=1e-5)


def default_net():
    """The loss of a net in the default programs."""
    x = fluid.layers.data('features', [3])
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(x, 4)))
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def test_a_server_gets_its_programs():
    default_net()
    transpiled = fluid.DistributeTranspiler()
    transpiled.transpile(0, pservers='192.168.0.1:6174,192.168.0.2:6174', trainers=4)
    serve = transpiled.get_pserver_program('192.168.0.1:6174')
    start = transpiled.get_startup_program('192.168.0.1:6174', serve)
    assert 'listen_and_serv' in [op.type for op in serve.global_block().ops]
    assert start.global_block().ops


def test_a_trainer_gets_its_program_when_the_servers_listen():
    default_net()
    servers = [socket.create_server(('127.0.0.1', 0)) for _ in range(2)]
    addresses = ['%s:%d' % server.getsockname() for server in servers]
    transpiled = fluid.DistributeTranspiler()
    transpiled.transpile(0, pservers=','.join(addresses), trainers=4)
    train = transpiled.get_trainer_program()  # waits for both
    assert 'send' in [op.type for op in train.global_block().ops]
    for server in servers:
        server.close()


def in_nccl2_mode(workers):
    """Transpiled for these workers. The documents name them so, though their signature does not."""
    config = fluid.DistributeTranspilerConfig()
    config.mode = 'nccl2'
    fluid.DistributeTranspiler(config=config).transpile(0, workers=workers,
                                                        current_endpoint=workers.split(',')[0])


@pytest.mark.parametrize('places', PLACES)
def test_nccl2_with_one_trainer_trains_on_every_place(places, on_cpus):
    on_cpus(places)
    loss = default_net()
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    in_nccl2_mode('192.168.0.1:6174')
    alone = fluid.ParallelExecutor(False, loss_name=loss.name, num_trainers=1, trainer_id=0)
    expected = losses_of(rows(10), places)
    got, = alone.run([loss.name], feed={'features': rows(10)})
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_nccl2_with_two_trainers_meets_them_in_the_startup_program(on_cpus):
    on_cpus(1)
    loss = default_net()
    in_nccl2_mode('192.168.0.1:6174,192.168.0.2:6174')
    one = fluid.ParallelExecutor(False, loss_name=loss.name, num_trainers=2, trainer_id=0)
    with pytest.raises(RuntimeError, match='have not met.*\n.*startup program'):
        one.run([loss.name], feed={'features': rows(10)})


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
