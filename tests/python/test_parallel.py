"""with_data_parallel and ParallelExecutor: arguments, strategies, states, sharing, errors.

Beside each behaviour of the original that is not kept stands what happens here instead.
"""
import inspect
import os
import threading
import time
import warnings

import numpy as np
import pytest

import _trireme as _C
import paddle
import paddle.fluid as fluid
import paddle.static as static
from parallel_toy import Toy, batch, value

layers = fluid.layers
ReduceStrategy = fluid.BuildStrategy.ReduceStrategy
GradientScaleStrategy = fluid.BuildStrategy.GradientScaleStrategy


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.delenv('CPU_NUM', raising=False)
    monkeypatch.setattr(fluid.framework, '_print_as_2_4', False)  # enable_static sets it
    yield
    os.environ.pop('CPU_NUM', None)


def strategy(**fields):
    build = fluid.BuildStrategy()
    for name, value_ in fields.items():
        setattr(build, name, value_)
    return build


def trained(places, sizes=(7, 8, 9), build=None, net=Toy):
    """The weight after a few steps of one net on so many places."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
            fluid.scope_guard(fluid.Scope()):
        toy = net()
        program = toy.parallel(places, build_strategy=build)
        for n in sizes:
            toy.run(program, {'X': batch(n)}, [])
        return value('fc_0.w_0')


# CompiledProgram(program_or_graph, build_strategy)

@pytest.mark.parametrize('wrong', [None, 'main', 3, fluid.Executor])
def test_only_programs_and_graphs_are_compiled(wrong):
    with pytest.raises(TypeError, match='must be a Program or a Graph'):
        fluid.CompiledProgram(wrong)


def test_a_strategy_of_another_class_is_refused():
    toy = Toy()
    with pytest.raises(TypeError, match='build_strategy must be a BuildStrategy, got ExecutionStrategy'):
        fluid.CompiledProgram(toy.main, fluid.ExecutionStrategy())
    with pytest.raises(TypeError, match='build_strategy must be a BuildStrategy'):
        toy.parallel(build_strategy='AllReduce')
    with pytest.raises(TypeError, match='exec_strategy must be an ExecutionStrategy'):
        toy.parallel(exec_strategy=fluid.BuildStrategy())


def test_without_data_parallel_it_runs_on_one_place():
    toy = Toy()
    alone = fluid.CompiledProgram(toy.main)
    found, = toy.run(alone)
    assert found.shape == (1,)
    with pytest.raises(ValueError, match='a list of 2 for 1 devices'):
        toy.run(alone, [{'X': batch(1)}] * 2)


def test_the_users_program_is_not_changed():
    """The original removes feed ops from it."""
    toy = Toy()
    before = toy.main.desc.serialize_to_string()
    toy.run(toy.parallel())
    assert toy.main.desc.serialize_to_string() == before


def test_edits_after_compiling_are_seen():
    """The original runs the program as it was."""
    toy = Toy(train=False)
    program = toy.parallel(program=toy.main)
    toy.run(program)
    twice = toy.loss * 2.0
    loss, doubled = toy.run(program, None, [toy.loss, twice])
    np.testing.assert_allclose(doubled, 2 * loss, rtol=1e-6)


def test_a_graph_is_the_program_of_then_with_all_its_parameters():
    """2.4 of the original shares out no parameter of a graph."""
    toy = Toy()
    graph = fluid.core.Graph(toy.main.desc)
    toy.loss * 2.0  # not in the graph
    program = fluid.CompiledProgram(graph).with_data_parallel(
        loss_name=toy.loss.name, places=[fluid.CPUPlace()] * 2)
    first, = toy.run(program)
    toy.run(program)
    last, = toy.run(program)
    assert (last < first).all()
    with pytest.raises(TypeError, match='program.desc'):
        fluid.core.Graph(toy.main)


# with_data_parallel

def test_it_returns_itself():
    toy = Toy()
    program = fluid.CompiledProgram(toy.main)
    assert program.with_data_parallel(loss_name=toy.loss.name) is program


def test_twice_is_refused():
    toy = Toy()
    with pytest.raises(AssertionError, match='was called before'):
        toy.parallel().with_data_parallel(loss_name=toy.loss.name)


@pytest.mark.parametrize('loss_name', [None, ''])
def test_a_missing_loss_name_is_found_by_its_role(loss_name):
    """With '' the original trains every device by itself, silently."""
    toy = Toy()
    toy.run(toy.parallel(loss_name=loss_name), {'X': batch(8)}, [])
    found = value('fc_0.w_0')
    np.testing.assert_array_equal(found, trained(2, [8]))


def test_a_wrong_loss_name_is_refused():
    """The original only looks whether it is empty."""
    toy = Toy()
    with pytest.raises(ValueError, match='loss_name is other, but the gradients start from mean_0.tmp_0'):
        toy.parallel(loss_name='other')


def test_loss_name_is_a_text():
    toy = Toy()
    with pytest.raises(TypeError, match='loss.name'):
        toy.parallel(loss_name=toy.loss)


def test_loss_name_without_a_backward_part_is_accepted():
    toy = Toy(train=False)
    found, = toy.run(toy.parallel(loss_name=toy.loss.name))
    assert found.shape == (2,)


def test_the_later_build_strategy_counts():
    toy = Toy()
    compiled = fluid.CompiledProgram(toy.main, strategy(gradient_scale_strategy=GradientScaleStrategy.One))
    with pytest.warns(UserWarning, match='with_data_parallel is used'):
        compiled.with_data_parallel(loss_name=toy.loss.name, build_strategy=strategy(),
                                    places=[fluid.CPUPlace()] * 2)
    found, = toy.run(compiled, {'X': batch(4)}, [toy.loss.name + '@GRAD'])
    np.testing.assert_array_equal(found, [0.5, 0.5])


def test_the_constructors_build_strategy_counts_when_alone():
    toy = Toy()
    compiled = fluid.CompiledProgram(toy.main, strategy(gradient_scale_strategy=GradientScaleStrategy.One))
    compiled.with_data_parallel(loss_name=toy.loss.name, places=[fluid.CPUPlace()] * 2)
    found, = toy.run(compiled, {'X': batch(4)}, [toy.loss.name + '@GRAD'])
    np.testing.assert_array_equal(found, [1, 1])


def test_strategies_are_copied_and_not_written_to():
    """The original writes into the user's objects, and ignores later edits of some."""
    toy = Toy()
    build, execution = strategy(sync_batch_norm=True), fluid.ExecutionStrategy()
    program = toy.parallel(build_strategy=build, exec_strategy=execution)
    toy.run(program)
    assert not build.enable_sequential_execution
    assert execution.num_threads == 0
    build.gradient_scale_strategy = GradientScaleStrategy.One
    found, = toy.run(program, {'X': batch(4)}, [toy.loss.name + '@GRAD'])
    np.testing.assert_array_equal(found, [0.5, 0.5])


