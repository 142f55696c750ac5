"""CompiledProgram on CPU places: what it refuses, tells, saves and plans."""
import hashlib
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import _trireme as _C
import paddle.fluid as fluid
from parallel_toy import Toy, batch, on_places, started


@pytest.fixture(autouse=True)
def fresh():
    before = os.environ.pop('CPU_NUM', None)
    with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), \
            fluid.program_guard(fluid.Program(), fluid.Program()):
        yield
    os.environ.pop('CPU_NUM', None)
    if before is not None:
        os.environ['CPU_NUM'] = before


def toy(seed=None):
    net = Toy(seed=seed or 0)
    return net.exe, net.loss, net.test_program


def test_one_device_and_several_train_alike():
    ends = []
    for places in (1, 2, 3):
        with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), \
                fluid.program_guard(fluid.Program(), fluid.Program()):
            exe, loss, _ = toy(seed=5)
            program = on_places(places, loss=loss)
            for n in (7, 8, 9):
                exe.run(program, feed={'X': batch(n)}, fetch_list=[])
            ends.append(np.array(fluid.global_scope().find_var('fc_0.w_0').get_tensor()))
    np.testing.assert_allclose(ends[0], ends[1], rtol=0, atol=1e-7)
    np.testing.assert_allclose(ends[0], ends[2], rtol=0, atol=1e-7)


def test_cpu_num_absent_becomes_one():
    exe, loss, _ = toy()
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name)
    value, = exe.run(program, feed={'X': batch()}, fetch_list=[loss.name])
    assert value.shape == (1,)
    assert os.environ['CPU_NUM'] == '1'


def test_return_merged_false_keeps_devices_apart():
    exe, loss, _ = toy()
    program = on_places(2, loss=loss)
    values = exe.run(program, feed={'X': batch(3)}, fetch_list=['fc_0.tmp_1', loss.name],
                     return_merged=False)
    assert [v.shape for v in values[0]] == [(1, 10), (2, 10)]
    merged = exe.run(program, feed={'X': batch(3)}, fetch_list=['fc_0.tmp_1', 'fc_0.b_0'])
    assert merged[0].shape == (3, 10)
    assert merged[1].shape == (20,)


@pytest.mark.parametrize('feed, error, text', [
    ({'X': np.ones((1, 1), 'float32')}, ValueError, '1 samples for 2 devices'),
    ([{'X': np.ones((1, 1), 'float32')}], ValueError, 'a list of 1 for 2 devices'),
    ([np.ones((1, 1), 'float32')] * 2, TypeError, 'must be a dict'),
    ('X', ValueError, 'a dict or a list of dicts'),
    ({'Y': np.ones((2, 1), 'float32')}, ValueError, 'which the program does not have'),
])
def test_wrong_feeds(feed, error, text):
    exe, loss, _ = toy()
    program = on_places(2, loss=loss)
    with pytest.raises(error, match=text):
        exe.run(program, feed=feed, fetch_list=[loss])


def test_wrong_arguments():
    exe, loss, _ = toy()
    with pytest.raises(TypeError, match='must be a Program'):
        fluid.CompiledProgram('main')
    with pytest.raises(TypeError, match='must be a CompiledProgram'):
        fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(share_vars_from=exe)
    with pytest.raises(TypeError, match='must be a ParallelExecutor'):
        fluid.ParallelExecutor(use_cuda=False, share_vars_from=exe)
    with pytest.raises(ValueError, match='gradients start from'):
        fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name='other')
    with pytest.raises(ValueError, match='trainer_id'):
        fluid.ParallelExecutor(use_cuda=False, trainer_id=1)
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = 2, 2
    with pytest.raises(ValueError, match='trainer_id is 2: num_trainers is 2'):
        fluid.CompiledProgram(fluid.default_main_program(), strategy)
    with pytest.raises(AttributeError):
        strategy.fuse_everything = True


def test_feed_dict_is_feed_with_a_warning():
    os.environ['CPU_NUM'] = '2'
    exe, loss, _ = toy()
    parallel = fluid.ParallelExecutor(use_cuda=False, loss_name=loss.name)
    with pytest.warns(DeprecationWarning):
        parallel.run([loss.name], feed_dict={'X': batch()})
    with pytest.raises(ValueError, match='both given'):
        parallel.run([loss.name], feed={'X': batch()}, feed_dict={'X': batch()})


