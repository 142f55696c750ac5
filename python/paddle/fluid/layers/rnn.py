"""Recurrent cells that programs may define themselves, and the loops that run them.

A cell has call(inputs, states) and says what its states look like; rnn() walks it along time.
"""
import functools

import _trireme as _C

from .control_flow import StaticRNN
from .sequences import sequence_mask
from .utils import (assert_same_structure, flatten, in_form_of, is_sequence, map_structure,
                    pack_sequence_as)

__all__ = ['RNNCell', 'GRUCell', 'LSTMCell', 'rnn']


class RNNCell:
    """One step: derive from it and define call, state_shape and, if need be, state_dtype."""

    def call(self, inputs, states, **kwargs):
        """(outputs, new states); the states are nested alike before and after."""
        raise NotImplementedError(f'{type(self).__name__} must define call')

    def __call__(self, inputs, states, **kwargs):
        return self.call(inputs, states, **kwargs)

    @property
    def state_shape(self):
        """Shapes of the states without the batch, nested as the states are."""
        raise NotImplementedError(f'{type(self).__name__} must define state_shape')

    @property
    def state_dtype(self):
        raise NotImplementedError(f'{type(self).__name__} does not say what state_dtype is')

    def get_initial_states(self, batch_ref, shape=None, dtype='float32', init_value=0,
                           batch_dim_idx=0):
        """States filled with init_value, for as many rows as dimension batch_dim_idx of batch_ref."""
        batch_ref = flatten(batch_ref)[0]
        shape = self.state_shape if shape is None else shape
        try:
            dtype = self.state_dtype
        except NotImplementedError:
            pass  # one for all states

        def fill(sizes, type_):
            sizes = list(sizes) if sizes and sizes[0] == -1 else [-1] + list(sizes)
            return _C.fill_constant_batch_size_like(batch_ref, sizes, type_, init_value,
                                                    input_dim_idx=batch_dim_idx)
        return _map_shapes(fill, shape, dtype)


def _is_shape(value):
    return isinstance(value, (list, tuple)) and all(isinstance(size, int) for size in value)


def _map_shapes(function, shape, dtype):
    """map_structure where a list of integers is a leaf; one dtype serves all."""
    if isinstance(shape, int):
        return function([shape], dtype)
    if _is_shape(shape):
        return function(shape, dtype)
    if isinstance(shape, dict):
        return {key: _map_shapes(function, part, dtype[key] if isinstance(dtype, dict) else dtype)
                for key, part in shape.items()}
    types = dtype if is_sequence(dtype) else [dtype] * len(shape)
    return in_form_of(shape, [_map_shapes(function, *pair) for pair in zip(shape, types)])


class GRUCell(RNNCell):
    """A gated recurrent unit made of small ops."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None, gate_activation=None,
                 activation=None, dtype='float32', name='GRUCell'):
        self.hidden_size = hidden_size
        how = dict(param_attr=param_attr, bias_attr=bias_attr, gate_activation=gate_activation,
                   activation=activation, dtype=dtype)
        self.gru_unit = _C.BasicGRUUnit(name, hidden_size, **how)

    def call(self, inputs, states):
        # What goes out is what the next step gets.
        return (self.gru_unit(inputs, states),) * 2

    @property
    def state_shape(self):
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """Long short-term memory made of small ops; the states are [hidden, cell]."""

    def __init__(self, hidden_size, param_attr=None, bias_attr=None, gate_activation=None,
                 activation=None, forget_bias=1.0, dtype='float32', name='LSTMCell'):
        self.hidden_size = hidden_size
        how = dict(param_attr=param_attr, bias_attr=bias_attr, gate_activation=gate_activation,
                   activation=activation, forget_bias=forget_bias, dtype=dtype)
        self.lstm_unit = _C.BasicLSTMUnit(name, hidden_size, **how)

    def call(self, inputs, states):
        hidden, cell = self.lstm_unit(inputs, *states)
        return hidden, [hidden, cell]

    @property
    def state_shape(self):
        return [[self.hidden_size], [self.hidden_size]]


def transpose_batch_time(x):
    rest = range(2, len(x.shape))
    return _C.transpose(x, [1, 0, *rest])


def reverse_time(x):
    return _C.apply('reverse', {'X': x}, {'axis': [0]})['Out'][0]


def keep_where(mask, kept, other):
    """kept in rows where the mask is 1, other where it is 0."""
    return _C.elementwise('elementwise_mul', kept, mask, 0) \
        - _C.elementwise('elementwise_mul', other, mask - 1.0, 0)


def rnn(cell, inputs, initial_states=None, sequence_length=None, time_major=False,
        is_reverse=False, **kwargs):
    """(outputs of every step, states after the last) of a cell walked along time.

    inputs are [batch, time, ...], or [time, batch, ...] with time_major. Beyond sequence_length the
    states stay as they are.
    """
    if initial_states is None:
        initial_states = cell.get_initial_states(inputs, batch_dim_idx=1 if time_major else 0)
    for state in flatten(initial_states):
        state.stop_gradient = False
    if not time_major:
        inputs = map_structure(transpose_batch_time, inputs)
    mask = None
    if sequence_length is not None:
        longest = _C.shape(flatten(inputs)[0])[0]
        mask = _C.transpose(sequence_mask(sequence_length, longest,
                                          flatten(initial_states)[0].dtype), [1, 0])
    if is_reverse:
        inputs = map_structure(reverse_time, inputs)
        mask = None if mask is None else reverse_time(mask)

    walk = StaticRNN()
    with walk.step():
        step_inputs = map_structure(walk.step_input, inputs)
        states = map_structure(walk.memory, initial_states)
        outputs, new_states = cell.call(step_inputs, map_structure(lambda x: x, states), **kwargs)
        assert_same_structure(states, new_states, check_types=False)
        if mask is not None:
            alive = walk.step_input(mask)
            new_states = map_structure(functools.partial(keep_where, alive), new_states, states)
        map_structure(walk.update_memory, states, new_states)
        map_structure(walk.step_output, outputs)
        map_structure(walk.step_output, new_states)
    results = walk()
    count = len(flatten(outputs))
    final_outputs = pack_sequence_as(outputs, results[:count])
    final_states = pack_sequence_as(new_states, [states[-1] for states in results[count:]])
    if is_reverse:
        final_outputs = map_structure(reverse_time, final_outputs)
    if not time_major:
        final_outputs = map_structure(transpose_batch_time, final_outputs)
    return final_outputs, final_states