# places

@pytest.mark.parametrize('places', [
    [fluid.CPUPlace()] * 2, (fluid.CPUPlace(), fluid.CPUPlace()), ['cpu', 'cpu'], ['CPU', 'cpu'],
    fluid.cpu_places(2), static.cpu_places(2),
])
def test_places_are_given_as_places_or_texts(places):
    toy = Toy()
    program = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name, places=places)
    assert toy.run(program)[0].shape == (2,)


@pytest.mark.parametrize('places', ['cpu', fluid.CPUPlace()])
def test_a_single_place_needs_no_list(places):
    toy = Toy()
    program = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name, places=places)
    assert toy.run(program)[0].shape == (1,)


@pytest.mark.parametrize('places, error, text', [
    ([], ValueError, 'empty list'),
    (['cpus'], ValueError, "no place 'cpus'"),
    ([3], ValueError, 'a Place or a str, got int'),
    (['gpu:0', 'gpu:1'], ValueError, 'CPU only'),
    ([fluid.CUDAPlace(0)], NotImplementedError, 'CPU only'),
])
def test_wrong_places_are_refused(places, error, text):
    toy = Toy()
    with pytest.raises(error, match=text):
        fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name, places=places)


@pytest.mark.parametrize('number', ['1', '2', '3'])
def test_without_places_cpu_num_decides(number):
    os.environ['CPU_NUM'] = number
    toy = Toy()
    program = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name)
    assert toy.run(program)[0].shape == (int(number),)


