"""Evaluators inside programs: their counts are variables that every run adds to. See fluid.metrics too."""
import numpy

from . import layers, metrics, unique_name
from .framework import Program, program_guard

__all__ = ['ChunkEvaluator', 'EditDistance', 'DetectionMAP']


class Evaluator:
    """states are what runs add to and reset() sets to zero; metrics are those of the last batch."""

    def __init__(self, name):
        self._name = name
        self.states = []
        self.metrics = []

    def _create_state(self, suffix, dtype):
        state = layers.create_global_var(name=unique_name.generate('_'.join([self._name, suffix])),
                                         shape=[1], value=0, dtype=dtype, persistable=True)
        self.states.append(state)
        return state

    def _add_up(self, *counts):
        """A batch's counts go into the states, in the order these were made."""
        for state, count in zip(self.states, counts):
            layers.sums(input=[state, count], out=state)

    def reset(self, executor, reset_program=None):
        """Sets the counts to zero, before a pass over the data."""
        reset_program = reset_program or Program()
        with program_guard(reset_program):
            for state in self.states:
                layers.fill_constant(shape=state.shape, value=0.0, dtype=state.dtype,
                                     out=_in(reset_program, state))
        executor.run(reset_program)

    def _counts(self, executor, eval_program):
        eval_program = eval_program or Program()
        with program_guard(eval_program):
            fetched = [layers.assign(_in(eval_program, state)) for state in self.states]
        return [value.item() for value in executor.run(eval_program, fetch_list=fetched)]


def _in(program, state):
    """The same variable, as another program names it."""
    return program.current_block().create_var(name=state.name, shape=state.shape, dtype=state.dtype,
                                              persistable=True)


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 of the chunks of all batches since reset()."""

    def __init__(self, input, label, chunk_scheme, num_chunk_types, excluded_chunk_types=None):
        super().__init__('chunk_eval')
        self.num_infer_chunks = self._create_state('num_infer_chunks', 'int64')
        self.num_label_chunks = self._create_state('num_label_chunks', 'int64')
        self.num_correct_chunks = self._create_state('num_correct_chunks', 'int64')
        *self.metrics, infer, labelled, correct = layers.chunk_eval(
            input, label, chunk_scheme, num_chunk_types, excluded_chunk_types)
        self._add_up(infer, labelled, correct)

    def eval(self, executor, eval_program=None):
        infer, labelled, correct = self._counts(executor, eval_program)
        precision = correct / infer if infer else 0.0
        recall = correct / labelled if labelled else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return tuple(numpy.array([value], 'float32') for value in (precision, recall, f1))


class EditDistance(Evaluator):
    """The mean edit distance, and the share of sequences that have one, since reset()."""

    def __init__(self, input, label, ignored_tokens=None):
        super().__init__('edit_distance')
        self.total_distance = self._create_state('total_distance', 'float32')
        self.seq_num, self.instance_error = (self._create_state(suffix, 'int64')
                                             for suffix in ('seq_num', 'instance_error'))
        distances, sequences = layers.edit_distance(input, label, ignored_tokens=ignored_tokens)
        faultless = layers.equal(distances, layers.fill_constant([1], 'float32', 0.0))
        right = layers.reduce_sum(layers.cast(faultless, 'int64'))
        distance = layers.reduce_sum(distances)
        wrong = layers.elementwise_sub(sequences, right)
        self._add_up(distance, sequences, wrong)
        self.metrics += [distance, wrong]

    def eval(self, executor, eval_program=None):
        total_distance, seq_num, instance_error = self._counts(executor, eval_program)
        if seq_num == 0:
            raise ValueError('EditDistance has seen no data: run the program first')
        return (numpy.array([total_distance / seq_num], 'float32'),
                numpy.array([instance_error / seq_num], 'float32'))


class DetectionMAP(metrics.DetectionMAP):
    """fluid.metrics.DetectionMAP under its former name, with the value fetched by eval()."""

    def __init__(self, input, gt_label, gt_box, gt_difficult=None, class_num=None, background_label=0,
                 overlap_threshold=0.5, evaluate_difficult=True, ap_version='integral'):
        super().__init__(input, gt_label, gt_box, gt_difficult, class_num, background_label, overlap_threshold,
                         evaluate_difficult, ap_version)
        self.accum_map.persistable = True  # it stays in the scope, for eval()

    def eval(self, executor, eval_program=None):
        """The mean average precision of the last run over all batches since reset()."""
        program = eval_program or Program()
        with program_guard(program):
            value = layers.assign(_in(program, self.accum_map))
        return numpy.array(executor.run(program, fetch_list=[value])[0])
