"""Cells, rnn() that runs one over padded sequences, and decoders that run until all has ended."""
import collections

import numpy as np

from .. import core, layers, unique_name
from ..contrib.layers.rnn_units import BasicGRUUnit, BasicLSTMUnit
from ..framework import default_main_program
from . import control_flow
from .utils import flatten, map_structure, pack_sequence_as

__all__ = ['RNNCell', 'GRUCell', 'LSTMCell', 'rnn', 'Decoder', 'BeamSearchDecoder', 'dynamic_decode']


class RNNCell:
    """One step: call(inputs, states) returns (outputs, new states)."""

    def call(self, inputs, states, **kwargs):
        raise NotImplementedError(f'{type(self).__name__} must define call(inputs, states)')

    def __call__(self, inputs, states, **kwargs):
        return self.call(inputs, states, **kwargs)

    @property
    def state_shape(self):
        """The shapes of the states without the batch: a list of ints, or lists nested like the states."""
        raise NotImplementedError(f'{type(self).__name__} must define state_shape, or be given shape')

    @property
    def state_dtype(self):
        return 'float32'

    def get_initial_states(self, batch_ref, shape=None, dtype=None, init_value=0, batch_dim_idx=0):
        """States of init_value, as many as batch_ref has samples."""
        ref = flatten(batch_ref)[0]
        dtype = self.state_dtype if dtype is None else dtype

        def state(extents):
            if extents and isinstance(extents[0], (list, tuple)):
                return [state(inner) for inner in extents]
            return layers.fill_constant_batch_size_like(
                input=ref, shape=[-1, *(e for e in extents if e != -1)], dtype=dtype, value=init_value,
                input_dim_idx=batch_dim_idx)
        return state(list(self.state_shape if shape is None else shape))


class GRUCell(RNNCell):
    """A gated recurrent unit; its state is its output."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None, gate_activation=None, activation=None,
                 dtype='float32', name='GRUCell'):
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype)

    def call(self, inputs, states):
        new_hidden = self.gru_unit(inputs, states)
        return new_hidden, new_hidden

    @property
    def state_shape(self):
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """A long short-term memory; its states are [hidden, cell]."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None, gate_activation=None, activation=None,
                 forget_bias=1.0, dtype='float32', name='LSTMCell'):
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(name, hidden_size, param_attr, bias_attr, gate_activation, activation,
                                       forget_bias, dtype)

    def call(self, inputs, states):
        pre_hidden, pre_cell = states
        new_hidden, new_cell = self.lstm_unit(inputs, pre_hidden, pre_cell)
        return new_hidden, [new_hidden, new_cell]

    @property
    def state_shape(self):
        return [[self.hidden_size], [self.hidden_size]]


def _swap_batch_and_time(x):
    return layers.transpose(x, [1, 0, *range(2, len(x.shape))])


def _where_running(old, new, running):
    """new in the rows that still run, old in the others; running is [batch] of 0 and 1."""
    return layers.elementwise_add(layers.elementwise_mul(new, running, axis=0),
                                  layers.elementwise_mul(old, 1.0 - running, axis=0))


def rnn(cell, inputs, initial_states=None, sequence_length=None, time_major=False, is_reverse=False, **kwargs):
    """(outputs of all steps, last states) of a cell over inputs [batch, time, ...].

    After the end of a sequence its states stay as they are. kwargs go to cell.call.
    """
    if initial_states is None:
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=1 if time_major else 0)
    if not time_major:
        inputs = map_structure(_swap_batch_and_time, inputs)
    mask = None
    if sequence_length is not None:
        steps = layers.slice(layers.shape(flatten(inputs)[0]), axes=[0], starts=[0], ends=[1])
        mask = layers.transpose(layers.sequence_mask(sequence_length, maxlen=steps, dtype='float32'), [1, 0])
    if is_reverse:
        inputs = map_structure(lambda x: layers.reverse(x, axis=[0]), inputs)
        mask = layers.reverse(mask, axis=[0]) if mask is not None else None

    steps = control_flow.StaticRNN()
    with steps.step():
        now = map_structure(steps.step_input, inputs)
        states = map_structure(lambda state: steps.memory(init=state), initial_states)
        outputs, new_states = cell.call(now, states, **kwargs)
        if mask is not None:
            running = steps.step_input(mask)
            new_states = pack_sequence_as(new_states, [
                _where_running(old, new, running) for old, new in zip(flatten(states), flatten(new_states))])
        for old, new in zip(flatten(states), flatten(new_states)):
            steps.update_memory(old, new)
        all_outputs = flatten(outputs) + flatten(new_states)
        for variable in all_outputs:
            steps.step_output(variable)
    sequences = steps()
    sequences = sequences if isinstance(sequences, (list, tuple)) else [sequences]
    count = len(flatten(outputs))
    final_states = pack_sequence_as(new_states, [
        layers.squeeze(layers.slice(s, axes=[0], starts=[-1], ends=[2**31 - 1]), axes=[0]) for s in sequences[count:]])
    final_outputs = pack_sequence_as(outputs, list(sequences[:count]))
    if is_reverse:
        final_outputs = map_structure(lambda x: layers.reverse(x, axis=[0]), final_outputs)
    if not time_major:
        final_outputs = map_structure(_swap_batch_and_time, final_outputs)
    return final_outputs, final_states