def test_cpu_num_absent_becomes_one_as_documented():
    toy = Toy()
    program = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name)
    assert toy.run(program)[0].shape == (1,)
    assert os.environ['CPU_NUM'] == '1'


def test_more_places_than_cores_work():
    np.testing.assert_allclose(trained(1, [40]), trained(17, [40]), atol=1e-6)


# share_vars_from

def test_sharing_before_the_training_program_ran():
    """The original asks for a run first."""
    toy = Toy()
    train = toy.parallel()
    test = toy.parallel(program=toy.test_program, share_vars_from=train)
    before, = toy.run(test)
    for _ in range(3):
        toy.run(train)
    after, = toy.run(test)
    assert (after < before).all()


def test_a_test_program_that_shares_nothing_sees_the_trained_parameters():
    """In the original, all but the first device test with the values of the first run."""
    toy = Toy()
    train, test = toy.parallel(), toy.parallel(program=toy.test_program)
    before, = toy.run(test)
    for _ in range(3):
        toy.run(train)
    after, = toy.run(test)
    assert (after < before).all()


def test_sharing_between_different_numbers_of_places():
    """The original asks for equal numbers."""
    toy = Toy()
    train = toy.parallel(2)
    toy.run(train)
    test = toy.parallel(3, toy.test_program, share_vars_from=train)
    assert toy.run(test)[0].shape == (3,)


def test_a_shared_scope_is_the_one_of_the_training_run():
    toy = Toy()
    scope = fluid.Scope()
    toy.exe.run(toy.startup, scope=scope)
    train = toy.parallel()
    test = toy.parallel(program=toy.test_program, share_vars_from=train)
    toy.run(train, scope=scope)
    expected, = toy.run(toy.test_program, {'X': batch(4)}, scope=scope)
    with pytest.warns(UserWarning, match='another scope'):
        found, = toy.run(test.fetch_mean(toy.loss), {'X': batch(4)})
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_sharing_with_something_else_is_a_type_error():
    toy = Toy()
    with pytest.raises(TypeError, match='share_vars_from must be a CompiledProgram, got Program'):
        toy.parallel(program=toy.test_program, share_vars_from=toy.main)
    with pytest.raises(TypeError, match='share_vars_from must be a ParallelExecutor'):
        fluid.ParallelExecutor(False, main_program=toy.test_program, share_vars_from=toy.parallel())


def test_sharing_with_a_program_on_one_place_is_refused():
    toy = Toy()
    with pytest.raises(ValueError, match='not data parallel'):
        toy.parallel(program=toy.test_program, share_vars_from=fluid.CompiledProgram(toy.main))


def test_one_compiled_program_runs_in_several_scopes():
    """The original binds it to the first one."""
    toy = Toy()
    other = fluid.Scope()
    toy.exe.run(toy.startup, scope=other)
    program = toy.parallel()
    first, = toy.run(program)
    second, = toy.run(program, scope=other)
    np.testing.assert_array_equal(first, second)


# Gradients and strategies

@pytest.mark.parametrize('places', [2, 3, 4])
def test_uneven_slices_train_as_one_device(places):
    """The original weights devices equally, whatever they hold."""
    np.testing.assert_allclose(trained(1), trained(places), rtol=0, atol=1e-7)


