"""A cell with states, the loop over right words that trains it, and the loop that searches for the likeliest ones."""
import contextlib

from ... import layers
from ...framework import default_main_program

__all__ = ['InitState', 'StateCell', 'TrainingDecoder', 'BeamSearchDecoder']


class InitState:
    """What a state begins as: a variable, or one number in the shape of init_boot's batch."""

    def __init__(self, init=None, shape=None, value=0.0, init_boot=None, need_reorder=False, dtype='float32'):
        if init is None and init_boot is None:
            raise ValueError('InitState begins with a variable: give init, or init_boot for the size of the batch')
        if init is None:
            init = layers.fill_constant_batch_size_like(init_boot, shape=shape, value=value, dtype=dtype)
        self._value, self._need_reorder = init, need_reorder

    value = property(lambda self: self._value)
    need_reorder = property(lambda self: self._need_reorder)


class StateCell:
    """Named inputs and states, and a function (state_updater) that makes the next states of them."""

    def __init__(self, inputs, states, out_state, name=None):
        wrong = [state for state, begin in states.items() if not isinstance(begin, InitState)]
        if wrong:
            raise ValueError(f'the state {wrong[0]} of a StateCell begins with an InitState, got '
                             f'{type(states[wrong[0]]).__name__}')
        if out_state not in states:
            raise ValueError(f'out_state is {out_state!r}, but the states are {", ".join(states)}')
        self._inputs, self._begins = dict(inputs), dict(states)
        self._out_state, self._updater, self._decoder = out_state, None, None
        self._values = {}

    def state_updater(self, updater):
        """Decorates the function that takes the cell and sets its states."""
        self._updater = updater
        return updater

    def _enter(self, decoder):
        self._decoder, self._values = decoder, {}

    def get_input(self, input_name):
        found = self._inputs.get(input_name)
        if found is None:
            raise ValueError(f'input {input_name} of the StateCell is not known: give it to compute_state')
        return found

    def get_state(self, state_name):
        """The state now: what it was set to in this step, else what the last step left."""
        if state_name not in self._begins:
            raise ValueError(f'the StateCell has no state {state_name}, but {", ".join(self._begins)}')
        if state_name not in self._values:
            if self._decoder is None:
                raise ValueError(f'state {state_name} is known inside the block of a decoder alone')
            self._values[state_name] = self._decoder._previous(state_name, self._begins[state_name])
        return self._values[state_name]

    def set_state(self, state_name, state_value):
        self._values[state_name] = state_value

    def compute_state(self, inputs):
        """Gives the inputs of this step to the function, which sets the states."""
        unknown = [name for name in inputs if name not in self._inputs]
        if unknown:
            raise ValueError(f'the StateCell has no input {unknown[0]}, but {", ".join(self._inputs)}')
        if self._updater is None:
            raise ValueError('the StateCell has no function for its next states: decorate one with @cell.state_updater')
        self._inputs.update(inputs)
        for state in self._begins:
            self.get_state(state)
        self._updater(self)

    def update_states(self):
        """The states as they are now are what the next step begins with."""
        if self._decoder is None:
            raise ValueError('update_states belongs into the block of a decoder')
        self._decoder._keep({state: self.get_state(state) for state in self._begins})

    def out_state(self):
        return self.get_state(self._out_state)


class TrainingDecoder:
    """Runs the cell over sequences that are there, step by step."""

    def __init__(self, state_cell, name=None):
        self._rnn, self._cell, self._memories, self._closed = layers.DynamicRNN(name), state_cell, {}, False

    state_cell = property(lambda self: self._cell)
    dynamic_rnn = property(lambda self: self._rnn)
    type = property(lambda self: 'training')

    @contextlib.contextmanager
    def block(self):
        """What is built inside is one step."""
        self._cell._enter(self)
        with self._rnn.block():
            yield
        self._cell._enter(None)
        self._closed = True

    def step_input(self, x):
        return self._rnn.step_input(x)

    def static_input(self, x):
        return self._rnn.static_input(x)

    def output(self, *outputs):
        self._rnn.output(*outputs)

    def _previous(self, state, begin):
        self._memories[state] = self._rnn.memory(init=begin.value, need_reorder=begin.need_reorder)
        return self._memories[state]

    def _keep(self, values):
        for state, value in values.items():
            self._rnn.update_memory(self._memories[state], value)

    def __call__(self, *args, **kwargs):
        if not self._closed:
            raise ValueError('the results of a TrainingDecoder are there after its block')
        return self._rnn()


