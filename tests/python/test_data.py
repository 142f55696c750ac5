"""DataFeeder, metrics, and loaders that are iterated over."""
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


def test_metrics_accumulate():
    accuracy = fluid.metrics.Accuracy()
    accuracy.update(0.5, 10)
    accuracy.update(np.array([1.0]), 30)
    assert accuracy.eval() == pytest.approx(0.875)
    accuracy.reset()
    with pytest.raises(ValueError):
        accuracy.eval()
    auc = fluid.metrics.Auc('auc')
    scores = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    auc.update(scores, np.array([[0], [1], [0], [1]]))
    assert auc.eval() == pytest.approx(0.75)
    recall = fluid.metrics.Recall()
    recall.update(np.array([0.9, 0.1]), np.array([1, 1]))
    assert recall.eval() == 0.5


def test_a_loader_yields_what_run_takes(exe):
    x = fluid.data('x', [None, 2])
    out = fluid.layers.reduce_sum(x)
    loader = fluid.io.DataLoader.from_generator([x], capacity=4)
    loader.set_sample_generator(lambda: iter([(np.full(2, i, 'float32'),) for i in range(4)]), 2)
    sums = [exe.run(feed=feed, fetch_list=[out])[0].item() for feed in loader()]
    assert sums == [2, 10]
    loader.set_batch_generator(lambda: iter([[np.ones((3, 2), 'float32')]]), fluid.cpu_places(1))
    assert [exe.run(feed=feed, fetch_list=[out])[0].item() for feed in loader] == [6]