def test_one_leaves_the_gradients_unscaled():
    toy = Toy()
    build = strategy(gradient_scale_strategy=GradientScaleStrategy.One)
    names = ['fc_0.b_0@GRAD']
    scaled, = toy.run(toy.parallel().fetch_one(*names), None, names)
    unscaled, = toy.run(toy.parallel(build_strategy=build).fetch_one(*names), None, names)
    np.testing.assert_allclose(unscaled, 2 * scaled, rtol=1e-6)


def test_customized_takes_the_loss_gradient_of_each_device():
    toy = Toy()
    build = strategy(gradient_scale_strategy=GradientScaleStrategy.Customized)
    program = toy.parallel(build_strategy=build)
    name = toy.loss.name + '@GRAD'
    feed = {'X': batch(5), name: np.array([0.25, 0.75], 'float32')}
    found, gradient = toy.run(program.fetch_one('fc_0.b_0@GRAD'), feed, [name, 'fc_0.b_0@GRAD'])
    np.testing.assert_array_equal(found, [0.25, 0.75])
    np.testing.assert_allclose(gradient, np.full(10, 0.1), rtol=1e-6)
    with pytest.raises(ValueError, match='is not fed'):
        toy.run(program)


def test_reduce_gives_the_bits_of_all_reduce():
    """In the original they differ unless FLAGS_cpu_deterministic is set."""
    found = trained(3, build=strategy(reduce_strategy=ReduceStrategy.Reduce))
    np.testing.assert_array_equal(found, trained(3))


def test_virtual_shards_give_equal_bits_on_any_number_of_places():
    found = [trained(places, [8, 11], strategy(virtual_shards=8)) for places in (1, 2, 3, 4, 8)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize('field, wrong, text', [
    ('num_trainers', 2, 'several processes'),
    ('trainer_id', 1, 'several processes'),
    ('trainers_endpoints', ['a:1', 'b:1'], 'several processes'),
    ('async_mode', True, 'asynchronous'),
    ('reduce_strategy', ReduceStrategy._NoReduce, 'apart from each other'),
    ('virtual_shards', 3, 'binary tree'),
])
def test_what_a_build_strategy_cannot_have_is_refused_by_name(field, wrong, text):
    toy = Toy()
    with pytest.raises(NotImplementedError, match=f'BuildStrategy.{field} = .*{text}'):
        toy.parallel(build_strategy=strategy(**{field: wrong}))


@pytest.mark.parametrize('field, wrong', [
    ('num_iteration_per_run', 4), ('use_thread_barrier', True), ('_dry_run', True)])
def test_what_an_execution_strategy_cannot_have_is_refused_by_name(field, wrong):
    """The original takes num_iteration_per_run and ignores it."""
    toy = Toy()
    execution = fluid.ExecutionStrategy()
    setattr(execution, field, wrong)
    with pytest.raises(NotImplementedError, match=f'ExecutionStrategy.{field}'):
        toy.parallel(exec_strategy=execution)


def test_unknown_options_and_values_are_refused():
    with pytest.raises(AttributeError):
        fluid.BuildStrategy().fuse_everything = True
    with pytest.raises(TypeError):
        fluid.BuildStrategy().memory_optimize = 'yes'
    with pytest.raises(AttributeError):
        fluid.ExecutionStrategy().threads = 2


@pytest.mark.parametrize('field', [
    'fuse_elewise_add_act_ops', 'fuse_bn_act_ops', 'fuse_bn_add_act_ops', 'enable_auto_fusion',
    'fuse_relu_depthwise_conv', 'fuse_gemm_epilogue', 'fuse_broadcast_ops', 'fuse_all_optimizer_ops',
    'fuse_all_reduce_ops', 'memory_optimize', 'enable_inplace', 'enable_addto',
    'enable_sequential_execution', 'remove_unnecessary_lock', 'cache_runtime_context',
    'enable_backward_optimizer_op_deps', 'fix_op_run_order',
])
def test_no_option_changes_a_bit(field):
    for on in (True, False):
        np.testing.assert_array_equal(trained(2, [8], strategy(**{field: on})), trained(2, [8]))


@pytest.mark.parametrize('threads', [1, 2, 8])
def test_the_number_of_threads_changes_no_bit(threads):
    toy = Toy()
    execution = fluid.ExecutionStrategy()
    execution.num_threads = threads
    toy.run(toy.parallel(3, exec_strategy=execution), {'X': batch(8)}, [])
    np.testing.assert_array_equal(value('fc_0.w_0'), trained(3, [8]))


def test_explain_answers_for_every_knob():
    toy = Toy()
    text = toy.parallel().explain()
    for name in dir(fluid.BuildStrategy()) + dir(fluid.ExecutionStrategy()):
        if not name.startswith('_') and not inspect.isclass(getattr(fluid.BuildStrategy, name, None)):
            assert name in text
    assert 'num_iteration_per_drop_scope = 100: not needed (nothing piles up between runs)' in text


# What is written by every device

def norm_net():
    x = layers.data(name='x', shape=[3], dtype='float32')
    loss = layers.mean(layers.batch_norm(x, momentum=0.5))
    fluid.optimizer.SGD(0.0).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss


def norm_batch(seed, rows=8):
    return {'x': np.random.RandomState(seed).rand(rows, 3).astype('float32')}


def norm_means(places, fetch_every_second=False):
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
            fluid.scope_guard(fluid.Scope()):
        exe, loss = norm_net()
        program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
            loss_name=loss.name, places=[fluid.CPUPlace()] * places)
        for i in range(6):
            exe.run(program, feed=norm_batch(i, 7), fetch_list=[loss] if fetch_every_second and i % 2 else [])
        return value('batch_norm_0.w_1')


