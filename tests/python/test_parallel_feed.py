"""Feeding several devices: how a batch is shared out, what is refused, and readers."""
import warnings

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from parallel_toy import Toy, batch, on_places, started, trained, value

layers = fluid.layers


def pieces(places, rows):
    """How many samples each device has of a batch."""
    toy = Toy()
    found = toy.run(toy.parallel(places), {'X': batch(rows)}, ['X'], return_merged=False)[0]
    return [len(piece) for piece in found]


@pytest.mark.parametrize('rows, places, expected', [
    (3, 2, [1, 2]), (5, 2, [2, 3]), (10, 4, [2, 3, 2, 3]), (6, 4, [1, 2, 1, 2]), (5, 4, [1, 1, 1, 2]),
    (9, 8, [1] * 7 + [2]), (10, 2, [5, 5]), (4, 4, [1] * 4), (7, 1, [7]),
])
def test_a_dict_is_split_by_the_documented_rule(rows, places, expected):
    assert pieces(places, rows) == expected


@pytest.fixture
def by_chunks():
    fluid.set_flags({'FLAGS_split_by_chunks': True})
    yield
    fluid.set_flags({'FLAGS_split_by_chunks': False})


@pytest.mark.parametrize('rows, places, expected', [
    (3, 2, [2, 1]), (5, 2, [3, 2]), (10, 4, [3, 3, 3, 1]), (10, 2, [5, 5]), (4, 4, [1] * 4), (7, 1, [7])])
def test_a_flag_splits_as_the_originals_code(rows, places, expected, by_chunks):
    """Since 1.8 it does not do what its documents say."""
    assert pieces(places, rows) == expected


def test_chunks_may_leave_devices_without_samples(by_chunks):
    toy = Toy()
    with pytest.raises(ValueError, match='6 samples: in chunks of 2 they reach 3 of 4 devices'):
        toy.run(toy.parallel(4), {'X': batch(6)})
    with pytest.warns(UserWarning, match='leaves 1 of 4 devices idle'):
        found, = toy.run(toy.parallel(4, toy.test_program), {'X': batch(6)}, ['X'], return_merged=False)
    assert [len(piece) for piece in found] == [2, 2, 2]


@pytest.mark.parametrize('places', [2, 3])
def test_chunks_train_as_one_device(places, by_chunks):
    """Here each device counts by its samples, whichever the rule."""
    np.testing.assert_allclose(trained(1), trained(places), rtol=0, atol=1e-7)


def test_samples_keep_their_order():
    toy = Toy()
    x = batch(7)
    first, second = toy.run(toy.parallel(), {'X': x}, ['X'], return_merged=False)[0]
    np.testing.assert_array_equal(first, x[:3])
    np.testing.assert_array_equal(second, x[3:])


def lod_toy():
    words = layers.data(name='words', shape=[1], lod_level=1, dtype='float32')
    out = layers.sequence_pool(words, 'sum')
    exe = fluid.Executor(fluid.CPUPlace())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    return exe, program, out


def test_sequences_go_whole_to_a_device():
    exe, program, out = lod_toy()
    words = fluid.create_lod_tensor(np.arange(6, dtype='float32').reshape(6, 1), [[1, 3, 2]],
                                    fluid.CPUPlace())
    split, = exe.run(program, feed={'words': words}, fetch_list=['words'], return_numpy=False,
                     return_merged=False)
    assert [piece.recursive_sequence_lengths() for piece in split] == [[[1]], [[3, 2]]]
    sums, = exe.run(program, feed={'words': words}, fetch_list=[out])
    np.testing.assert_array_equal(sums, [[0], [6], [9]])


def test_two_levels_of_sequences_are_split_by_the_outer():
    words = layers.data(name='words', shape=[1], lod_level=2, dtype='float32')
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    tensor = fluid.create_lod_tensor(np.arange(6, dtype='float32').reshape(6, 1),
                                     [[1, 2], [2, 1, 3]], fluid.CPUPlace())
    layers.scale(words, 2.0)
    exe = fluid.Executor(fluid.CPUPlace())
    split, = exe.run(program, feed={'words': tensor}, fetch_list=['words'], return_numpy=False,
                     return_merged=False)
    assert [piece.recursive_sequence_lengths() for piece in split] == [[[1], [2]], [[2], [1, 3]]]


def test_pieces_share_the_memory_of_the_batch():
    toy = Toy(train=False)
    x = batch(4)
    tensor = fluid.LoDTensor()
    tensor.set(x, fluid.CPUPlace())
    program = toy.parallel(program=toy.main)
    first, = toy.run(program, {'X': tensor}, [toy.hidden])
    np.asarray(tensor)[:] = 0  # seen by the next run: nothing was kept aside
    second, = toy.run(program, {'X': tensor}, [toy.hidden])
    assert not np.array_equal(first, second)