def test_edits_after_compiling_are_seen():
    exe, loss, _ = toy()
    program = fluid.CompiledProgram(fluid.default_main_program())
    exe.run(program, feed={'X': batch()}, fetch_list=[loss])
    twice = loss * 2.0
    both = exe.run(program, feed={'X': batch()}, fetch_list=[loss, twice])
    np.testing.assert_allclose(both[1], 2 * both[0], rtol=1e-6)


def test_explain_answers_for_every_knob():
    _, loss, _ = toy()
    strategy = fluid.ExecutionStrategy()
    strategy.num_threads = 1
    program = on_places(2, loss=loss, exec_strategy=strategy)
    text = program.explain()
    for knob in ('reduce_strategy', 'memory_optimize', 'num_iteration_per_drop_scope'):
        assert knob in text


def test_two_strategies_warn():
    _, loss, _ = toy()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter('always')
        fluid.CompiledProgram(fluid.default_main_program(), fluid.BuildStrategy()).with_data_parallel(
            loss_name=loss.name, build_strategy=fluid.BuildStrategy())
    assert any('with_data_parallel is used' in str(w.message) for w in seen)


def test_batch_norm_statistics_are_merged():
    x = fluid.layers.data(name='x', shape=[3], dtype='float32')
    y = fluid.layers.batch_norm(x, momentum=0.0)
    loss = fluid.layers.mean(y * y)
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = started()
    program = on_places(2, loss=loss)
    data = np.random.RandomState(0).rand(8, 3).astype('float32')
    exe.run(program, feed={'x': data}, fetch_list=[])
    mean = np.array(fluid.global_scope().find_var('batch_norm_0.w_1').get_tensor())
    np.testing.assert_allclose(mean, data.mean(axis=0), rtol=1e-5)


def test_passes_give_the_numbers_of_none(exe):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data('x', [6])
        hidden = fluid.layers.dropout(fluid.layers.fc(x, 5, act='relu'), 0.5)
        loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        fluid.optimizer.Adam(0.1).minimize(loss)
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        feed = {'x': np.random.rand(4, 6).astype('float32')}
        text = exe.check_passes(main, feed, tolerance=1e-6)
        assert 'all: the same numbers' in text and 'merge_equal: the same numbers' in text
        fluid.set_flags({'FLAGS_check_passes': True})
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('error')
                exe.run(main, feed=feed, fetch_list=[loss])
        finally:
            fluid.set_flags({'FLAGS_check_passes': False})


@pytest.mark.parametrize('devices', [1, 2])
def test_a_compiled_program_is_saved_and_goes_on(exe, tmp_path, devices):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = fluid.layers.data('x', [6])
        loss = fluid.layers.mean(fluid.layers.fc(fluid.layers.fc(x, 5, act='relu'), 1))
        fluid.optimizer.Adam(0.1).minimize(loss)
    feed = {'x': np.arange(24, dtype='float32').reshape(4, 6)}
    compiled = fluid.CompiledProgram(main)
    if devices > 1:
        compiled.with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * devices)
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        for _ in range(3):
            exe.run(compiled, feed=feed, fetch_list=[loss])
        compiled.save(tmp_path / 'net', proof_feed=feed, proof_fetch_list=[loss])
        expected = [exe.run(compiled, feed=feed, fetch_list=[loss])[0] for _ in range(3)]
    other = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()), warnings.catch_warnings():
        warnings.simplefilter('error')
        again = fluid.CompiledProgram.load(tmp_path / 'net', other, prove=True)
        got = [other.run(again, feed=feed, fetch_list=[loss.name])[0] for _ in range(3)]
    np.testing.assert_array_equal(expected, got)
    content = bytearray((tmp_path / 'net').read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / 'net').write_bytes(content)
    with pytest.raises(ValueError, match='damaged'):
        fluid.CompiledProgram.load(tmp_path / 'net', other)