def test_statistics_are_merged_over_the_devices():
    """The original keeps the first device's."""
    np.testing.assert_allclose(norm_means(1), norm_means(3), rtol=1e-5)


def test_statistics_do_not_depend_on_what_is_fetched_when():
    np.testing.assert_array_equal(norm_means(2), norm_means(2, fetch_every_second=True))


def test_dropping_child_scopes_between_runs_is_harmless():
    exe, loss = norm_net()
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
    exe.run(program, feed=norm_batch(0), fetch_list=[])
    fluid.global_scope().drop_kids()
    exe.run(program, feed=norm_batch(1), fetch_list=[])


def test_every_device_finds_its_variables():
    toy = Toy()
    program = toy.parallel(3)
    toy.run(program)
    scopes = program.local_scopes()
    assert len(scopes) == 3
    for scope in scopes:
        np.testing.assert_array_equal(value('fc_0.w_0', scope), value('fc_0.w_0'))


def test_sync_batch_norm_on_cpu_places_equals_one_place():
    """The original has it on GPUs alone, and weights devices equally."""
    outs = []
    for places in (1, 2, 3):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
                fluid.scope_guard(fluid.Scope()):
            x = layers.data(name='x', shape=[3], dtype='float32')
            out = layers.batch_norm(x)
            loss = layers.mean(out * out)
            fluid.optimizer.SGD(0.1).minimize(loss)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
                loss_name=loss.name, build_strategy=strategy(sync_batch_norm=True),
                places=[fluid.CPUPlace()] * places)
            outs.append(exe.run(program, feed=norm_batch(0, 7), fetch_list=[out])[0])
    np.testing.assert_allclose(outs[0], outs[1], atol=1e-5)
    np.testing.assert_allclose(outs[0], outs[2], atol=1e-5)


def test_devices_draw_different_dropout_masks():
    """Under a program seed the original gives all devices the same mask."""
    fluid.default_main_program().random_seed = 3
    x = layers.data(name='x', shape=[50], dtype='float32')
    out = layers.dropout(x, 0.5)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    found, = fluid.Executor(fluid.CPUPlace()).run(program, feed={'x': np.ones((2, 50), 'float32')},
                                                  fetch_list=[out])
    assert not np.array_equal(found[0], found[1])


# Never silently wrong