def test_a_list_gives_each_device_its_own_batch():
    toy = Toy()
    found = toy.run(toy.parallel(), [{'X': batch(10)}, {'X': batch(9)}], ['X'], return_merged=False)
    assert [len(piece) for piece in found[0]] == [10, 9]


@pytest.mark.parametrize('feed, error, text', [
    ({'X': batch(1)}, ValueError, '1 samples for 2 devices'),
    ({'X': batch(0)}, ValueError, '0 samples for 2 devices'),
    ([{'X': batch(1)}], ValueError, 'a list of 1 for 2 devices'),
    ([{'X': batch(1)}] * 3, ValueError, 'a list of 3 for 2 devices'),
    ([], ValueError, 'a list of 0 for 2 devices'),
    ([{'X': batch(1)}, {}], ValueError, 'device 1 is not fed X'),
    ([batch(1), batch(1)], TypeError, 'element 0 is a ndarray'),
    ([{'X': batch(1)}, 3], TypeError, 'element 1 is a int'),
    (7, ValueError, 'a dict or a list of dicts, got int'),
    ('X', ValueError, 'a dict or a list of dicts, got str'),
    ({'Y': batch(2)}, ValueError, 'feed names Y'),
    ([{'X': batch(1)}, {'X': batch(1), 'Y': batch(1)}], ValueError, 'feed names Y'),
])
def test_wrong_feeds_are_refused_with_counts_and_names(feed, error, text):
    toy = Toy()
    with pytest.raises(error, match=text):
        toy.run(toy.parallel(), feed)


def test_too_few_samples_come_with_the_advice_to_drop_the_batch():
    toy = Toy()
    with pytest.raises(ValueError, match='drop a last batch'):
        toy.run(toy.parallel(4), {'X': batch(3)})


@pytest.mark.parametrize('places', [0, 2])
def test_a_feed_that_the_program_overwrites_warns_with_the_line(places):
    """The original says nothing. With use_prune the feed is what counts."""
    toy = Toy()
    program = toy.parallel(places, toy.test_program) if places else toy.test_program
    feed = {'X': batch(4), toy.hidden.name: np.full((4, 10), 7, 'float32')}
    with pytest.warns(UserWarning, match=f'feed of {toy.hidden.name} has no effect: elementwise_add '
                                         r'computes that variable, asked for at .*parallel_toy.py:\d+'):
        toy.run(program, feed)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        found, = toy.run(program, feed, use_prune=True)
    np.testing.assert_array_equal(found, np.full(max(places, 1), 7))


def test_what_is_not_fed_is_named():
    toy = Toy()
    with pytest.raises(Exception, match='X'):
        toy.run(toy.parallel(), {})


def test_a_wrong_shape_names_the_variable():
    x = fluid.data(name='x', shape=[None, 3], dtype='float32')
    out = layers.mean(x)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    with pytest.raises(ValueError, match='x'):
        fluid.Executor(fluid.CPUPlace()).run(program, feed={'x': np.ones((4, 2), 'float32')},
                                             fetch_list=[out])


def test_feeds_that_disagree_on_the_samples_are_refused():
    a, b = (layers.data(name=name, shape=[1], dtype='float32') for name in 'ab')
    out = layers.mean(a) + layers.mean(b)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    with pytest.raises(ValueError, match='a has 6 samples and feed of b has 5'):
        fluid.Executor(fluid.CPUPlace()).run(program, feed={'a': batch(6), 'b': batch(5)},
                                             fetch_list=[out])


def test_several_rows_per_sample_stay_together():
    a, b = (layers.data(name=name, shape=[1], dtype='float32') for name in 'ab')
    layers.scale(a, 1.0), layers.scale(b, 1.0)
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    found = fluid.Executor(fluid.CPUPlace()).run(
        program, feed={'a': batch(3), 'b': batch(12)}, fetch_list=['a', 'b'], return_merged=False)
    assert [[len(piece) for piece in pieces] for pieces in found] == [[1, 2], [4, 8]]


@pytest.mark.parametrize('as_list', [False, True])
def test_a_fed_persistable_goes_to_every_device(as_list):
    ends = []
    for places in (1, 2):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
                fluid.scope_guard(fluid.Scope()):
            toy = Toy()
            feed = {'X': batch(4), 'learning_rate_0': np.array([0.5], 'float32')}
            if as_list:
                feed = [dict(feed, X=piece) for piece in np.split(feed['X'], places)]
            toy.run(toy.parallel(places), feed)
            ends.append(value('fc_0.w_0'))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def test_devices_may_not_be_fed_different_rates():
    toy = Toy()
    feed = [{'X': batch(2), 'learning_rate_0': np.array([rate], 'float32')} for rate in (0.1, 0.2)]
    with pytest.raises(ValueError, match='devices 0 and 1 are fed different values of learning_rate_0'):
        toy.run(toy.parallel(), feed)


