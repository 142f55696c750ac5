"""paddle.metric.metrics: the same under the module's own name."""
from . import Accuracy, Auc, Metric, Precision, Recall, accuracy  # noqa: F401
