"""paddle.metric.metrics: the same under the module's own name."""
from . import Accuracy, Auc, Metric, Precision, Recall, accuracy

__all__ = ['Accuracy', 'Auc', 'Metric', 'Precision', 'Recall', 'accuracy']
