"""DataFeeder, and loaders that are iterated over."""
import numpy as np
import pytest

import paddle.fluid as fluid


def test_a_feeder_makes_tensors_with_lod():
    words = fluid.layers.data('words', [1], dtype='int64', lod_level=1)
    image = fluid.layers.data('image', [1, 2, 2])
    fluid.layers.data('label', [1], dtype='int64')
    feeder = fluid.DataFeeder([words, image, 'label'], fluid.CPUPlace())
    feed = feeder.feed([([1, 2], np.zeros(4), 0), ([3], np.ones(4), 1)])
    assert feed['words'].recursive_sequence_lengths() == [[2, 1]]
    assert feed['words'].shape() == [3, 1] and feed['image'].shape() == [2, 1, 2, 2]
    assert np.array(feed['label']).tolist() == [[0], [1]]
    with pytest.raises(ValueError):
        feeder.feed([([1], 0)])
    with pytest.raises(ValueError):
        list(feeder.feed_parallel([[]], num_places=2))


def test_a_loader_yields_what_run_takes(exe):
    x = fluid.data('x', [None, 2])
    out = fluid.layers.reduce_sum(x)
    loader = fluid.io.DataLoader.from_generator([x], capacity=4)
    loader.set_sample_generator(lambda: iter([(np.full(2, i, 'float32'),) for i in range(4)]), 2)
    sums = [exe.run(feed=feed, fetch_list=[out])[0].item() for feed in loader()]
    assert sums == [2, 10]
    loader.set_batch_generator(lambda: iter([[np.ones((3, 2), 'float32')]]), fluid.cpu_places(1))
    assert [exe.run(feed=feed, fetch_list=[out])[0].item() for feed in loader] == [6]


def test_a_feeder_nests_sequences_as_deep_as_the_variable():
    words = fluid.layers.data('words', [1], dtype='int64', lod_level=2)
    vectors = fluid.layers.data('vectors', [3], lod_level=1)
    feed = fluid.DataFeeder([words, vectors], fluid.CPUPlace()).feed(
        [([[1, 2], [3]], np.zeros((2, 3))), ([[4]], np.ones((1, 3)))])
    assert feed['words'].recursive_sequence_lengths() == [[2, 1], [2, 1, 1]]
    assert np.array(feed['words']).tolist() == [[1], [2], [3], [4]]
    assert feed['vectors'].shape() == [3, 3] and feed['vectors'].recursive_sequence_lengths() == [[2, 1]]


def test_a_feeder_makes_a_reader_of_feed_dicts(monkeypatch):
    x = fluid.layers.data('x', [1])
    feeder = fluid.DataFeeder([x], fluid.CPUPlace())
    batches = lambda: iter([[(i,)] for i in range(5)])
    single = feeder.decorate_reader(batches, multi_devices=False)
    assert [np.array(feed['x']).item() for feed in single()] == [0, 1, 2, 3, 4]
    pairs = feeder.decorate_reader(batches, multi_devices=True, num_places=2)
    assert [[np.array(feed['x']).item() for feed in group] for group in pairs()] == [[0, 1], [2, 3]]
    monkeypatch.setenv('CPU_NUM', '2')
    assert len(list(feeder.decorate_reader(batches, multi_devices=True)())) == 2
    with pytest.raises(ValueError, match='1 batches are left for 2 places'):
        list(feeder.decorate_reader(batches, multi_devices=True, num_places=2, drop_last=False)())


def test_a_feeder_names_the_variable_whose_samples_do_not_fit():
    image = fluid.layers.data('image', [3, 2])
    with pytest.raises(ValueError, match=r'image have shape \(5,\)'):
        fluid.DataFeeder([image], fluid.CPUPlace()).feed([(np.zeros(5),)])
    with pytest.raises(TypeError, match='Variables or their names, got int'):
        fluid.DataFeeder([3], fluid.CPUPlace())


@pytest.mark.parametrize('dtype', ['float32', 'float64', 'int64', 'int32'])
def test_a_feeder_gives_each_variable_its_own_type(exe, dtype):
    """Python's numbers have no type of their own: numpy would make int64 of these."""
    x = fluid.layers.data('x', [2], dtype=dtype)
    words = fluid.layers.data('words', [1], dtype=dtype, lod_level=1)
    feed = fluid.DataFeeder([x, words], fluid.CPUPlace()).feed([([1, 2], [5]), ([3, 4], [6, 7])])
    assert np.array(feed['x']).dtype == np.array(feed['words']).dtype == dtype
    found, = exe.run(feed=feed, fetch_list=[x])
    assert found.dtype == dtype and found.tolist() == [[1, 2], [3, 4]]


def test_a_loader_keeps_lod_and_may_be_iterated_over_again(exe):
    words = fluid.layers.data('words', [1], dtype='int64', lod_level=1)
    label = fluid.layers.data('label', [1], dtype='int64')
    pooled = fluid.layers.sequence_pool(fluid.layers.cast(words, 'float32'), 'sum')
    loader = fluid.io.DataLoader.from_generator([words, label], capacity=2, use_double_buffer=False)
    loader.set_sample_list_generator(lambda: iter([[([1, 2], 0), ([3], 1)], [([4], 1)]]), fluid.CPUPlace())
    for _ in range(2):
        sums = [exe.run(feed=feed, fetch_list=[pooled])[0].ravel().tolist() for feed in loader()]
        assert sums == [[3, 3], [4]]


@pytest.mark.parametrize('double_buffer', [True, False])
def test_a_loader_of_lists_for_several_places(double_buffer):
    x = fluid.data('x', [None, 1])
    loader = fluid.io.DataLoader.from_generator([x], capacity=2, use_double_buffer=double_buffer,
                                                return_list=True, drop_last=False)
    loader.set_batch_generator(lambda: iter([[np.full((1, 1), i, 'float32')] for i in range(3)]),
                               fluid.cpu_places(2))
    groups = [[np.array(values[0]).item() for values in group] if isinstance(group[0], list)
              else [np.array(group[0]).item()] for group in loader()]
    assert groups == [[0, 1], [2]]


def test_what_the_generator_of_a_loader_raises_comes_out_of_it():
    x = fluid.data('x', [None, 1])

    def generator():
        yield [np.ones((1, 1), 'float32')]
        raise OSError('disk')
    loader = fluid.io.DataLoader.from_generator([x], capacity=2)
    loader.set_batch_generator(generator)
    with pytest.raises(OSError, match='disk'):
        list(loader())
    loader.set_batch_generator(lambda: iter([[1, 2]]))
    with pytest.raises(ValueError, match='2 arrays for 1 variables'):
        list(loader())
    with pytest.raises(ValueError, match='capacity must be positive'):
        fluid.io.DataLoader.from_generator([x])
    with pytest.raises(AssertionError, match='data of the DataLoader is not set'):
        list(fluid.io.DataLoader.from_generator([x], capacity=1))
