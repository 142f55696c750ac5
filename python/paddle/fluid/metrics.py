"""Metrics accumulated on the host with numpy: reset, update, eval."""
import numpy as np

__all__ = ['MetricBase', 'CompositeMetric', 'Precision', 'Recall', 'Accuracy', 'ChunkEvaluator',
           'EditDistance', 'DetectionMAP', 'Auc']


def _array(value, name):
    if not isinstance(value, np.ndarray):
        raise ValueError(f'{name} must be a numpy array, got {type(value).__name__}')
    return value


def _number(value, name):
    if np.ndim(value) and np.size(value) != 1:
        raise ValueError(f'{name} must be a number or an array of one element')
    return float(np.reshape(value, ()))


class MetricBase:
    """Numbers and arrays in a metric's public attributes are set back to zero by reset()."""

    def __init__(self, name=None):
        self._name = str(name) if name is not None else type(self).__name__

    def __str__(self):
        return self._name

    def reset(self):
        for name, value in list(vars(self).items()):
            if name.startswith('_'):
                continue
            if isinstance(value, (np.ndarray, np.generic)):
                zero = np.zeros_like(value)
            elif isinstance(value, (int, float)):
                zero = 0 if isinstance(value, int) else 0.0
            else:
                zero = None
            setattr(self, name, zero)

    def get_config(self):
        states = {k: v for k, v in vars(self).items() if not k.startswith('_')}
        return {'name': self._name, 'states': dict(states)}

    def update(self, preds, labels):
        raise NotImplementedError(f'{type(self).__name__} must define update')

    def eval(self):
        raise NotImplementedError(f'{type(self).__name__} must define eval')


class CompositeMetric(MetricBase):
    """Several metrics of the same predictions and labels."""

    def __init__(self, name=None):
        self._metrics = []
        super().__init__(name)

    def add_metric(self, metric):
        if not isinstance(metric, MetricBase):
            raise ValueError(f'add_metric takes a MetricBase, got {type(metric).__name__}')
        self._metrics.append(metric)

    def reset(self):
        for metric in self._metrics:
            metric.reset()

    def update(self, preds, labels):
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self):
        return [metric.eval() for metric in self._metrics]


class Precision(MetricBase):
    """Of what was predicted positive, the share that is."""

    def __init__(self, name=None):
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds, labels):
        preds = np.rint(_array(preds, 'preds')).astype('int32').reshape(-1)
        labels = _array(labels, 'labels').reshape(-1)
        self.tp += int(np.sum((preds == 1) & (labels == 1)))
        self.fp += int(np.sum((preds == 1) & (labels != 1)))

    def eval(self):
        positive = self.tp + self.fp
        return float(self.tp) / positive if positive else 0.0


class Recall(MetricBase):
    """Of what is positive, the share that was predicted so."""

    def __init__(self, name=None):
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds, labels):
        preds = np.rint(_array(preds, 'preds')).astype('int32').reshape(-1)
        labels = _array(labels, 'labels').reshape(-1)
        self.tp += int(np.sum((preds == 1) & (labels == 1)))
        self.fn += int(np.sum((preds != 1) & (labels == 1)))

    def eval(self):
        positive = self.tp + self.fn
        return float(self.tp) / positive if positive else 0.0


