"""Decoders that programs may define themselves, the loop that runs them, and beam search."""
import collections
import functools

import numpy

import _trireme as _C

from .control_flow import While, equal, less_equal
from .elementwise import elementwise_floordiv, elementwise_mod
from .reduction import reduce_all
from .rnn import keep_where, transpose_batch_time
from .tensors import range as range_layer
from .utils import flatten, map_structure

__all__ = ['Decoder', 'BeamSearchDecoder', 'dynamic_decode']


class Decoder:
    """What dynamic_decode runs: derive from it and define initialize, step and, if need be,
    finalize."""

    def initialize(self, inits):
        """(inputs of the first step, states before it, which rows have ended)."""
        raise NotImplementedError('Decoder must define initialize')

    def step(self, time, inputs, states, **kwargs):
        """(outputs, next states, next inputs, which rows have ended)."""
        raise NotImplementedError('Decoder must define step')

    def finalize(self, outputs, final_states, sequence_lengths):
        raise NotImplementedError

    @property
    def tracks_own_finished(self):
        """Whether step's answer may take back that a row has ended, as reordering beams does."""
        return False


class BeamSearchDecoder(Decoder):
    """Keeps the beam_size likeliest sentences of every sample; the cell gives the next word."""

    OutputWrapper = collections.namedtuple('OutputWrapper', 'scores predicted_ids parent_ids')
    StateWrapper = collections.namedtuple('StateWrapper', 'cell_states log_probs finished lengths')

    def __init__(self, cell, start_token, end_token, beam_size, embedding_fn=None, output_fn=None):
        self.cell = cell
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn
        self.kinf = 1e9  # the logarithm of "impossible", negated

    @staticmethod
    def tile_beam_merge_with_batch(x, beam_size):
        """[batch, ...] -> [batch * beam_size, ...]: every row beam_size times."""
        repeated = _C.expand(_C.unsqueeze(x, [1]), [1, beam_size] + [1] * (len(x.shape) - 1))
        # A size that is open here, such as the length of padded sequences, is taken when it runs.
        sizes = [_C.shape(x)[i] if size < 0 else size for i, size in enumerate(x.shape)]
        return _C.reshape(repeated, [-1] + sizes[1:])

    def _expand_to_beam_size(self, x):
        """[batch, ...] -> [batch, beam_size, ...]"""
        return _C.expand(_C.unsqueeze(x, [1]), [1, self.beam_size] + [1] * (len(x.shape) - 1))

    def _merge_batch_beams(self, x):
        """[batch, beam_size, ...] -> [batch * beam_size, ...]"""
        return _C.reshape(x, [-1, *x.shape[2:]])

    def _split_batch_beams(self, x):
        """[batch * beam_size, ...] -> [batch, beam_size, ...]"""
        return _C.reshape(x, [-1, self.beam_size, *x.shape[1:]])

    def _mask_probs(self, probs, finished):
        """A sentence that has ended goes on with the end token alone, at no cost."""
        over = _C.cast(finished, probs.dtype)
        each_word = _C.expand(_C.unsqueeze(over, [2]), [1, 1, self.vocab_size])
        ended = _C.elementwise('elementwise_mul', each_word, self.noend_mask_tensor, -1)
        return ended - _C.elementwise('elementwise_mul', probs, over - 1.0, 0)

    def _gather(self, x, indices, batch_size):
        """x[b, indices[b, k]] for every sample b and beam k."""
        rows = range_layer(0, batch_size, 1, indices.dtype)
        rows = _C.expand(_C.unsqueeze(rows, [1]), [1, self.beam_size])
        where = _C.stack([rows, indices], axis=2)
        where.stop_gradient = True
        return _C.apply('gather_nd', {'X': x, 'Index': where}, {})['Out'][0]

    def initialize(self, initial_cell_states):
        state = flatten(initial_cell_states)[0]
        self.batch_size = _C.shape(state)[0]
        self.end_token_tensor = _C.fill_constant([1], 'int64', self.end_token)
        # At first the beams of a sample are equal: all but one are impossible.
        first = numpy.full((1, self.beam_size), -self.kinf, 'float32')
        first[0, 0] = 0

        def like_state(dtype, value):
            return _C.fill_constant_batch_size_like(state, [-1, self.beam_size], dtype, value)
        log_probs = _C.elementwise('elementwise_add', like_state('float32', 0.0), _C.assign(first))
        inputs, finished = like_state('int64', self.start_token), like_state('bool', False)
        lengths = _C.zeros_like(inputs)
        states = self.StateWrapper(map_structure(self._expand_to_beam_size, initial_cell_states),
                                   log_probs, finished, lengths)
        return self.embedding_fn(inputs) if self.embedding_fn else inputs, states, finished

    def _beam_search_step(self, time, logits, next_cell_states, beam_state):
        self.vocab_size = logits.shape[-1]
        words = _C.fill_constant([1], 'int64', self.vocab_size)
        only_end = numpy.full([self.vocab_size], -self.kinf, 'float32')
        only_end[self.end_token] = 0
        self.noend_mask_tensor = _C.assign(only_end)
        of_words = _C.apply('log', {'X': _C.softmax(logits)}, {})['Out'][0]
        of_words = self._mask_probs(of_words, beam_state.finished)
        of_sentences = _C.elementwise('elementwise_add', of_words, beam_state.log_probs, 0)
        # A beam and a word are one number; the best of a sample come from any of its beams.
        best, numbers = _C.topk(_C.reshape(of_sentences, [-1, self.beam_size * self.vocab_size]),
                                self.beam_size)
        beams = elementwise_floordiv(numbers, words)
        tokens = elementwise_mod(numbers, words)
        pick = functools.partial(self._gather, indices=beams, batch_size=self.batch_size)
        had_ended = pick(beam_state.finished)
        lengths = pick(beam_state.lengths)
        lengths = lengths + _C.cast(_C.logical_not(had_ended), lengths.dtype)
        ended = _C.logical_or(had_ended, equal(tokens, self.end_token_tensor))
        return (self.OutputWrapper(best, tokens, beams),
                self.StateWrapper(map_structure(pick, next_cell_states), best, ended, lengths))

    def step(self, time, inputs, states, **kwargs):
        # A cell knows no beams: for it they are rows of a larger batch.
        rows, before = (map_structure(self._merge_batch_beams, part)
                        for part in (inputs, states.cell_states))
        logits, after = (map_structure(self._split_batch_beams, part)
                         for part in self.cell(rows, before, **kwargs))
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        found, state = self._beam_search_step(time, logits, after, states)
        words = found.predicted_ids
        words.stop_gradient = True
        next_inputs = self.embedding_fn(words) if self.embedding_fn else words
        return found, state, next_inputs, state.finished

    def finalize(self, outputs, final_states, sequence_lengths):
        """The words of every beam, read back along its parents."""
        ids = _C.apply('gather_tree', {'Ids': outputs.predicted_ids, 'Parents': outputs.parent_ids},
                       {})['Out'][0]
        return ids, final_states

    @property
    def tracks_own_finished(self):
        return True