class Decoder:
    """What dynamic_decode runs."""

    def initialize(self, inits):
        """(inputs of the first step, states, which have ended)"""
        raise NotImplementedError(f'{type(self).__name__} must define initialize(inits)')

    def step(self, time, inputs, states, **kwargs):
        """(outputs, next states, next inputs, which have ended)"""
        raise NotImplementedError(f'{type(self).__name__} must define step(time, inputs, states)')

    def finalize(self, outputs, final_states, sequence_lengths):
        """What is made of the outputs of all steps, [time, batch, ...]; without it they stay as they are."""
        raise NotImplementedError(f'{type(self).__name__} does not define finalize')

    @property
    def tracks_own_finished(self):
        """Whether step's last result is all that has ended, not only what ended now."""
        return False


class BeamSearchDecoder(Decoder):
    """Keeps the beam_size likeliest beginnings of every sample, [batch, beam, ...]."""

    OutputWrapper = collections.namedtuple('OutputWrapper', ('scores', 'predicted_ids', 'parent_ids'))
    StateWrapper = collections.namedtuple('StateWrapper', ('cell_states', 'log_probs', 'finished', 'lengths'))

    def __init__(self, cell, start_token, end_token, beam_size, embedding_fn=None, output_fn=None):
        self.cell = cell
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn

    @staticmethod
    def tile_beam_merge_with_batch(x, beam_size):
        """[batch, ...] to [batch * beam, ...]: every row beam_size times, side by side."""
        tiled = layers.expand(layers.unsqueeze(x, [1]), [1, beam_size] + [1] * (len(x.shape) - 1))
        return layers.reshape(tiled, [-1, *x.shape[1:]])

    def _split_batch_beams(self, x):
        return layers.reshape(x, [-1, self.beam_size, *x.shape[1:]])

    def _merge_batch_beams(self, x):
        return layers.reshape(x, [-1, *x.shape[2:]])

    def _expand_to_beam_size(self, x):
        return layers.expand(layers.unsqueeze(x, [1]), [1, self.beam_size] + [1] * (len(x.shape) - 1))

    def _gather(self, x, indices):
        """x[sample, indices[sample, beam]]"""
        samples = layers.expand(layers.unsqueeze(self._samples, [1]), [1, self.beam_size])
        return layers.gather_nd(x, layers.stack([samples, indices], axis=2))

    def initialize(self, initial_cell_states):
        state = flatten(initial_cell_states)[0]
        ones = layers.fill_constant_batch_size_like(state, [-1], 'float32', 1.0)
        # 0, 1, 2, ...: which sample a row belongs to.
        self._samples = layers.cast(layers.cumsum(ones, exclusive=True), 'int64')
        cell_states = map_structure(self._expand_to_beam_size, initial_cell_states)

        def filled(dtype, value):
            return layers.fill_constant_batch_size_like(state, [-1, self.beam_size], dtype, value)
        # All beams begin alike, so only the first may be followed in the first step.
        first = layers.assign(np.array([[0.0] + [-1e9] * (self.beam_size - 1)], 'float32'))
        log_probs = layers.elementwise_add(filled('float32', 0.0), first)
        finished = layers.cast(filled('float32', 0.0), 'bool')
        inputs = filled('int64', self.start_token)
        return (self.embedding_fn(inputs) if self.embedding_fn else inputs,
                self.StateWrapper(cell_states, log_probs, finished, filled('int64', 0)), finished)

    def step(self, time, inputs, states, **kwargs):
        merge, split = self._merge_batch_beams, self._split_batch_beams
        outputs, next_cell_states = self.cell(map_structure(merge, inputs),
                                              map_structure(merge, states.cell_states), **kwargs)
        logits = split(self.output_fn(outputs) if self.output_fn else outputs)
        output, state = self._beam_search_step(logits, map_structure(split, next_cell_states), states)
        sample_ids = output.predicted_ids
        sample_ids.stop_gradient = True
        return output, state, self.embedding_fn(sample_ids) if self.embedding_fn else sample_ids, state.finished

    def _beam_search_step(self, logits, next_cell_states, beam_state):
        vocabulary = logits.shape[-1]
        step_log_probs = layers.log(layers.softmax(logits))
        # A beam that has ended goes on with its end token alone, at no cost.
        finished = layers.cast(beam_state.finished, 'float32')
        only_end = np.full(vocabulary, -1e9, 'float32')
        only_end[self.end_token] = 0.0
        going_on = layers.elementwise_mul(step_log_probs, 1.0 - finished, axis=0)
        ended = layers.expand(layers.unsqueeze(finished, [2]), [1, 1, vocabulary])
        step_log_probs = going_on + layers.elementwise_mul(ended, layers.assign(only_end), axis=-1)

        log_probs = layers.elementwise_add(step_log_probs, beam_state.log_probs, axis=0)
        scores, indices = layers.topk(layers.reshape(log_probs, [-1, self.beam_size * vocabulary]), self.beam_size)
        many = layers.fill_constant([1], 'int64', vocabulary)
        beams = layers.elementwise_floordiv(indices, many)
        tokens = layers.elementwise_mod(indices, many)
        cell_states = map_structure(lambda x: self._gather(x, beams), next_cell_states)
        were_finished = layers.cast(self._gather(finished, beams), 'bool')
        lengths = self._gather(beam_state.lengths, beams) + layers.cast(layers.logical_not(were_finished), 'int64')
        now_finished = layers.logical_or(
            were_finished, layers.equal(tokens, layers.fill_constant([1], 'int64', self.end_token)))
        return (self.OutputWrapper(scores, tokens, beams),
                self.StateWrapper(cell_states, scores, now_finished, lengths))

    def finalize(self, outputs, final_states, sequence_lengths):
        """The tokens of every beam, followed back from its last one: [time, batch, beam]."""
        return layers.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states

    @property
    def tracks_own_finished(self):
        return True