class Accuracy(MetricBase):
    """The weighted mean of the accuracies of batches."""

    def __init__(self, name=None):
        super().__init__(name)
        self.value = self.weight = 0.0

    def update(self, value, weight):
        value, weight = _number(value, 'value'), _number(weight, 'weight')
        if weight < 0:
            raise ValueError(f'a batch cannot weigh {weight}: weight must not be negative')
        self.weight += weight
        self.value += weight * value

    def eval(self):
        if self.weight == 0:
            raise ValueError('Accuracy has seen no data: call update first')
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 of chunks, from the counts that layers.chunk_eval gives."""

    def __init__(self, name=None):
        super().__init__(name)
        self.num_infer_chunks = self.num_label_chunks = self.num_correct_chunks = 0

    def update(self, num_infer_chunks, num_label_chunks, num_correct_chunks):
        self.num_infer_chunks += int(_number(num_infer_chunks, 'num_infer_chunks'))
        self.num_label_chunks += int(_number(num_label_chunks, 'num_label_chunks'))
        self.num_correct_chunks += int(_number(num_correct_chunks, 'num_correct_chunks'))

    def eval(self):
        correct = float(self.num_correct_chunks)
        precision = correct / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = correct / self.num_label_chunks if self.num_label_chunks else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return precision, recall, f1


class EditDistance(MetricBase):
    """The mean edit distance, and the share of sequences that have one."""

    def __init__(self, name):
        super().__init__(name)
        self.seq_num = self.instance_error = 0
        self.total_distance = 0.0

    def update(self, distances, seq_num):
        distances = _array(distances, 'distances')
        seq_num = int(_number(seq_num, 'seq_num'))
        self.seq_num += seq_num
        self.instance_error += seq_num - int(np.sum(distances == 0))
        self.total_distance += float(np.sum(distances))

    def eval(self):
        if self.seq_num == 0:
            raise ValueError('EditDistance has seen no data: call update first')
        return self.total_distance / self.seq_num, self.instance_error / float(self.seq_num)


class Auc(MetricBase):
    """The area under the ROC curve, from histograms of the scores of both classes."""

    def __init__(self, name, curve='ROC', num_thresholds=4095):
        super().__init__(name)
        if curve != 'ROC':
            raise NotImplementedError(f'the curve {curve!r} is not built yet: use \'ROC\'')
        self._num_thresholds = num_thresholds
        self._stat_pos = np.zeros(num_thresholds + 1, dtype='int64')
        self._stat_neg = np.zeros(num_thresholds + 1, dtype='int64')

    def reset(self):
        self._stat_pos[:] = 0
        self._stat_neg[:] = 0

    def update(self, preds, labels):
        scores = _array(preds, 'preds')[:, 1]
        labels = _array(labels, 'labels').reshape(-1).astype(bool)
        bins = (scores * self._num_thresholds).astype('int64')
        if bins.size and (bins.min() < 0 or bins.max() > self._num_thresholds):
            raise ValueError('scores of Auc must lie between 0 and 1')
        self._stat_pos += np.bincount(bins[labels], minlength=self._num_thresholds + 1)
        self._stat_neg += np.bincount(bins[~labels], minlength=self._num_thresholds + 1)

    def eval(self):
        pos = np.concatenate([[0], np.cumsum(self._stat_pos[::-1])]).astype('float64')
        neg = np.concatenate([[0], np.cumsum(self._stat_neg[::-1])]).astype('float64')
        area = float(np.sum((neg[1:] - neg[:-1]) * (pos[1:] + pos[:-1])) / 2)
        total = pos[-1] * neg[-1]
        return area / total if total else 0.0


class DetectionMAP:
    """Mean average precision of detections, in the program: of a batch, and of all batches since reset()."""

    def __init__(self, input, gt_label, gt_box, gt_difficult=None, class_num=None, background_label=0,
                 overlap_threshold=0.5, evaluate_difficult=True, ap_version='integral'):
        from . import layers
        if class_num is None:
            raise ValueError('DetectionMAP needs class_num, the number of classes with the background')
        marked = [layers.cast(gt_label, gt_box.dtype), gt_box]
        if gt_difficult is not None:
            marked.insert(1, layers.cast(gt_difficult, gt_box.dtype))
        label = layers.concat(marked, axis=1)
        rules = {'class_num': class_num, 'background_label': background_label, 'ap_type': ap_version,
                 'overlap_threshold': overlap_threshold, 'evaluate_difficult': evaluate_difficult}
        name = _unique('map_eval')

        def state(suffix, shape, dtype):
            return layers.create_global_var(shape, 0, dtype, persistable=True, name=_unique(f'{name}_{suffix}'))
        counts = [state('accum_pos_count', [class_num, 1], 'int32'), state('accum_true_pos', [1, 2], 'float32'),
                  state('accum_false_pos', [1, 2], 'float32')]
        self.has_state = state('has_state', [1], 'int32')
        self.cur_map = _detection_map(input, label, rules, {}, None)
        self.accum_map = _detection_map(input, label, rules, {'HasState': [self.has_state], 'PosCount': [counts[0]],
                                                              'TruePos': [counts[1]], 'FalsePos': [counts[2]]}, counts)
        layers.fill_constant([1], 'int32', 1, out=self.has_state)

    def get_map_var(self):
        """(the mean average precision of the batch, that of all batches since reset())"""
        return self.cur_map, self.accum_map

    def reset(self, executor, reset_program=None):
        """The next run begins to count anew."""
        from . import layers
        from .framework import Program, program_guard
        program = reset_program or Program()
        with program_guard(program):
            state = program.current_block().create_var(name=self.has_state.name, shape=[1], dtype='int32', persistable=True)
            layers.fill_constant([1], 'int32', 0, out=state)
        executor.run(program)


def _unique(name):
    from . import unique_name
    return unique_name.generate(name)


def _detection_map(input, label, rules, states, counts):
    """The op's MAP; counts are the variables that it adds to, None: nobody's."""
    from .layer_helper import LayerHelper
    helper = LayerHelper('detection_map')
    found = helper.create_variable_for_type_inference('float32', stop_gradient=True)
    counts = counts or [helper.create_variable_for_type_inference(dtype, stop_gradient=True)
                        for dtype in ('int32', 'float32', 'float32')]
    helper.append_op(type='detection_map', inputs={'DetectRes': [input], 'Label': [label], **states}, attrs=rules,
                     outputs={'MAP': [found], 'AccumPosCount': [counts[0]], 'AccumTruePos': [counts[1]],
                              'AccumFalsePos': [counts[2]]})
    return found