def _array_around(dtype):
    """A tensor array in the block around the current one."""
    program = _C.default_main_program()
    parent = program.block(program.current_block().parent_idx)
    return parent.create_var(name=_C.generate_name('array') + '.out', dtype=dtype,
                             type=_C.VarType.LOD_TENSOR_ARRAY)


def _keep_finished(finished, kept, other):
    mask = _C.cast(finished, 'float32' if kept.dtype == _C.to_dtype('bool') else kept.dtype)
    mask.stop_gradient = True
    if kept.dtype != _C.to_dtype('bool'):
        return keep_where(mask, kept, other)
    return _C.cast(keep_where(mask, _C.cast(kept, 'float32'), _C.cast(other, 'float32')), 'bool')


def _all(flags, out=None):
    return _C.logical_not(reduce_all(flags), out)


def dynamic_decode(decoder, inits=None, max_step_num=None, output_time_major=False,
                   impute_finished=False, is_test=False, return_length=False, **kwargs):
    """Runs decoder.step until every row has ended, or max_step_num steps at most.

    Returns (outputs, final states), with return_length also the lengths. impute_finished keeps the
    states of rows that have ended; is_test keeps no values for a gradient.
    """
    inputs, states, finished = decoder.initialize(inits)
    finished.stop_gradient = True
    step = _C.fill_constant([1], 'int64', 0)
    goes_on = _all(finished)
    last = None if max_step_num is None else _C.fill_constant([1], 'int64', max_step_num)
    lengths = _C.cast(_C.zeros_like(finished), 'int64')
    lengths.stop_gradient = True
    carried = [inputs, states]
    if not is_test:  # every step's values are needed for the gradient
        carried = map_structure(lambda x: _C.array_write(x, step), carried)

    with While(goes_on, is_test=is_test).block():
        before = carried if is_test else map_structure(lambda a: _C.array_read(a, step), carried)
        outputs, next_states, next_inputs, ended = decoder.step(step, *before, **kwargs)
        if decoder.tracks_own_finished:
            next_lengths = getattr(next_states, 'lengths', lengths)
        else:
            ended = _C.logical_or(ended, finished)
            next_lengths = lengths + _C.cast(_C.logical_not(finished), lengths.dtype)
            if impute_finished:
                next_states = map_structure(functools.partial(_keep_finished, finished),
                                            before[1], next_states)
        outputs_arrays = map_structure(lambda x: _array_around(x.dtype), outputs)
        map_structure(lambda x, array: _C.array_write(x, step, array), outputs, outputs_arrays)
        _C.increment(step, 1.0, True)
        # Before the states are written: the flags may be one of them.
        _C.assign(ended, finished)
        _C.assign(next_lengths, lengths)
        following = [next_inputs, next_states]
        if is_test:
            map_structure(_C.assign, following, carried)
        else:
            map_structure(lambda x, array: _C.array_write(x, step, array), following, carried)
        if last is None:
            _all(finished, goes_on)
        else:
            _C.logical_and(_all(finished), less_equal(step, last), goes_on)

    outputs = map_structure(
        lambda array: _C.tensor_array_to_tensor(array, axis=0, use_stack=True)[0], outputs_arrays)
    states = carried[1] if is_test else map_structure(lambda a: _C.array_read(a, step), carried[1])
    try:
        outputs, states = decoder.finalize(outputs, states, lengths)
    except NotImplementedError:
        pass  # nothing to do after the last step
    if not output_time_major:
        outputs = map_structure(transpose_batch_time, outputs)
    return (outputs, states, lengths) if return_length else (outputs, states)