def test_every_field_of_both_versions_is_there():
    build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    execution.use_cuda = False
    assert execution._use_device == fluid.core.DeviceType.CPU
    execution._use_device = fluid.core.DeviceType.CUDA
    assert execution.use_cuda
    _, loss, _ = toy()
    text = fluid.CompiledProgram(fluid.default_main_program(), build).explain()
    for strategy in (build, execution):
        for field in dir(type(strategy)):
            if isinstance(getattr(type(strategy), field), property):
                assert f'  {field} = ' in text, field


@pytest.mark.parametrize('field, value, text', [
    ('num_trainers', 'two', 'BuildStrategy.num_trainers is a whole number'),
    ('memory_optimize', 3, 'memory_optimize is None, True or False'),
    ('fuse_bn_act_ops', 'yes', 'fuse_bn_act_ops is True or False'),
    ('reduce_strategy', 'Reduce', 'one of BuildStrategy.ReduceStrategy'),
    ('mkldnn_enabled_op_types', 'conv2d', 'a set of str'),
])
def test_a_field_of_the_wrong_type_is_named(field, value, text):
    with pytest.raises(TypeError, match=text):
        setattr(fluid.BuildStrategy(), field, value)


def test_a_field_that_does_not_exist_is_answered_with_one_that_does():
    with pytest.raises(AttributeError, match='did you mean num_threads'):
        fluid.ExecutionStrategy().num_thread = 2


@pytest.mark.parametrize('field, value', [
    ('nccl_comm_num', 0), ('num_trainers', 0), ('trainer_id', -1), ('debug_graphviz_path', 'a\nb'),
    ('hierarchical_allreduce_inter_nranks', -2), ('passes_off', ['fuse_nothing'])])
def test_a_value_without_meaning_is_refused(field, value):
    strategy = fluid.BuildStrategy()
    setattr(strategy, field, value)
    with pytest.raises(ValueError, match=f'BuildStrategy.{field} is '):
        fluid.CompiledProgram(fluid.Program(), strategy)


def test_edits_of_a_strategy_after_it_was_given_are_warned_about():
    _, loss, _ = toy()
    build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    program = on_places(2, loss=loss, build_strategy=build, exec_strategy=execution)
    with pytest.warns(UserWarning, match='num_threads is set after') as told:
        execution.num_threads = 1
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match='sync_batch_norm is set after'):
        build.sync_batch_norm = True
    assert 'num_threads = 0' in program.explain() and 'sync_batch_norm = False' in program.explain()
    copy = build._copy()
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        copy.sync_batch_norm = False
        build.sync_batch_norm = True  # no change


def test_a_finalized_strategy_is_locked_and_lists_the_passes():
    exe, loss, _ = toy()
    strategy = fluid.BuildStrategy()
    passes = strategy._finalize_strategy_and_create_passes()
    names = [one.type() for one in passes.all_passes()]
    with pytest.raises(RuntimeError, match='_clear_finalized'):
        strategy.fuse_bn_act_ops = True
    strategy.enable_inplace = False  # not among the locked
    passes.remove_pass(names.index('fuse_elementwise'))
    with pytest.raises(RuntimeError, match='there is no pass'):
        passes.append_pass('fuse_everything')
    with pytest.raises(IndexError):
        passes.remove_pass(99)
    compiled = fluid.CompiledProgram(fluid.default_main_program(), strategy)
    exe.run(compiled, feed={'X': batch()}, fetch_list=[loss])
    assert 'fuse_elementwise:' not in compiled.explain() and 'merge_equal:' in compiled.explain()
    strategy._clear_finalized()


def test_a_graph_is_compiled_and_has_no_program_to_save(tmp_path):
    exe, loss, _ = toy()
    graph = fluid.core.Graph(fluid.default_main_program().desc)
    wrapped = fluid.framework.IrGraph(graph, for_test=False)
    for program in (graph, wrapped, wrapped.clone().graph):
        compiled = fluid.CompiledProgram(program)
        assert exe.run(compiled, feed={'X': batch()}, fetch_list=[loss.name])[0].shape == (1,)
        with pytest.raises(TypeError, match='made from a Graph'):
            fluid.io.save_persistables(exe, str(tmp_path), compiled)
        with pytest.raises(TypeError, match='made from a Graph'):
            fluid.io.save(compiled, str(tmp_path / 'x'))
    assert len(wrapped.to_program().global_block().ops) > 0
    with pytest.raises(NotImplementedError, match='create_op_node'):
        wrapped.create_op_node('relu', {}, {}, {})
    with pytest.raises(TypeError, match='compile its Program again'):
        fluid.CompiledProgram(compiled)