class BeamSearchDecoder:
    """Searches step by step for the likeliest words; decode() builds the usual step, block() one of your own."""

    def __init__(self, state_cell, init_ids, init_scores, target_dict_dim, word_dim, input_var_dict={}, topk_size=50,
                 sparse_emb=True, max_len=100, beam_size=1, end_id=1, name=None):
        unknown = [name for name in input_var_dict if name not in state_cell._inputs]
        if unknown:
            raise ValueError(f'input_var_dict has {unknown[0]}, which is no input of the StateCell')
        self._cell, self._ids, self._scores = state_cell, init_ids, init_scores
        self._words, self._word_dim, self._inputs = target_dict_dim, word_dim, dict(input_var_dict)
        self._topk_size, self._sparse, self._beam_size, self._end_id = topk_size, sparse_emb, beam_size, end_id
        self._step = layers.zeros([1], 'int64')
        self._most = layers.fill_constant([1], 'int64', max_len)
        self._goes_on = layers.less_than(self._step, self._most)
        self._loop = layers.While(self._goes_on)
        self._arrays, self._updates, self._state_arrays = {}, [], {}
        self._state_step = self._ids_array = self._scores_array = None
        self._where = 'before'

    state_cell = property(lambda self: self._cell)
    type = property(lambda self: 'beam_search')

    @contextlib.contextmanager
    def _outside(self):
        """What is built inside stands before the loop."""
        program = default_main_program()
        inside = program.current_block_idx
        program.current_block_idx = self._before
        try:
            yield
        finally:
            program.current_block_idx = inside

    @contextlib.contextmanager
    def block(self):
        """What is built inside is one step; at its end the arrays get what update_array said."""
        if self._where != 'before':
            raise ValueError('a BeamSearchDecoder has one block')
        self._before, self._where = default_main_program().current_block_idx, 'inside'
        self._cell._enter(self)
        with self._loop.block():
            yield
            with layers.Switch() as switch:
                with switch.case(self._goes_on):
                    layers.increment(self._step, value=1.0, in_place=True)
                    for array, value in self._updates:
                        layers.array_write(value, i=self._step, array=array)
                    layers.less_than(self._step, self._most, cond=self._goes_on)
        self._cell._enter(None)
        self._where = 'after'

    def _inside(self, what):
        if self._where != 'inside':
            raise ValueError(f'{what} belongs into the block of a BeamSearchDecoder')

    def early_stop(self):
        """No step comes after this one, and what it would have written is left out."""
        self._inside('early_stop')
        layers.fill_constant([1], 'bool', 0, out=self._goes_on)

    def read_array(self, init, is_ids=False, is_scores=False):
        """What the last step has written; before the first one, init."""
        self._inside('read_array')
        if is_ids and is_scores:
            raise ValueError('an array holds ids or scores, not both')
        with self._outside():
            array = layers.array_write(init, i=layers.zeros([1], 'int64'))
        if is_ids:
            self._ids_array = array
        elif is_scores:
            self._scores_array = array
        value = layers.array_read(array=array, i=self._step)
        self._arrays[value.name] = array
        return value

    def update_array(self, array, value):
        """`array`, which read_array gave, is `value` in the next step."""
        self._inside('update_array')
        if array.name not in self._arrays:
            raise ValueError(f'{array.name} does not come from read_array')
        self._updates.append((self._arrays[array.name], value))

    def _previous(self, state, begin):
        with self._outside():
            if self._state_step is None:
                self._state_step = layers.zeros([1], 'int64')
            self._state_arrays[state] = layers.array_write(begin.value, i=layers.zeros([1], 'int64'))
        return layers.array_read(array=self._state_arrays[state], i=self._state_step)

    def _keep(self, values):
        layers.increment(self._state_step, value=1.0, in_place=True)
        for state, value in values.items():
            layers.array_write(value, i=self._state_step, array=self._state_arrays[state])

    def decode(self):
        """The usual step: the last words through an embedding and the cell, the likeliest next ones by softmax."""
        with self.block():
            ids, scores = self.read_array(self._ids, is_ids=True), self.read_array(self._scores, is_scores=True)
            words = layers.embedding(ids, size=[self._words, self._word_dim], dtype='float32', is_sparse=self._sparse)
            fed, more = {}, {}
            for name, var in self._inputs.items():
                more[name] = self.read_array(var)
                fed[name] = layers.sequence_expand(more[name], scores)
            for state in self._cell._begins:
                self._cell.set_state(state, layers.sequence_expand(self._cell.get_state(state), scores))
            for name in self._cell._inputs:
                fed.setdefault(name, words)
            self._cell.compute_state(inputs=fed)
            out = layers.lod_reset(self._cell.out_state(), y=scores)
            likely = layers.fc(out, size=self._words, act='softmax')
            top, indices = layers.topk(likely, k=self._topk_size)
            total = layers.elementwise_add(layers.log(top), layers.reshape(scores, [-1]), axis=0)
            chosen, chosen_scores = layers.beam_search(ids, scores, indices, total, self._beam_size, end_id=self._end_id,
                                                       level=0)
            with layers.Switch() as switch:
                with switch.case(layers.is_empty(chosen)):
                    self.early_stop()
                with switch.default():
                    self._cell.update_states()
                    self.update_array(ids, chosen)
                    self.update_array(scores, chosen_scores)
                    for name, read in more.items():
                        self.update_array(read, fed[name])

    def __call__(self):
        """(words, their scores) of the sentences found."""
        if self._where != 'after':
            raise ValueError('the sentences of a BeamSearchDecoder are there after decode(), or after its block')
        if self._ids_array is None or self._scores_array is None:
            raise ValueError('the block of a BeamSearchDecoder reads ids (read_array(..., is_ids=True)) and scores')
        return layers.beam_search_decode(ids=self._ids_array, scores=self._scores_array, beam_size=self._beam_size,
                                         end_id=self._end_id)
