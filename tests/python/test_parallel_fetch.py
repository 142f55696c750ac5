"""Fetching from several devices: joined by default, apart, one copy, or the mean."""
import numpy as np
import pytest

import paddle.fluid as fluid
from parallel_toy import Toy, batch, value

layers = fluid.layers


def parallel(places=2, **options):
    return fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * places, **options)


@pytest.mark.parametrize('places', [1, 2, 3, 4])
def test_a_loss_becomes_a_value_per_device(places):
    toy = Toy()
    x = batch(8)
    found, = toy.run(toy.parallel(places, toy.test_program), {'X': x})
    assert found.shape == (places,)
    weight, = (value('fc_0.w_0'),)
    expected = [(x[8 * i // places:8 * (i + 1) // places] @ weight).mean() for i in range(places)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_results_are_joined_in_device_order():
    toy = Toy()
    x = batch(7)
    found, = toy.run(toy.parallel(3, toy.test_program), {'X': x}, [toy.hidden])
    np.testing.assert_allclose(found, x @ value('fc_0.w_0'), rtol=1e-5)


def test_parameters_come_once_per_device():
    toy = Toy()
    found, = toy.run(toy.parallel(3), None, ['fc_0.w_0'])
    assert found.shape == (3, 10)
    np.testing.assert_array_equal(found, np.tile(value('fc_0.w_0'), (3, 1)))


@pytest.mark.parametrize('face', ['compiled', 'executor'])
def test_fetch_one_gives_a_single_copy(face, monkeypatch):
    monkeypatch.setenv('CPU_NUM', '3')
    toy = Toy()
    if face == 'compiled':
        found, = toy.run(toy.parallel(3).fetch_one('fc_0.w_0'), None, ['fc_0.w_0'])
    else:
        executor = fluid.ParallelExecutor(False, loss_name=toy.loss.name).fetch_one('fc_0.w_0')
        found, = executor.run(['fc_0.w_0'], feed={'X': batch()})
    np.testing.assert_array_equal(found, value('fc_0.w_0'))


@pytest.mark.parametrize('places', [1, 2, 3, 4])
def test_fetch_mean_is_the_loss_of_the_whole_batch(places):
    toy = Toy()
    x = batch(7)
    whole, = toy.run(toy.test_program, {'X': x})
    found, = toy.run(toy.parallel(places).fetch_mean(toy.loss), {'X': x})
    np.testing.assert_allclose(found, whole, rtol=1e-5)


def test_fetch_mean_refuses_what_has_no_mean():
    toy = Toy()
    with pytest.raises(ValueError, match='have no mean'):
        toy.run(toy.parallel().fetch_mean('X'), {'X': batch(3)}, ['X'])
    with pytest.raises(TypeError, match='take Variables or names'):
        toy.parallel().fetch_one(3)


def test_devices_are_kept_apart_on_request():
    toy = Toy()
    found = toy.run(toy.parallel(), {'X': batch(3)}, [toy.hidden, toy.loss], return_merged=False)
    assert [piece.shape for piece in found[0]] == [(1, 10), (2, 10)]
    assert [piece.shape for piece in found[1]] == [(1,), (1,)]


def test_idle_devices_are_left_out():
    toy = Toy()
    found = toy.run(toy.parallel(4, toy.test_program), {'X': batch(2)}, return_merged=False)
    assert len(found[0]) == 2


def test_a_name_may_be_fetched_twice():
    toy = Toy()
    first, second, third = toy.run(toy.parallel(), None, [toy.loss, toy.loss.name, toy.loss])
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)


def test_gradients_come_summed():
    toy = Toy()
    x = batch(3)
    alone, = toy.run(toy.main, {'X': x}, ['fc_0.w_0@GRAD'])
    found, = toy.run(toy.parallel().fetch_one('fc_0.w_0@GRAD'), {'X': x}, ['fc_0.w_0@GRAD'])
    np.testing.assert_allclose(found, alone, rtol=1e-5)


def test_loss_gradients_are_the_devices_shares():
    toy = Toy()
    found, = toy.run(toy.parallel(), {'X': batch(4)}, [toy.loss.name + '@GRAD'])
    np.testing.assert_array_equal(found, [0.5, 0.5])
    found, = toy.run(toy.parallel(), {'X': batch(3)}, [toy.loss.name + '@GRAD'])
    np.testing.assert_allclose(found, [1 / 3, 2 / 3], rtol=1e-6)


def test_sparse_gradients_can_be_fetched():
    ids = layers.data(name='ids', shape=[1], dtype='int64')
    loss = layers.mean(layers.embedding(ids, size=[20, 2], is_sparse=True))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed, names = {'ids': np.array([[1], [2], [2], [5]])}, ['embedding_0.w_0@GRAD']
    program = parallel(loss_name=loss.name)
    per_device, = exe.run(program, feed=feed, fetch_list=names)
    assert [rows.rows() for rows in per_device] == [[1, 2, 5]] * 2
    one, = exe.run(program.fetch_one(*names), feed=feed, fetch_list=names)
    assert (one.rows(), one.height()) == ([1, 2, 5], 20)
    np.testing.assert_allclose(np.array(one.get_tensor()), [[1 / 8] * 2, [1 / 4] * 2, [1 / 8] * 2])


def test_sequences_are_joined_with_their_lengths():
    words = layers.data(name='words', shape=[1], lod_level=1, dtype='float32')
    twice = layers.scale(words, 2.0)
    tensor = fluid.create_lod_tensor(np.arange(6, dtype='float32').reshape(6, 1), [[1, 3, 2]],
                                     fluid.CPUPlace())
    exe = fluid.Executor(fluid.CPUPlace())
    found, = exe.run(parallel(), feed={'words': tensor}, fetch_list=[twice], return_numpy=False)
    assert found.recursive_sequence_lengths() == [[1, 3, 2]]
    apart, = exe.run(parallel(), feed={'words': tensor}, fetch_list=[twice], return_numpy=False,
                     return_merged=False)
    assert [piece.recursive_sequence_lengths() for piece in apart] == [[[1]], [[3, 2]]]


def test_results_of_unlike_shapes_say_how_to_fetch_them():
    x = layers.data(name='x', shape=[-1, -1], dtype='float32')
    turned = layers.transpose(x, [1, 0])
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {'x': np.ones((3, 2), 'float32')}
    with pytest.raises(ValueError, match='return_merged=False'):
        exe.run(parallel(), feed=feed, fetch_list=[turned])
    apart, = exe.run(parallel(), feed=feed, fetch_list=[turned], return_merged=False)
    assert [piece.shape for piece in apart] == [(2, 1), (2, 2)]


def test_what_memory_reuse_would_have_destroyed_can_be_fetched():
    x = layers.data(name='x', shape=[4], dtype='float32')
    values = [x]
    for _ in range(6):
        values.append(layers.relu(layers.scale(values[-1], 1.5)))
    loss = layers.mean(values[-1])
    strategy = fluid.BuildStrategy()
    strategy.memory_optimize = True
    strategy.enable_inplace = True
    data = np.random.RandomState(0).rand(6, 4).astype('float32')
    program = parallel(build_strategy=strategy)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(program, feed={'x': data}, fetch_list=[loss])
    found = exe.run(program, feed={'x': data}, fetch_list=values)
    for i, each in enumerate(found):
        np.testing.assert_allclose(each, data * 1.5 ** i, rtol=1e-5)


def test_an_unknown_fetch_is_named():
    toy = Toy()
    with pytest.raises(RuntimeError, match='fetch_list names nothing_here'):
        toy.run(toy.parallel(), None, ['nothing_here'])


def test_a_fetch_list_of_another_type_is_refused():
    toy = Toy()
    with pytest.raises(TypeError, match='fetch_list holds a int'):
        toy.run(toy.parallel(), None, [3])


def test_nothing_fetched_is_an_empty_list():
    toy = Toy()
    assert toy.run(toy.parallel(), None, []) == []


def test_tensors_on_request():
    toy = Toy()
    found, = toy.run(toy.parallel(), return_numpy=False)
    assert isinstance(found, fluid.LoDTensor)
    assert found.shape() == [2]


def test_a_fetched_array_is_the_callers_own():
    toy = Toy()
    program = toy.parallel()
    first, = toy.run(program)
    kept = first.copy()
    toy.run(program)
    np.testing.assert_array_equal(first, kept)


def test_minimize_in_the_fetch_list_trains():
    x = layers.data(name='x', shape=[1], dtype='float32')
    loss = layers.mean(layers.fc(x, 1))
    ops = fluid.optimizer.SGD(0.1).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    before = value('fc_0.w_0')
    exe.run(parallel(loss_name=loss.name), feed={'x': batch(4)}, fetch_list=[loss, ops])
    assert not np.array_equal(value('fc_0.w_0'), before)


def test_images_in_blocks_are_fetched_from_each_device():
    """What a device has in another layout is laid out by that device, not by the first for all."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup):
        image = fluid.data('image', [None, 3, 8, 8])
        planes = fluid.layers.conv2d(image, 16, 3)
        loss = fluid.layers.mean(fluid.layers.relu(fluid.layers.batch_norm(planes)))
        fluid.optimizer.SGD(0.1).minimize(loss)
    images = np.random.RandomState(4).rand(8, 3, 8, 8).astype('float32')
    exe, found = fluid.Executor(fluid.CPUPlace()), []
    for program in (main, fluid.CompiledProgram(main).with_data_parallel(loss_name=loss.name,
                                                                         places=[fluid.CPUPlace()] * 2)):
        with fluid.scope_guard(fluid.Scope()):
            exe.run(startup)
            found.append(exe.run(program, feed={'image': images}, fetch_list=[planes])[0])
    np.testing.assert_array_equal(found[0], found[1])