def test_saving_the_program_of_a_compiled_one_warns_at_the_users_line(tmp_path):
    exe, _, _ = toy()
    with pytest.warns(UserWarning, match='saved and loaded as the Program') as told:
        fluid.io.save_persistables(exe, str(tmp_path), fluid.CompiledProgram(fluid.default_main_program()))
    assert told[0].filename == __file__


def test_pictures_are_drawn_for_whoever_asks(tmp_path):
    exe, loss, _ = toy()
    main = fluid.default_main_program()
    exe.run(main, feed={'X': batch()}, fetch_list=[loss])  # the plan is there already
    for name in ('one', 'two'):
        strategy = fluid.BuildStrategy()
        strategy.debug_graphviz_path = str(tmp_path / name)
        exe.run(fluid.CompiledProgram(main, strategy), feed={'X': batch()}, fetch_list=[loss])
        assert (tmp_path / f'{name}_before.dot').exists() and (tmp_path / f'{name}_after.dot').exists()
    (tmp_path / 'file').write_text('')
    strategy = fluid.BuildStrategy()
    strategy.debug_graphviz_path = str(tmp_path / 'file' / 'x')
    with pytest.raises(OSError, match='BuildStrategy.debug_graphviz_path'):
        exe.run(fluid.CompiledProgram(main, strategy), feed={'X': batch()}, fetch_list=[loss])


def test_one_program_compiled_two_ways_explains_its_own_plan():
    exe, loss, _ = toy()
    main = fluid.default_main_program()
    alone = fluid.CompiledProgram(main)
    double = fluid.CompiledProgram(main).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
    assert 'no plan yet' in alone.explain()
    exe.run(alone, feed={'X': batch()}, fetch_list=[loss])
    exe.run(double, feed={'X': batch()}, fetch_list=[loss])
    assert '\neach device\n' in double.explain() and '\neach device\n' not in alone.explain()
    assert 'changed nothing' in alone.explain()


@pytest.mark.parametrize('devices', [1, 2])
def test_memory_is_known_before_the_run(devices):
    exe, loss, _ = toy()
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    if devices > 1:
        compiled.with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * devices)
    few = compiled.memory(exe, feed={'X': batch(10)}, fetch_list=[loss])
    many = compiled.memory(exe, feed={'X': batch(1000)}, fetch_list=[loss])
    assert few['parameters'] == many['parameters'] == 4 * (10 + 10 + 1)
    assert many['feeds'] == 4000 and many['arena'] >= many['live'] > few['live']
    assert few['exact'] and many['exact']
    assert 'memory' in compiled.explain() and exe._engine.counters['compiles'] == 2  # with startup's
    exe.run(compiled, feed={'X': batch(1000)}, fetch_list=[loss])
    assert exe._engine.counters['compiles'] == 2
    with pytest.raises(TypeError, match='must be an Executor'):
        compiled.memory(None)


def recurrent(x):
    rnn = fluid.layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 8], batch_ref=word)
        now = fluid.layers.tanh(fluid.layers.fc([word, before], 8))
        rnn.update_memory(before, now)
        rnn.step_output(now)
    return rnn()


def looped(x):
    """Goes round as often as the data says."""
    h, i, n = fluid.layers.scale(x), fluid.layers.fill_constant([1], 'int64', 0), fluid.layers.fill_constant([1], 'int64', 3)
    more = fluid.layers.less_than(i, n)
    with fluid.layers.While(more).block():
        fluid.layers.assign(fluid.layers.fc(h, 8, num_flatten_dims=2), h)
        fluid.layers.increment(i)
        fluid.layers.less_than(i, n, cond=more)
    return h