def test_a_test_program_that_writes_parameters_warns_with_the_line():
    toy = Toy(train=False)
    bias = toy.main.global_block().var('fc_0.b_0')
    layers.assign(bias * 0.5, bias)
    with pytest.warns(UserWarning, match=r'assign writes the parameter fc_0.b_0, asked for at '
                                         r'.*test_parallel.py:\d+'):
        toy.parallel(program=toy.main)


def test_a_test_program_that_was_not_cloned_for_test_warns():
    x = layers.data(name='x', shape=[3], dtype='float32')
    layers.batch_norm(x)
    with pytest.warns(UserWarning, match='batch_norm writes the parameter batch_norm_0.w_1'):
        fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(places=['cpu'] * 2)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        fluid.CompiledProgram(fluid.default_main_program().clone(for_test=True)).with_data_parallel(
            places=['cpu'] * 2)


def test_the_optimizer_may_stand_in_a_program_with_clip_and_decay():
    """Global-norm clip reads all gradients: the original's Reduce spreads them over devices."""
    def net():
        toy = Toy(train=False)
        fluid.optimizer.Momentum(
            layers.exponential_decay(0.1, 1, 0.5), 0.9, regularization=fluid.regularizer.L2Decay(0.1),
            grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1)).minimize(toy.loss)
        toy.exe.run(toy.startup)
        return toy
    expected = trained(1, net=net)
    np.testing.assert_allclose(trained(3, net=net), expected, atol=1e-6)
    found = trained(3, build=strategy(reduce_strategy=ReduceStrategy.Reduce), net=net)
    np.testing.assert_array_equal(found, trained(3, net=net))


def test_learning_rate_counters_count_steps_not_devices():
    toy = Toy(train=False)
    rate = layers.exponential_decay(1.0, 1, 0.5, staircase=True)
    fluid.optimizer.SGD(rate).minimize(toy.loss)
    toy.exe.run(toy.startup)
    program = toy.parallel(3).fetch_one(rate)
    rates = [toy.run(program, None, [rate])[0].item() for _ in range(3)]
    assert rates == [1.0, 0.5, 0.25]


# Errors in a run

def lookup_net(places=2):
    ids = layers.data(name='ids', shape=[1], dtype='int64')
    loss = layers.mean(layers.fc(layers.embedding(ids, size=[20, 4]), 4))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * places)
    return exe, program, loss


@pytest.mark.parametrize('device', [0, 1, 2, 3])
def test_a_failing_op_on_one_device_ends_the_run_with_its_error(device):
    exe, program, loss = lookup_net(4)
    good = np.arange(8).reshape(8, 1)
    first, = exe.run(program, feed={'ids': good}, fetch_list=[loss])
    weights = value('fc_0.w_0')
    bad = good.copy()
    bad[2 * device] = 50
    with pytest.raises(ValueError, match='id 50 .*') as error:
        exe.run(program, feed={'ids': bad}, fetch_list=[loss])
    assert 'lookup_table' in str(error.value)
    assert 'test_parallel.py' in str(error.value)
    np.testing.assert_array_equal(value('fc_0.w_0'), weights)  # a failed step changes no parameter
    again, = exe.run(program, feed={'ids': good}, fetch_list=[loss])
    assert (again < first).any()


def test_a_failing_python_op_ends_the_run():
    x = layers.data(name='x', shape=[1], dtype='float32')
    out = fluid.default_main_program().current_block().create_var(name='out', dtype='float32', shape=[-1, 1])

    def check(value_):
        if np.array(value_).max() > 5:
            raise ZeroDivisionError('too much')
        return value_
    layers.py_func(check, x, out)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(Exception, match='too much'):
        exe.run(program, feed={'x': np.array([[1], [9]], 'float32')}, fetch_list=[out])
    found, = exe.run(program, feed={'x': np.array([[1], [2]], 'float32')}, fetch_list=[out])
    np.testing.assert_array_equal(found, [[1], [2]])


def test_a_program_that_was_not_started_says_so():
    toy = Toy()
    with pytest.raises(RuntimeError, match='run the startup program first'):
        toy.run(toy.parallel(), scope=fluid.Scope())


