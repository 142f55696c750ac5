"""CompiledProgram and ParallelExecutor as the documents use them, on CPU places."""
import os
import warnings

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
import paddle.static as static


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
    fluid.default_startup_program().random_seed = seed or 0
    data = fluid.layers.data(name='X', shape=[1], dtype='float32')
    hidden = fluid.layers.fc(input=data, size=10)
    loss = fluid.layers.mean(hidden)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, loss, test_program


def batch(n=10):
    return np.random.RandomState(n).random_sample((n, 1)).astype('float32')


def test_documents_example_of_compiled_program():
    exe, loss, test_program = toy()
    places = [fluid.CPUPlace()] * 2
    train = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=places)
    test = fluid.CompiledProgram(test_program).with_data_parallel(share_vars_from=train, places=places)
    value, = exe.run(train, feed={'X': batch()}, fetch_list=[loss.name])
    assert value.shape == (2,)
    before, = exe.run(test, feed={'X': batch()}, fetch_list=[loss.name])
    for _ in range(3):
        exe.run(train, feed={'X': batch()}, fetch_list=[loss.name])
    after, = exe.run(test, feed={'X': batch()}, fetch_list=[loss.name])
    assert (after < before).all()


def test_documents_example_of_static():
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        data = static.data(name='X', shape=[None, 1], dtype='float32')
        hidden = static.nn.fc(x=data, size=10)
        loss = paddle.mean(hidden)
        paddle.optimizer.SGD(learning_rate=0.01).minimize(loss)
    exe = static.Executor(paddle.CPUPlace())
    exe.run(startup)
    compiled = static.CompiledProgram(main)
    value, = exe.run(compiled, feed={'X': batch()}, fetch_list=[loss.name])
    assert value.shape == (1,)


def test_documents_example_of_parallel_executor():
    os.environ['CPU_NUM'] = '2'
    exe, loss, test_program = toy()
    train_exe = fluid.ParallelExecutor(use_cuda=False, main_program=fluid.default_main_program(),
                                       loss_name=loss.name)
    test_exe = fluid.ParallelExecutor(use_cuda=False, main_program=test_program,
                                      share_vars_from=train_exe)
    assert train_exe.device_count == 2
    value, = train_exe.run(feed={'X': batch()}, fetch_list=[loss.name])
    assert value.shape == (2,)
    value, = test_exe.run(feed={'X': batch()}, fetch_list=[loss.name])
    assert value.shape == (2,)
    value, = train_exe.run(feed=[{'X': batch(10)}, {'X': batch(9)}], fetch_list=[loss.name])
    assert value.shape == (2,)
    train_exe.drop_local_exe_scopes()
    train_exe.run(feed={'X': batch()}, fetch_list=[loss.name])


def test_one_device_and_several_train_alike():
    ends = []
    for places in (1, 2, 3):
        with fluid.scope_guard(fluid.core.Scope()), fluid.unique_name.guard(), \
                fluid.program_guard(fluid.Program(), fluid.Program()):
            exe, loss, _ = toy(seed=5)
            program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
                loss_name=loss.name, places=[fluid.CPUPlace()] * places)
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
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
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
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
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
    strategy.num_trainers = 2
    with pytest.raises(NotImplementedError, match='several processes'):
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
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, exec_strategy=strategy, places=[fluid.CPUPlace()] * 2)
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
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=loss.name, places=[fluid.CPUPlace()] * 2)
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