@pytest.mark.parametrize('net, known', [(recurrent, True), (looped, False)])
@pytest.mark.parametrize('devices', [1, 2])
def test_memory_of_a_loop(net, known, devices):
    x = fluid.data('x', [5, None, 8])
    loss = fluid.layers.mean(net(x))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = started()
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    if devices > 1:
        compiled.with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * devices)
    feed = {'x': np.ones((5 * devices, 6, 8), 'float32')}
    before = _C.allocated_bytes()
    told = compiled.memory(exe, feed, [loss])
    assert told['exact'] == known
    exe.run(compiled, feed=feed, fetch_list=[loss])
    taken = compiled.memory(exe, feed, [loss])
    assert taken['exact']
    needed = {key: told[key] for key in ('arena', 'scratch', 'own')}
    assert (needed == {key: taken[key] for key in needed}) == known
    if known:
        assert sum(needed.values()) == _C.allocated_bytes() - before
        assert 'to keep 5 iterations, for the sub-block of recurrent at' in compiled.explain()
    else:
        assert taken['own'] > told['own']


def test_all_shapes_are_saved_and_wrong_arguments_named(tmp_path):
    exe, loss, _ = toy()
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    for n in (4, 6, 8, 4):  # the last one is bound already
        exe.run(compiled, feed={'X': batch(n)}, fetch_list=[loss])
    compiled.save(tmp_path / 'net')
    content = (tmp_path / 'net').read_bytes()
    for n in (4, 6, 8):  # a feed: name, type, rank, extents
        assert b'X' + (5).to_bytes(4, 'little') + (2).to_bytes(4, 'little') + n.to_bytes(8, 'little') in content
    other = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()), warnings.catch_warnings():
        warnings.simplefilter('error')
        again = fluid.CompiledProgram.load(tmp_path / 'net', other)
        compiles = other._engine.counters['compiles']
        other.run(again, feed={'X': batch(6)}, fetch_list=[loss.name])
        assert other._engine.counters['compiles'] == compiles
    with pytest.raises(RuntimeError, match='holds no value'):
        compiled.save(tmp_path / 'none', scope=fluid.Scope())
    for wrong in (dict(path=None), dict(path='x', scope='s'), dict(path='x', proof_feed=[1], proof_fetch_list=[loss]),
                  dict(path='x', proof_fetch_list=[3])):
        with pytest.raises(TypeError):
            compiled.save(**wrong)
    with pytest.raises(TypeError, match='executor must be an Executor'):
        fluid.CompiledProgram.load(tmp_path / 'net', None)


def test_a_shape_that_is_fed_is_not_known_to_a_file(tmp_path):
    x, times = fluid.data('x', [None, 2]), fluid.data('times', [2], 'int32')
    total = fluid.layers.reduce_sum(fluid.layers.square(fluid.layers.expand(x, times)))
    exe = fluid.Executor(fluid.CPUPlace())
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    feed = {'x': np.ones((3, 2), 'float32'), 'times': np.array([2, 5], 'int32')}
    assert compiled.memory(exe, feed, [total])['exact']
    assert exe.run(compiled, feed=feed, fetch_list=[total])[0] == 60
    compiled.save(tmp_path / 'net')
    other = fluid.Executor(fluid.CPUPlace())
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        again = fluid.CompiledProgram.load(tmp_path / 'net', other)
    for times in ([2, 5], [1, 1], [2, 5]):
        feed['times'] = np.array(times, 'int32')
        assert other.run(again, feed=feed, fetch_list=[total.name])[0] == 6 * times[0] * times[1]


def test_what_is_wrong_is_said_when_the_run_comes_to_it(capfd):
    x, y = fluid.data('x', [None, 4]), fluid.data('y', [None, 4])
    fluid.layers.Print(x, message='seen before the error')
    total = fluid.layers.elementwise_add(x, y)
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {'x': np.ones((2, 4), 'float32'), 'y': np.ones((3, 4), 'float32')}
    for _ in range(2):
        with pytest.raises(ValueError, match='dimension 0 is 2 against 3'):
            exe.run(feed=feed, fetch_list=[total])
        assert 'seen before the error' in capfd.readouterr().out