def test_a_closed_executor_is_refused():
    toy = Toy()
    program = toy.parallel()
    toy.exe.close()
    with pytest.raises(RuntimeError, match='closed'):
        toy.run(program)


def test_threads_may_run_test_programs_side_by_side():
    toy = Toy()
    program = toy.parallel(program=toy.test_program)
    expected, = toy.run(program)
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(toy.run(program)[0], expected):
                wrong.append(1)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ParallelExecutor

@pytest.fixture
def two():
    os.environ['CPU_NUM'] = '2'


def test_the_main_program_is_the_default_one(two):
    toy = Toy()
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name)
    assert executor.device_count == 2
    assert executor.run([toy.loss.name], feed={'X': batch()})[0].shape == (2,)


def test_feed_dict_is_feed_under_its_old_name(two):
    """The original accepts it and feeds nothing."""
    toy = Toy()
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name)
    with pytest.warns(DeprecationWarning, match='feed_dict is the old name of feed'):
        found, = executor.run([toy.loss.name], feed_dict={'X': batch()})
    assert found.shape == (2,)
    with pytest.raises(ValueError, match='both given'):
        executor.run([toy.loss.name], feed={'X': batch()}, feed_dict={'X': batch()})


@pytest.mark.parametrize('options, text', [
    (dict(trainer_id=1), 'num_trainers was not given'),
    (dict(num_trainers=2, trainer_id=2), 'from 0 to 1'),
    (dict(num_trainers=2, trainer_id=-1), 'from 0 to 1'),
    (dict(num_trainers=0), 'num_trainers'),
])
def test_trainer_numbers_are_checked(options, text):
    toy = Toy()
    with pytest.raises(ValueError, match=text):
        fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, **options)


def test_two_trainers_say_what_is_missing():
    toy = Toy()
    with pytest.raises(NotImplementedError, match='several processes'):
        fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, num_trainers=2, trainer_id=1)


def test_use_cuda_says_that_this_build_has_none():
    toy = Toy()
    with pytest.raises(NotImplementedError, match='CPU only'):
        fluid.ParallelExecutor(use_cuda=True, loss_name=toy.loss.name)


def test_the_scope_is_where_it_runs(two):
    toy = Toy()
    scope = fluid.Scope()
    toy.exe.run(toy.startup, scope=scope)
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, scope=scope)
    before = value('fc_0.w_0')
    executor.run([], feed={'X': batch()})
    np.testing.assert_array_equal(value('fc_0.w_0'), before)
    assert not np.array_equal(value('fc_0.w_0', scope), before)
    with pytest.raises(TypeError, match='scope must be a Scope'):
        fluid.ParallelExecutor(use_cuda=False, scope='global')


def test_a_shared_executor_uses_the_scope_of_its_source(two):
    toy = Toy()
    scope = fluid.Scope()
    toy.exe.run(toy.startup, scope=scope)
    train = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, scope=scope)
    test = fluid.ParallelExecutor(use_cuda=False, main_program=toy.test_program, share_vars_from=train)
    train.run([], feed={'X': batch()})
    found, = test.fetch_mean(toy.loss).run([toy.loss.name], feed={'X': batch(4)})
    expected, = toy.run(toy.test_program, {'X': batch(4)}, scope=scope)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_return_numpy_false_gives_tensors(two):
    toy = Toy()
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name)
    found, = executor.run([toy.loss.name], feed={'X': batch()}, return_numpy=False)
    assert isinstance(found, fluid.LoDTensor)


def test_dropping_scopes_frees_all_and_changes_nothing(two):
    """Before the first run it is a TypeError in the original."""
    toy = Toy()
    executor = fluid.ParallelExecutor(use_cuda=False, main_program=toy.test_program)
    executor.drop_local_exe_scopes()
    first, = executor.run([toy.loss.name], feed={'X': batch()})
    arena = lambda: executor._compiled._engine.arena_bytes(executor._executor._engine)
    assert arena() > 0
    assert not executor._need_create_local_exe_scopes()
    executor.drop_local_exe_scopes()
    assert arena() == 0
    assert executor._need_create_local_exe_scopes()
    second, = executor.run([toy.loss.name], feed={'X': batch()})
    np.testing.assert_array_equal(first, second)


