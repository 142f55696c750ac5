"""CompiledProgram and with_data_parallel: arguments, places, sharing, saving.

Beside each behaviour of the original that is not kept stands what happens here instead.
"""
import os
import threading
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid
import paddle.static as static
from parallel_toy import Toy, batch, strategy, trained, value


pytestmark = pytest.mark.usefixtures('environment')
GradientScaleStrategy = fluid.BuildStrategy.GradientScaleStrategy


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
    (['gpu:8', 'gpu:9'], RuntimeError, 'no GPU can be used|gpu:8 cannot be used'),
    ([fluid.CUDAPlace(8), fluid.CUDAPlace(9)], RuntimeError, 'no GPU can be used|gpu:8 cannot be used'),
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


def on_gpu():
    """A run of an executor on a GPU: without places the environment chooses which."""
    toy = Toy()
    program = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name)
    return fluid.Executor(fluid.CUDAPlace(0)).run(program, feed={'X': batch()}, fetch_list=[toy.loss])


@pytest.mark.skipif(fluid.is_compiled_with_cuda(), reason='this machine has a GPU')
def test_a_missing_gpu_is_named(monkeypatch):
    for name in ('FLAGS_selected_gpus', 'CUDA_VISIBLE_DEVICES'):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(fluid.core.UnavailableError, match='gpu:0 cannot be used|no GPU can be used'):
        on_gpu()
    with pytest.raises(fluid.core.UnavailableError, match='gpu:0 cannot be used|no GPU can be used'):
        fluid.ParallelExecutor(use_cuda=True)
    assert 'CPU_NUM' not in os.environ


@pytest.mark.parametrize('selected, visible, text', [
    ('0,x', None, "FLAGS_selected_gpus is '0,x', which is not a list of GPU ids"),
    ('0,0', None, 'FLAGS_selected_gpus names GPU 0 twice'),
    ('2', '4,5', 'FLAGS_selected_gpus names GPU 2, but CUDA_VISIBLE_DEVICES leaves 2'),
    (None, 'all', "CUDA_VISIBLE_DEVICES is 'all', which is not a list of GPUs"),
    (None, '-1', 'CUDA_VISIBLE_DEVICES hides every GPU'),
])
def test_a_wrong_choice_of_gpus_is_a_value_error(selected, visible, text, monkeypatch):
    for name, value_ in (('FLAGS_selected_gpus', selected), ('CUDA_VISIBLE_DEVICES', visible)):
        monkeypatch.delenv(name, raising=False)
        if value_ is not None:
            monkeypatch.setenv(name, value_)
    with pytest.raises(ValueError, match=text):
        on_gpu()


def test_explain_says_where_the_number_of_devices_is_from():
    os.environ['CPU_NUM'] = '3'
    toy = Toy()
    asked = fluid.CompiledProgram(toy.main).with_data_parallel(loss_name=toy.loss.name)
    assert 'devices: 3 CPU (CPU_NUM)' in asked.explain()
    assert 'devices: 2 CPU,' in toy.parallel().explain()


def test_more_places_than_cores_work():
    np.testing.assert_allclose(trained(1, [40]), trained(17, [40]), atol=1e-6)


def test_places_beyond_the_threads_take_turns():
    """A thread is not made for each place."""
    x = fluid.layers.data(name='x', shape=[1], dtype='float32')
    out = fluid.default_main_program().current_block().create_var(
        name='out', dtype='float32', shape=[-1, 1])
    threads = []

    def note(value_):
        threads.append(threading.get_ident())
        return value_
    fluid.layers.py_func(note, x, out)
    execution = fluid.ExecutionStrategy()
    execution.num_threads = 2
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        exec_strategy=execution, places=[fluid.CPUPlace()] * 12)
    data = np.arange(24, dtype='float32').reshape(24, 1)
    found, = fluid.Executor(fluid.CPUPlace()).run(program, feed={'x': data}, fetch_list=[out])
    np.testing.assert_array_equal(found, data)
    assert len(threads) == 12
    assert len(set(threads)) <= 2


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