@pytest.mark.parametrize('taken', [False, True])
def test_a_branch_without_a_kernel_stops_only_who_takes_it(taken):
    x = fluid.data('x', [None, 4])
    number = lambda value: fluid.layers.fill_constant([1], 'float32', value)
    mask = lambda: fluid.layers.cast(x, 'bool')
    total = fluid.layers.reduce_sum(fluid.layers.cond(
        fluid.layers.less_than(number(1.0 if taken else 3.0), number(2.0)),
        lambda: fluid.layers.cast(fluid.layers.elementwise_mod(mask(), mask()), 'float32'),
        lambda: fluid.layers.scale(x, 2.0)))
    exe = fluid.Executor(fluid.CPUPlace())
    compiled = fluid.CompiledProgram(fluid.default_main_program())
    feed = {'x': np.ones((2, 4), 'float32')}
    assert not compiled.memory(exe, feed, [total])['exact']
    for _ in range(2):
        if taken:
            with pytest.raises(NotImplementedError, match='no kernel for bool'):
                exe.run(compiled, feed=feed, fetch_list=[total])
        else:
            assert exe.run(compiled, feed=feed, fetch_list=[total])[0] == 16


def test_passes_are_checked_on_several_devices(monkeypatch):
    exe, loss, _ = toy()
    compiled = on_places(2, loss=loss)
    text = exe.check_passes(compiled, {'X': batch()})
    assert text.count('the same numbers') == text.count('\n') > 5
    for wrong in (3, [{}, {}]):
        with pytest.raises((TypeError, AssertionError)):
            exe.check_passes(compiled, wrong)
    with pytest.raises(TypeError, match='Program or a CompiledProgram'):
        exe.check_passes('main', {})
    with pytest.raises(ValueError, match='tolerance is -1'):
        exe.check_passes(compiled, {'X': batch()}, tolerance=-1)


def test_a_loss_name_that_is_nothing_is_told_where_none_is_needed():
    _, _, test_program = toy()
    with pytest.warns(UserWarning, match='loss_name is nope'):
        fluid.CompiledProgram(test_program).with_data_parallel(loss_name='nope', places=[fluid.CPUPlace()])


@pytest.mark.parametrize('variables, threads, warned', [
    ({'FLAGS_paddle_num_threads': '1'}, 1, False), ({'FLAGS_paddle_num_threads': '3'}, 3, False),
    ({'FLAGS_paddle_num_threads': '1', 'OMP_NUM_THREADS': '4'}, 1, False),
    ({'OMP_NUM_THREADS': '1'}, 1, False), ({'OMP_NUM_THREADS': '3,1'}, 3, False),
    ({'OMP_NUM_THREADS': 'many'}, len(os.sched_getaffinity(0)), True),
    ({'OMP_NUM_THREADS': '99999999999'}, 1024, True)])
def test_the_environment_says_how_many_threads(variables, threads, warned):
    environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}
    for name in ('OMP_NUM_THREADS', 'FLAGS_paddle_num_threads'):
        environment.pop(name, None)
    source = 'import paddle.fluid as fluid; print(fluid.CompiledProgram(fluid.Program()).explain())'
    done = subprocess.run([sys.executable, '-c', source], env={**environment, **variables},
                          capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f'devices: 1 CPU, threads: {threads}\n')
    assert ('UserWarning' in done.stderr) == warned


def test_a_file_that_fails_halfway_leaves_the_scope_as_it_was(tmp_path):
    """Whoever changes a file can make its hashes fit again: what it says is checked too."""
    exe, _, _ = toy()
    fluid.CompiledProgram(fluid.default_main_program()).save(tmp_path / 'net')
    content = (tmp_path / 'net').read_bytes()
    name = b'parameters'
    begin = content.index(len(name).to_bytes(8, 'little') + name) + 8 + len(name)
    size = int.from_bytes(content[begin + 32:begin + 40], 'little')
    section = content[begin + 40:begin + 40 + size].replace(b'learning_rate_0', b'learning_rate_9')
    (tmp_path / 'net').write_bytes(content[:begin] + hashlib.sha256(name + b'\n' + section).digest()
                                   + content[begin + 32:begin + 40] + section + content[begin + 40 + size:])
    scope = fluid.Scope()
    exe.run(fluid.default_startup_program(), scope=scope)
    before = np.array(scope.find_var('fc_0.w_0').get_tensor())
    with pytest.raises(ValueError, match='no parameter learning_rate_9'):
        fluid.CompiledProgram.load(tmp_path / 'net', exe, scope=scope)
    np.testing.assert_array_equal(before, np.array(scope.find_var('fc_0.w_0').get_tensor()))
