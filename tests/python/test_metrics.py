"""fluid.metrics: counts over batches, on the host."""
import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import metrics


def test_accuracy_is_weighted():
    accuracy = metrics.Accuracy()
    accuracy.update(0.5, 10)
    accuracy.update(np.array([1.0]), 30)
    assert accuracy.eval() == pytest.approx(0.875)
    accuracy.reset()
    with pytest.raises(ValueError, match='seen no data'):
        accuracy.eval()
    with pytest.raises(ValueError, match='negative'):
        accuracy.update(1.0, -1)


def test_precision_and_recall_of_rounded_scores():
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    assert both.eval() == [0.0, 0.0]
    both.update(np.array([[0.9], [0.8], [0.1], [0.2]]), np.array([[1], [0], [1], [1]]))
    assert both.eval() == [1 / 2, 1 / 3]
    both.update(np.array([[0.7]]), np.array([[1]]))
    assert both.eval() == [2 / 3, 2 / 4]
    both.reset()
    assert both.eval() == [0.0, 0.0]
    with pytest.raises(ValueError, match='MetricBase'):
        both.add_metric(lambda: 1)
    with pytest.raises(ValueError, match='preds must be a numpy array, got list'):
        metrics.Recall().update([1], np.array([1]))


def test_auc_is_the_share_of_pairs_in_the_right_order():
    auc = metrics.Auc('auc')
    assert auc.eval() == 0.0
    random = np.random.RandomState(7)
    scores, labels = np.round(random.rand(60), 2), random.randint(0, 2, 60)
    for part in (slice(0, 25), slice(25, 60)):
        auc.update(np.stack([1 - scores[part], scores[part]], 1), labels[part].reshape(-1, 1))
    pairs = np.sign(scores[labels == 1][:, None] - scores[labels == 0][None])
    assert auc.eval() == pytest.approx(np.mean((pairs + 1) / 2))
    with pytest.raises(ValueError, match='between 0 and 1'):
        auc.update(np.array([[0.0, 1.5]]), np.array([[1]]))


def test_chunks():
    chunks = metrics.ChunkEvaluator()
    assert chunks.eval() == (0.0, 0.0, 0.0)
    chunks.update(4, 5, 2)
    chunks.update(np.array([4]), np.array([3]), np.array([2]))
    assert chunks.eval() == (0.5, 0.5, 0.5)
    assert chunks.get_config()['states'] == {'num_infer_chunks': 8, 'num_label_chunks': 8, 'num_correct_chunks': 4}


def test_edit_distance():
    distance = metrics.EditDistance('edit')
    with pytest.raises(ValueError, match='seen no data'):
        distance.eval()
    distance.update(np.array([[0.0], [2.0], [1.0]]), 3)
    distance.update(np.array([[0.0]]), np.array([1]))
    assert distance.eval() == (0.75, 0.5) and str(distance) == 'edit'


def test_a_metric_of_ones_own():
    class Seen(metrics.MetricBase):
        def __init__(self):
            super().__init__()
            self.count, self.values = 3, np.ones(2)
            self._kept = 'kept'
    seen = Seen()
    seen.reset()
    assert seen.count == 0 and seen.values.tolist() == [0, 0] and seen._kept == 'kept'
    with pytest.raises(NotImplementedError, match='Seen must define update'):
        seen.update(None, None)


def test_weighted_average():
    average = fluid.average.WeightedAverage()
    average.add(value=2.0, weight=1)
    average.add(value=np.array([4.0]), weight=3)
    assert average.eval() == pytest.approx(3.5)