def test_nothing_piles_up_between_runs(two):
    """num_iteration_per_drop_scope is accepted and not needed."""
    toy = Toy()
    execution = fluid.ExecutionStrategy()
    execution.num_iteration_per_drop_scope = 1000000
    executor = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, exec_strategy=execution)
    feed = {'X': batch(4)}
    for _ in range(10):
        executor.run([], feed=feed)
    before = _C.allocated_bytes()
    for _ in range(9990):
        executor.run([], feed=feed)
    assert _C.allocated_bytes() == before


# Saving

@pytest.mark.parametrize('how', ['persistables', 'params', 'save', 'inference'])
def test_a_compiled_program_is_saved_as_its_program(how, tmp_path):
    toy = Toy()
    program = toy.parallel()
    toy.run(program)
    weight, folder = value('fc_0.w_0'), str(tmp_path / 'model')
    with pytest.warns(UserWarning, match='saved and loaded as the Program'):
        if how == 'persistables':
            fluid.io.save_persistables(toy.exe, folder, program)
        elif how == 'params':
            fluid.io.save_params(toy.exe, folder, program)
        elif how == 'save':
            fluid.save(program, folder)
        else:
            fluid.io.save_inference_model(folder, ['X'], [toy.hidden], toy.exe, main_program=program)
    toy.run(program)
    assert not np.array_equal(value('fc_0.w_0'), weight)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if how == 'persistables':
            fluid.io.load_persistables(toy.exe, folder, program)
        elif how == 'params':
            fluid.io.load_params(toy.exe, folder, program)
        elif how == 'save':
            fluid.load(program, folder, toy.exe)
        else:
            loaded, _, _ = fluid.io.load_inference_model(folder, toy.exe)
            assert loaded.global_block().ops
    np.testing.assert_array_equal(value('fc_0.w_0'), weight)


def test_training_goes_on_after_a_load(tmp_path):
    toy = Toy()
    program = toy.parallel(3)
    toy.run(program)
    fluid.io.save_persistables(toy.exe, str(tmp_path), toy.main)
    expected, = toy.run(program)
    fluid.io.load_persistables(toy.exe, str(tmp_path), toy.main)
    found, = toy.run(program)
    np.testing.assert_array_equal(found, expected)


def test_static_names_work_alike():
    paddle.enable_static()
    x = static.data(name='X', shape=[None, 1], dtype='float32')
    loss = paddle.mean(static.nn.fc(x=x, size=10))
    paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)
    exe = static.Executor('cpu')
    exe.run(static.default_startup_program())
    os.environ['CPU_NUM'] = '2'
    executor = static.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    assert executor.run([loss], feed={'X': batch()})[0].shape == (2,)


def test_an_error_does_not_wait_for_the_other_devices():
    """The other devices stop at their next op."""
    x = layers.data(name='x', shape=[1], dtype='float32')
    block = fluid.default_main_program().current_block()
    failed, later = [], []

    def slow(value_):
        if np.array(value_)[0, 0] > 5:
            failed.append(1)
            raise ZeroDivisionError('first')
        later.extend(failed)
        time.sleep(0.005)
        return value_
    for i in range(50):
        out = block.create_var(name=f'out{i}', dtype='float32', shape=[-1, 1])
        layers.py_func(slow, x, out)
        x = out
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 4)
    exe = fluid.Executor(fluid.CPUPlace())
    with pytest.raises(Exception, match='first'):
        exe.run(program, feed={'x': np.array([[9], [1], [1], [1]], 'float32')}, fetch_list=[x])
    assert len(later) <= 3  # at most the op that each of the others was at
