"""paddle.metric: measures kept over many batches, and accuracy as a layer."""
import abc

import numpy as np

import _trireme as _C

from .._style import static_style

__all__ = ['Metric', 'Accuracy', 'Precision', 'Recall', 'Auc', 'accuracy']


class Metric(abc.ABC):
    """Derive from it: update takes what compute gives for a batch, accumulate says what it comes to."""

    @abc.abstractmethod
    def reset(self):
        """Begins anew."""

    @abc.abstractmethod
    def update(self, *args):
        """Takes a batch in."""

    @abc.abstractmethod
    def accumulate(self):
        """The measure over all batches since reset."""

    @abc.abstractmethod
    def name(self):
        """What it is called."""

    def compute(self, *args):
        """What of a batch update takes; here all of it."""
        return args


def _array(value):
    return np.asarray(value)


class Accuracy(Metric):
    """The share of samples whose label is among the k best, for every k of topk."""

    def __init__(self, topk=(1,), name=None, *args, **kwargs):
        self.topk = topk if isinstance(topk, (list, tuple)) else (topk,)
        self.maxk = max(self.topk)
        name = name or 'acc'
        self._name = [name] if self.maxk == 1 else [f'{name}_top{k}' for k in self.topk]
        self.reset()

    def compute(self, pred, label, *args):
        """[batch, maxk]: 1 where the k-th best is the label. Of arrays, or of variables of a program."""
        if isinstance(pred, _C.Variable):
            return self._computed(pred, label)
        pred, label = _array(pred), _array(label)
        best = np.argsort(-pred, axis=-1, kind='stable')[..., :self.maxk]
        if label.ndim == pred.ndim and label.shape[-1] != 1:  # one-hot
            label = label.argmax(-1)[..., None]
        elif label.ndim == pred.ndim - 1:
            label = label[..., None]
        return (best == label).astype('float32')

    @static_style
    def _computed(self, pred, label):
        from .. import tensor
        best = tensor.topk(pred, self.maxk)[1]
        if len(label.shape) == len(pred.shape) and label.shape[-1] != 1:
            label = tensor.argmax(label, -1, keepdim=True)
        elif len(label.shape) == len(pred.shape) - 1:
            label = tensor.unsqueeze(label, -1)
        return tensor.cast(tensor.equal(best, tensor.cast(label, 'int64')), 'float32')

    def update(self, correct, *args):
        """The accuracy of this batch."""
        correct = _array(correct)
        count, shares = int(np.prod(correct.shape[:-1])), []
        for i, k in enumerate(self.topk):
            hits = correct[..., :k].sum()
            shares.append(float(hits) / count)
            self.total[i] += float(hits)
            self.count[i] += count
        return shares[0] if len(shares) == 1 else shares

    def reset(self):
        self.total, self.count = [0.0] * len(self.topk), [0] * len(self.topk)

    def accumulate(self):
        shares = [total / count if count else 0.0 for total, count in zip(self.total, self.count)]
        return shares[0] if len(shares) == 1 else shares

    def name(self):
        return self._name


class _OfTwo(Metric):
    """Counts of answers above one half, and of labels 1."""

    def __init__(self, name, *args, **kwargs):
        self._name = name
        self.reset()

    def update(self, preds, labels):
        said = np.floor(_array(preds) + 0.5).astype('int32').reshape(-1) == 1
        is_one = _array(labels).reshape(-1) == 1
        self.tp += int((said & is_one).sum())
        self.fp += int((said & ~is_one).sum())
        self.fn += int((~said & is_one).sum())

    def reset(self):
        self.tp = self.fp = self.fn = 0

    def name(self):
        return self._name


class Precision(_OfTwo):
    """The share of answers 1 that are right."""

    def __init__(self, name='precision', *args, **kwargs):
        super().__init__(name)

    def accumulate(self):
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0


class Recall(_OfTwo):
    """The share of labels 1 that are found."""

    def __init__(self, name='recall', *args, **kwargs):
        super().__init__(name)

    def accumulate(self):
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0


class Auc(Metric):
    """The area under the curve of hits over false alarms, from counts in num_thresholds + 1 steps."""

    def __init__(self, curve='ROC', num_thresholds=4095, name='auc', *args, **kwargs):
        if curve != 'ROC':
            raise NotImplementedError(f"Auc: curve {curve!r} is not built: use 'ROC'")
        self._num_thresholds, self._name = num_thresholds, name
        self.reset()

    def update(self, preds, labels):
        """preds are [batch, 2] of both classes, or [batch, 1] of class 1."""
        preds, labels = _array(preds), _array(labels).reshape(-1)
        share = preds[:, 1] if preds.ndim > 1 and preds.shape[1] == 2 else preds.reshape(-1)
        steps = (share * self._num_thresholds).astype('int64')
        if steps.size and not 0 <= steps.min() <= steps.max() <= self._num_thresholds:
            raise ValueError('Auc: predictions must lie between 0 and 1')
        self._stat_pos += np.bincount(steps[labels != 0], minlength=self._num_thresholds + 1)
        self._stat_neg += np.bincount(steps[labels == 0], minlength=self._num_thresholds + 1)

    def reset(self):
        self._stat_pos = np.zeros(self._num_thresholds + 1, 'int64')
        self._stat_neg = np.zeros(self._num_thresholds + 1, 'int64')

    def accumulate(self):
        hits = np.concatenate([[0], np.cumsum(self._stat_pos[::-1])]).astype('float64')
        alarms = np.concatenate([[0], np.cumsum(self._stat_neg[::-1])]).astype('float64')
        if not hits[-1] or not alarms[-1]:
            return 0.0
        return float(((alarms[1:] - alarms[:-1]) * (hits[1:] + hits[:-1]) / 2).sum() / hits[-1] / alarms[-1])

    def name(self):
        return self._name


@static_style
def accuracy(input, label, k=1, correct=None, total=None, name=None):
    """The share of rows whose label is among the k best, as a variable."""
    return _C.accuracy(input, label, k, correct, total)
