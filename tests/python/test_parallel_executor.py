"""ParallelExecutor, the older face of with_data_parallel.

Beside each behaviour of the original that is not kept stands what happens here instead.
"""
import os

import numpy as np
import pytest

import _trireme as _C
import paddle
import paddle.fluid as fluid
import paddle.static as static
from parallel_toy import Toy, batch, value


pytestmark = pytest.mark.usefixtures('environment')


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


def test_two_trainers_must_have_met():
    toy = Toy()
    one_of_two = fluid.ParallelExecutor(use_cuda=False, loss_name=toy.loss.name, num_trainers=2, trainer_id=1)
    with pytest.raises(RuntimeError, match='have not met.*\n.*startup program'):
        one_of_two.run([toy.loss.name], feed={'X': batch()})


@pytest.mark.skipif(fluid.is_compiled_with_cuda(), reason='this machine has a GPU')
def test_use_cuda_says_what_is_missing():
    toy = Toy()
    with pytest.raises(fluid.core.UnavailableError, match='gpu:0 cannot be used|no GPU can be used'):
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


def test_a_program_for_several_trainers_does_not_train_alone():
    toy = Toy()
    config = fluid.DistributeTranspilerConfig()
    config.mode, config.wait_port = 'nccl2', False
    ends = '127.0.0.1:6174,127.0.0.1:6175'
    fluid.DistributeTranspiler(config).transpile(1, trainers=ends, current_endpoint='127.0.0.1:6175')
    with pytest.raises(RuntimeError, match='transpiled for 2 trainers .* num_trainers is 1: it would train alone') as error:
        fluid.ParallelExecutor(False, toy.loss.name)
    assert 'give num_trainers=2 and trainer_id=1' in str(error.value)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.ParallelExecutor(False, main_program=test)  # testing alone is right
