"""Training on several devices: strategies, what each device writes, never silently wrong.

Beside each behaviour of the original that is not kept stands what happens here instead.
"""
import inspect
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid
from parallel_toy import Toy, batch, on_places, started, strategy, trained, value


pytestmark = pytest.mark.usefixtures('environment')
layers = fluid.layers
ReduceStrategy = fluid.BuildStrategy.ReduceStrategy
GradientScaleStrategy = fluid.BuildStrategy.GradientScaleStrategy


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
    with warnings.catch_warnings():
        warnings.simplefilter('error')  # the feed has an effect
        found, gradient = toy.run(program.fetch_one('fc_0.b_0@GRAD'), feed, [name, 'fc_0.b_0@GRAD'])
    np.testing.assert_array_equal(found, [0.25, 0.75])
    np.testing.assert_allclose(gradient, np.full(10, 0.1), rtol=1e-6)
    with pytest.raises(ValueError, match='is not fed'):
        toy.run(program)


@pytest.mark.parametrize('places', [1, 2])
def test_a_fed_loss_gradient_needs_customized(places):
    """The original overwrites it."""
    toy = Toy()
    name = toy.loss.name + '@GRAD'
    one = {'X': batch(4), name: np.ones(places, 'float32')}
    for feed in (one, [{'X': batch(4), name: np.ones(1, 'float32')}] * places):
        with pytest.raises(ValueError, match=f'feed gives {name}, which BuildStrategy.gradient_scale_strategy'):
            toy.run(toy.parallel(places), feed)


def test_reduce_gives_the_bits_of_all_reduce():
    """In the original they differ unless FLAGS_cpu_deterministic is set."""
    found = trained(3, build=strategy(reduce_strategy=ReduceStrategy.Reduce))
    np.testing.assert_array_equal(found, trained(3))


def test_virtual_shards_give_equal_bits_on_any_number_of_places():
    found = [trained(places, [8, 11], strategy(virtual_shards=8)) for places in (1, 2, 3, 4, 8)]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize('field, wrong, text', [
    ('async_mode', True, 'asynchronous'),
    ('reduce_strategy', ReduceStrategy._NoReduce, 'apart from each other'),
    ('virtual_shards', 3, 'binary tree'),
])
def test_what_a_build_strategy_cannot_have_is_refused_by_name(field, wrong, text):
    toy = Toy()
    with pytest.raises(NotImplementedError, match=f'BuildStrategy.{field} = .*{text}'):
        toy.parallel(build_strategy=strategy(**{field: wrong}))


@pytest.mark.parametrize('field, wrong', [('trainer_id', 1), ('trainers_endpoints', ['a:1', 'b:1'])])
def test_trainers_that_do_not_fit_their_number_are_refused(field, wrong):
    with pytest.raises(ValueError, match=f'BuildStrategy.{field} is .*num_trainers is 1'):
        Toy().parallel(build_strategy=strategy(**{field: wrong}))


def test_training_with_others_needs_them_to_have_met():
    toy = Toy()
    with pytest.raises(RuntimeError, match='the processes have not met.*|startup program'):
        toy.run(toy.parallel(build_strategy=strategy(num_trainers=2)))


@pytest.mark.parametrize('field, wrong', [
    ('num_iteration_per_run', 4), ('use_thread_barrier', True), ('_dry_run', True)])
def test_what_an_execution_strategy_cannot_have_is_refused_by_name(field, wrong):
    """The original takes num_iteration_per_run and ignores it."""
    toy = Toy()
    execution = fluid.ExecutionStrategy()
    setattr(execution, field, wrong)
    with pytest.raises(NotImplementedError, match=f'ExecutionStrategy.{field}'):
        toy.parallel(exec_strategy=execution)


def test_a_negative_number_of_threads_is_refused():
    toy = Toy()
    execution = fluid.ExecutionStrategy()
    execution.num_threads = -1
    with pytest.raises(ValueError, match='num_threads is -1'):
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
    assert 'fuse_bn_act_ops = False: always on (the pass fuse_batch_norm joins ' in text
    assert 'fuse_bn_add_act_ops = True: always on (the pass fuse_batch_norm joins ' in text


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
    means = []
    for drops in (False, True):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
                fluid.scope_guard(fluid.Scope()):
            exe, loss = norm_net()
            program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
                loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
            exe.run(program, feed=norm_batch(0), fetch_list=[])
            if drops:
                fluid.global_scope().drop_kids()
            exe.run(program, feed=norm_batch(1), fetch_list=[])
            means.append(value('batch_norm_0.w_1'))
    np.testing.assert_array_equal(means[0], means[1])
    x0, x1 = norm_batch(0)['x'].mean(0), norm_batch(1)['x'].mean(0)
    np.testing.assert_allclose(means[1], x0 / 4 + x1 / 2, rtol=1e-5)  # momentum is a half


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
            exe = started()
            program = on_places(places, loss=loss, build_strategy=strategy(sync_batch_norm=True))
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
                                         r'.*test_parallel_train.py:\d+'):
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