def test_a_test_program_may_leave_devices_idle_with_a_warning():
    toy = Toy()
    program = toy.parallel(7, toy.test_program)
    with pytest.warns(UserWarning, match='3 samples leaves 4 of 7 devices idle'):
        found, = toy.run(program, {'X': batch(3)})
    assert found.shape == (3,)
    found, = toy.run(program, [{'X': batch(3)}] * 2)
    assert found.shape == (2,)


def test_python_lists_and_numbers_are_fed_as_on_one_device():
    toy = Toy()
    found, = toy.run(toy.parallel(), {'X': [[1.0], [2.0]]}, ['X'])
    np.testing.assert_array_equal(found, [[1], [2]])


def test_unknown_names_are_only_ignored_when_pruning():
    toy = Toy()
    found, = toy.run(toy.parallel(), {'X': batch(4), 'Y': batch(4)}, use_prune=True)
    assert found.shape == (2,)


def reader_net(iterable, drop_last=True):
    x = layers.data(name='x', shape=[1], dtype='float32')
    loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4, iterable=iterable,
                                                drop_last=drop_last)
    loss = layers.mean(layers.fc(x, 1))
    fluid.optimizer.SGD(0.01).minimize(loss)
    return loader, started(), on_places(2, loss=loss), loss


def five_batches():
    for i in range(5):
        yield [np.full((3, 1), i, 'float32')]


def test_an_iterable_loader_feeds_a_batch_to_each_place():
    loader, exe, program, loss = reader_net(iterable=True)
    loader.set_batch_generator(five_batches, places=[fluid.CPUPlace()] * 2)
    seen = [exe.run(program, feed=feed, fetch_list=['x'], return_merged=False)[0] for feed in loader()]
    assert [[piece[0, 0] for piece in pair] for pair in seen] == [[0, 1], [2, 3]]


@pytest.mark.parametrize('drop_last', [True, False])
def test_a_started_loader_feeds_all_places_and_ends(drop_last):
    loader, exe, program, loss = reader_net(iterable=False, drop_last=drop_last)
    loader.set_batch_generator(five_batches)
    for _ in range(2):
        loader.start()
        steps = 0
        with pytest.raises(fluid.core.EOFException):
            while True:
                found, = exe.run(program, fetch_list=[loss])
                assert found.shape == (2,)
                steps += 1
        loader.reset()
        assert steps == 2  # a fifth batch alone cannot train on two devices


@pytest.mark.parametrize('drop_last', [True, False])
def test_a_started_loader_gives_the_last_places_batches_unless_they_are_dropped(drop_last):
    """Five batches for two places; without training, the fifth may run on one place alone."""
    x = layers.data(name='x', shape=[1], dtype='float32')
    loader = fluid.io.DataLoader.from_generator(feed_list=[x], capacity=4, iterable=False,
                                                drop_last=drop_last)
    mean = layers.mean(x)
    exe, program = started(), on_places(2)
    loader.set_batch_generator(five_batches)
    loader.start()
    seen = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            seen.append(exe.run(program, fetch_list=[mean])[0].tolist())
    assert seen == [[0, 1], [2, 3]] + ([] if drop_last else [[4]])


def test_py_reader_feeds_all_places():
    reader = layers.py_reader(capacity=4, shapes=[(-1, 1)], dtypes=['float32'], use_double_buffer=False)
    x = layers.read_file(reader)
    loss = layers.mean(layers.fc(x, 1))
    exe, program = started(), on_places(2)
    reader.decorate_tensor_provider(five_batches)
    reader.start()
    shapes = []
    with pytest.raises(fluid.core.EOFException):
        while True:
            shapes.append(exe.run(program, fetch_list=[loss])[0].shape)
    assert shapes[:2] == [(2,), (2,)]


def test_data_feeder_feeds_places():
    x = layers.data(name='x', shape=[2], dtype='float32')
    loss = layers.mean(x)
    feeder = fluid.DataFeeder(feed_list=[x], place=fluid.CPUPlace())
    program = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        places=[fluid.CPUPlace()] * 2)
    feeds = list(feeder.feed_parallel([[([1.0, 1.0],)], [([3.0, 3.0],)]], num_places=2))
    found, = fluid.Executor(fluid.CPUPlace()).run(program, feed=feeds, fetch_list=[loss])
    np.testing.assert_array_equal(found, [1, 3])


def test_a_paddle_batch_reader_feeds_a_dict():
    toy = Toy()
    reader = paddle.batch(lambda: iter([(np.float32(i),) for i in range(7)]), 3, drop_last=True)
    feeder = fluid.DataFeeder(feed_list=['X'], place=fluid.CPUPlace(), program=toy.main)
    program = toy.parallel(3)
    shapes = [toy.run(program, feeder.feed(rows))[0].shape for rows in reader()]
    assert shapes == [(3,), (3,)]