def _array_outside(dtype):
    """An array that outlives the loop whose block is being built."""
    program = default_main_program()
    outside = program.block(program.current_block().parent_idx)
    return outside.create_var(name=unique_name.generate('dynamic_decode.array'), dtype=dtype,
                              type=core.VarDesc.VarType.LOD_TENSOR_ARRAY)


def dynamic_decode(decoder, inits=None, max_step_num=None, output_time_major=False, impute_finished=False,
                   is_test=False, return_length=False, **kwargs):
    """(outputs, final states) of a decoder that steps until all has ended or max_step_num is reached.

    With return_length the lengths are a third result. impute_finished keeps the states of what has ended.
    States are kept step by step, for gradients; with is_test only the last ones are.
    """
    inputs, states, finished = decoder.initialize(inits)
    carried = [layers.assign(variable) for variable in flatten(inputs) + flatten(states)]
    finished = layers.assign(finished)
    lengths = layers.cast(layers.zeros_like(layers.cast(finished, 'int32')), 'int64')
    step = layers.fill_constant([1], 'int64', 0)
    running = layers.logical_not(layers.reduce_all(finished))
    arrays = None if is_test else [layers.array_write(variable, step) for variable in carried]
    outputs, results = None, []

    loop = control_flow.While(running, is_test=is_test)
    with loop.block():
        now = carried if is_test else [layers.array_read(array, step) for array in arrays]
        split = len(flatten(inputs))
        states_now = pack_sequence_as(states, now[split:])
        outputs, next_states, next_inputs, next_finished = decoder.step(
            step, pack_sequence_as(inputs, now[:split]), states_now, **kwargs)
        lengths_now = lengths + layers.cast(layers.logical_not(finished), 'int64')
        if decoder.tracks_own_finished:
            lengths_now = getattr(next_states, 'lengths', lengths_now)
        else:
            next_finished = layers.logical_or(next_finished, finished)
        if impute_finished:
            going_on = layers.cast(layers.logical_not(finished), 'float32')
            next_states = pack_sequence_as(next_states, [
                _where_running(old, new, going_on) for old, new in zip(flatten(states_now), flatten(next_states))])
        results = [_array_outside(variable.dtype) for variable in flatten(outputs)]
        for array, variable in zip(results, flatten(outputs)):
            layers.array_write(variable, step, array)
        layers.increment(step, value=1, in_place=True)
        following = flatten(next_inputs) + flatten(next_states)
        if is_test:
            for variable, value in zip(carried, following):
                layers.assign(value, variable)
        else:
            for array, value in zip(arrays, following):
                layers.array_write(value, step, array)
        layers.assign(lengths_now, lengths)
        layers.assign(next_finished, finished)
        layers.logical_not(layers.reduce_all(finished), out=running)
        if max_step_num is not None:
            below = layers.less_equal(step, layers.fill_constant([1], 'int64', max_step_num))
            layers.logical_and(running, below, out=running)

    final_outputs = pack_sequence_as(outputs, [
        layers.tensor_array_to_tensor(array, axis=0, use_stack=True)[0] for array in results])
    last = carried if is_test else [layers.array_read(array, step) for array in arrays]
    final_states = pack_sequence_as(states, last[len(flatten(inputs)):])
    if type(decoder).finalize is not Decoder.finalize:
        final_outputs, final_states = decoder.finalize(final_outputs, final_states, lengths)
    if not output_time_major:
        final_outputs = map_structure(_swap_batch_and_time, final_outputs)
    return (final_outputs, final_states, lengths) if return_length else (final_outputs, final_states)
