"""Decoders whose words come from elsewhere: from the training data, the likeliest ones, or drawn."""
import collections

import _trireme as _C

from .apply import one
from .control_flow import equal, less_equal
from .decoder import Decoder
from .reduction import argmax
from .rnn import transpose_batch_time
from .tensors import sampling_id
from .utils import map_structure

__all__ = ['DecodeHelper', 'TrainingHelper', 'GreedyEmbeddingHelper', 'SampleEmbeddingHelper', 'BasicDecoder']


class DecodeHelper:
    """What a BasicDecoder asks for words: derive from it and define all three."""

    def initialize(self):
        """(inputs of the first step, which rows have ended)."""
        raise NotImplementedError('a DecodeHelper must define initialize')

    def sample(self, time, outputs, states):
        """The words that outputs stand for."""
        raise NotImplementedError('a DecodeHelper must define sample')

    def next_inputs(self, time, outputs, states, sample_ids):
        """(which rows have ended, inputs of the next step, states)."""
        raise NotImplementedError('a DecodeHelper must define next_inputs')


def _likeliest(outputs):
    return _C.cast(argmax(outputs, axis=-1), 'int64')


class TrainingHelper(DecodeHelper):
    """The words are those of the data: inputs [batch, time, ...], or [time, batch, ...] with time_major."""

    def __init__(self, inputs, sequence_length, time_major=False):
        self.inputs = inputs
        self.sequence_length = sequence_length
        self.time_major = time_major
        by_time = inputs if time_major else map_structure(transpose_batch_time, inputs)
        # The step after the last has inputs too, which nobody looks at.
        self.inputs_ = map_structure(
            lambda x: one('pad', {'X': x}, {'paddings': [0, 1] + [0, 0] * (len(x.shape) - 1)}), by_time)

    def _at(self, time):
        """The inputs of one step."""
        return map_structure(
            lambda x: _C.squeeze(_C.slice(x, axes=[0], starts=[time], ends=[time + 1]), [0]), self.inputs_)

    def initialize(self):
        none = _C.fill_constant([1], self.sequence_length.dtype, 0)
        inputs = map_structure(
            lambda x: _C.squeeze(_C.slice(x, axes=[0], starts=[0], ends=[1]), [0]), self.inputs_)
        return inputs, equal(self.sequence_length, none)

    def sample(self, time, outputs, states):
        return _likeliest(outputs)

    def next_inputs(self, time, outputs, states, sample_ids):
        time = _C.cast(time, 'int32') if _C.dtype_name(self.sequence_length.dtype) == 'int32' else time
        following = time + 1
        return less_equal(self.sequence_length, following), self._at(following), states


class GreedyEmbeddingHelper(DecodeHelper):
    """The next word is the likeliest one; embedding_fn makes inputs of words."""

    def __init__(self, embedding_fn, start_tokens, end_token):
        if not callable(embedding_fn):
            raise TypeError('embedding_fn must be a function of word ids')
        self.embedding_fn = embedding_fn
        self.start_tokens = start_tokens
        self.end_token = _C.fill_constant([1], 'int64', end_token)

    def initialize(self):
        finished = _C.fill_constant_batch_size_like(self.start_tokens, [-1], 'bool', False)
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time, outputs, states):
        return _likeliest(outputs)

    def next_inputs(self, time, outputs, states, sample_ids):
        return equal(sample_ids, self.end_token), self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """The next word is drawn by its probability; a lower temperature makes likely words likelier."""

    def __init__(self, embedding_fn, start_tokens, end_token, softmax_temperature=None, seed=None):
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = softmax_temperature
        self.seed = seed

    def sample(self, time, outputs, states):
        if self.softmax_temperature is not None:
            outputs = _C.scale(outputs, scale=1.0 / self.softmax_temperature)
        return sampling_id(_C.softmax(outputs), seed=self.seed or 0, dtype='int64')


class BasicDecoder(Decoder):
    """A cell whose words a helper chooses; output_fn makes logits of what the cell says."""

    OutputWrapper = collections.namedtuple('OutputWrapper', 'cell_outputs sample_ids')

    def __init__(self, cell, helper, output_fn=None):
        self.cell = cell
        self.helper = helper
        self.output_fn = output_fn

    def initialize(self, initial_cell_states):
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time, inputs, states, **kwargs):
        said, after = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            said = self.output_fn(said)
        words = self.helper.sample(time=time, outputs=said, states=after)
        words.stop_gradient = True
        finished, following, after = self.helper.next_inputs(time=time, outputs=said, states=after, sample_ids=words)
        return self.OutputWrapper(said, words), after, following, finished
