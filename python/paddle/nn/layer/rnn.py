"""Recurrent cells, and the layers that walk them along time."""
import math

import _trireme as _C

from ..._style import one, static_style
from ...fluid import layers as _layers
from ...fluid.layers.rnn import _map_shapes, keep_where, reverse_time, transpose_batch_time
from ...fluid.layers.utils import flatten, map_structure
from .. import functional as F
from ..initializer import Uniform
from .container import LayerList
from .layers import Layer

__all__ = ['RNNCellBase', 'SimpleRNNCell', 'LSTMCell', 'GRUCell', 'RNN', 'BiRNN', 'SimpleRNN', 'LSTM', 'GRU']


class RNNCellBase(Layer):
    """One step: forward(inputs, states) gives (outputs, new states); state_shape says what states look like."""

    @static_style
    def get_initial_states(self, batch_ref, shape=None, dtype=None, init_value=0.0, batch_dim_idx=0):
        """States filled with init_value, for as many rows as dimension batch_dim_idx of batch_ref has."""
        batch_ref = flatten(batch_ref)[0]

        def fill(sizes, type_):
            sizes = list(sizes) if sizes and sizes[0] == -1 else [-1] + list(sizes)
            return _C.fill_constant_batch_size_like(batch_ref, sizes, type_, init_value, input_dim_idx=batch_dim_idx)
        return _map_shapes(fill, self.state_shape if shape is None else shape, dtype or self._dtype)

    @property
    def state_shape(self):
        """Shapes of the states without the batch, nested as the states are."""
        raise NotImplementedError(f'{type(self).__name__} must define state_shape')

    def call(self, inputs, states, **kwargs):
        """What fluid.layers.rnn calls."""
        return self(inputs, states, **kwargs)


class _Cell(RNNCellBase):
    """Cells of gates: what the input adds to them may be computed for all steps at once."""

    _gates = 1

    def _make(self, input_size, hidden_size, *attrs):
        if hidden_size <= 0:
            raise ValueError(f'{type(self).__name__}: hidden_size is {hidden_size}: give a number above 0')
        self.input_size, self.hidden_size = input_size, hidden_size
        spread = Uniform(-1.0 / math.sqrt(hidden_size), 1.0 / math.sqrt(hidden_size))
        height = self._gates * hidden_size
        shapes = {'weight_ih': [height, input_size], 'weight_hh': [height, hidden_size], 'bias_ih': [height],
                  'bias_hh': [height]}
        for (name, shape), attr in zip(shapes.items(), attrs):
            setattr(self, name, self.create_parameter(shape, attr, is_bias=name.startswith('bias'),
                                                      default_initializer=spread))

    @property
    def state_shape(self):
        return (self.hidden_size,)

    def _of_inputs(self, x):
        return self._gates_of(x, self.weight_ih, self.bias_ih)

    def _of_hidden(self, h):
        return self._gates_of(h, self.weight_hh, self.bias_hh)

    @staticmethod
    def _gates_of(x, weight, bias):
        out = one('matmul_v2', {'X': x, 'Y': weight}, {'trans_y': True})
        return out if bias is None else _C.elementwise('elementwise_add', out, bias, -1, None, None)

    @static_style
    def forward(self, inputs, states=None):
        states = self.get_initial_states(inputs) if states is None else states
        new = self._step(self._of_inputs(inputs), states)
        return (new[0] if isinstance(new, tuple) else new), new

    def extra_repr(self):
        return f'{self.input_size}, {self.hidden_size}'


def _add(x, y):
    return _C.elementwise('elementwise_add', x, y, -1, None, None)


def _multiply(x, y):
    return _C.elementwise('elementwise_mul', x, y, -1, None, None)


class SimpleRNNCell(_Cell):
    """h = activation(W_ih x + b_ih + W_hh h + b_hh)"""

    def __init__(self, input_size, hidden_size, activation='tanh', weight_ih_attr=None, weight_hh_attr=None,
                 bias_ih_attr=None, bias_hh_attr=None, name=None):
        super().__init__()
        if activation not in ('tanh', 'relu'):
            raise ValueError(f"SimpleRNNCell: activation must be 'tanh' or 'relu', got {activation!r}")
        self.activation = activation
        self._make(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)

    def _step(self, gates, h):
        return one(self.activation, {'X': _add(gates, self._of_hidden(h))})


class LSTMCell(_Cell):
    """Long short-term memory; the states are (hidden, cell), the gates in, forget, candidate, out."""

    _gates = 4

    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
                 bias_hh_attr=None, name=None):
        super().__init__()
        self._make(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)

    @property
    def state_shape(self):
        return ((self.hidden_size,), (self.hidden_size,))

    def _step(self, gates, states):
        h, c = states
        in_, forget, candidate, out = _C.split(_add(gates, self._of_hidden(h)), 4, -1, None)
        c = _add(_multiply(one('sigmoid', {'X': forget}), c),
                 _multiply(one('sigmoid', {'X': in_}), one('tanh', {'X': candidate})))
        return _multiply(one('sigmoid', {'X': out}), one('tanh', {'X': c})), c


class GRUCell(_Cell):
    """A gated recurrent unit: reset, update, candidate; reset acts behind W_hh."""

    _gates = 3

    def __init__(self, input_size, hidden_size, weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None,
                 bias_hh_attr=None, name=None):
        super().__init__()
        self._make(input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)

    def _step(self, gates, h):
        x_reset, x_update, x_candidate = _C.split(gates, 3, -1, None)
        h_reset, h_update, h_candidate = _C.split(self._of_hidden(h), 3, -1, None)
        reset = one('sigmoid', {'X': _add(x_reset, h_reset)})
        update = one('sigmoid', {'X': _add(x_update, h_update)})
        candidate = one('tanh', {'X': _add(x_candidate, _multiply(reset, h_candidate))})
        return _add(_multiply(_C.elementwise('elementwise_sub', h, candidate, -1, None, None), update), candidate)


class RNN(Layer):
    """Any cell walked along time: (outputs of every step, states after the last)."""

    def __init__(self, cell, is_reverse=False, time_major=False):
        super().__init__()
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    @static_style
    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        if initial_states is None:
            initial_states = self.cell.get_initial_states(inputs, self.cell.state_shape,
                                                          batch_dim_idx=1 if self.time_major else 0)
        return _layers.rnn(self.cell, inputs, initial_states, sequence_length, self.time_major, self.is_reverse,
                           **kwargs)


class BiRNN(Layer):
    """Two cells, one of them from the end; outputs are put side by side."""

    def __init__(self, cell_fw, cell_bw, time_major=False):
        super().__init__()
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    @static_style
    def forward(self, inputs, initial_states=None, sequence_length=None, **kwargs):
        states = initial_states or (None, None)
        found = []
        for cell, state, backwards in ((self.cell_fw, states[0], False), (self.cell_bw, states[1], True)):
            if state is None:
                state = cell.get_initial_states(inputs, cell.state_shape, batch_dim_idx=1 if self.time_major else 0)
            found.append(_layers.rnn(cell, inputs, state, sequence_length, self.time_major, backwards, **kwargs))
        (forward, last), (backward, first) = found
        return map_structure(lambda x, y: _C.concat([x, y], -1), forward, backward), (last, first)


def _walk(cell, inputs, states, mask, backwards):
    """(outputs [time, batch, width], last states) of a cell of gates; beyond its length a sample gives zeros."""
    gates = cell._of_inputs(inputs)
    if backwards:
        gates, mask = reverse_time(gates), None if mask is None else reverse_time(mask)
    states = list(states)
    for state in states:
        state.stop_gradient = False
    walk = _layers.StaticRNN()
    with walk.step():
        at_step = walk.step_input(gates)
        old = [walk.memory(init=state) for state in states]
        new = cell._step(at_step, tuple(old) if len(old) > 1 else old[0])
        new = list(new) if isinstance(new, tuple) else [new]
        output = new[0]
        if mask is not None:
            alive = walk.step_input(mask)
            output = _C.elementwise('elementwise_mul', output, alive, 0, None, None)
            new = [keep_where(alive, now, before) for now, before in zip(new, old)]
        for before, now in zip(old, new):
            walk.update_memory(before, now)
        for each in [output] + new:
            walk.step_output(each)
    outputs, *kept = walk()
    return reverse_time(outputs) if backwards else outputs, [_C.squeeze(_C.slice(
        state, [0], [-1], [2 ** 31 - 1]), [0]) for state in kept]


class _Recurrent(LayerList):
    """Cells in layers, forwards or both ways; inputs are [batch, time, size], or [time, batch, size]."""

    _cell, _states = None, 1

    def _make(self, input_size, hidden_size, num_layers, direction, time_major, dropout, attrs, **how):
        Layer.__init__(self)
        if direction not in ('forward', 'bidirect', 'bidirectional'):
            raise ValueError(f"{type(self).__name__}: direction must be 'forward' or 'bidirect', got {direction!r}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 1 if direction == 'forward' else 2
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * self.num_directions
            cells = [self._cell(size, hidden_size, **attrs, **how) for _ in range(self.num_directions)]
            self.append(RNN(cells[0], False, time_major) if len(cells) == 1 else BiRNN(*cells, time_major))
            for cell, suffix in zip(cells, ('', '_reverse')):
                for name in ('weight_ih', 'weight_hh', 'bias_ih', 'bias_hh'):
                    setattr(self, f'{name}_l{layer}{suffix}', getattr(cell, name))

    def _cells(self, layer):
        walker = self[layer]
        return [walker.cell] if self.num_directions == 1 else [walker.cell_fw, walker.cell_bw]

    def _initial(self, states, inputs, index):
        """The states of one cell: [batch, width] each."""
        if states is None:
            return [_C.fill_constant_batch_size_like(inputs, [-1, self.hidden_size], inputs.dtype, 0.0,
                                                     input_dim_idx=1) for _ in range(self._states)]
        return [_C.squeeze(_C.slice(state, [0], [index], [index + 1]), [0]) for state in states]

    @static_style
    def forward(self, inputs, initial_states=None, sequence_length=None):
        x = inputs if self.time_major else transpose_batch_time(inputs)
        mask = None
        if sequence_length is not None:
            longest = _C.slice(_C.shape(x), [0], [0], [1])
            mask = _C.transpose(_layers.sequence_mask(sequence_length, longest, _C.dtype_name(x.dtype)), [1, 0])
        if initial_states is not None and not isinstance(initial_states, (list, tuple)):
            initial_states = [initial_states]
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, training=self.training, mode='upscale_in_train')
            outs = []
            for backwards, cell in enumerate(self._cells(layer)):
                begin = self._initial(initial_states, x, layer * self.num_directions + backwards)
                out, states = _walk(cell, x, begin, mask, bool(backwards))
                outs.append(out)
                last.append(states)
            x = outs[0] if len(outs) == 1 else _C.concat(outs, -1)
        states = tuple(_C.stack(list(of_kind), 0) for of_kind in zip(*last))
        return x if self.time_major else transpose_batch_time(x), states if self._states > 1 else states[0]

    def extra_repr(self):
        return f'{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, time_major={self.time_major}'


def _attributes(weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr):
    return dict(weight_ih_attr=weight_ih_attr, weight_hh_attr=weight_hh_attr, bias_ih_attr=bias_ih_attr,
                bias_hh_attr=bias_hh_attr)


class SimpleRNN(_Recurrent):
    """SimpleRNNCells along time: (outputs, last hidden states [layers * directions, batch, width])."""

    _cell = SimpleRNNCell

    def __init__(self, input_size, hidden_size, num_layers=1, direction='forward', time_major=False, dropout=0.0,
                 activation='tanh', weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None,
                 name=None):
        self._make(input_size, hidden_size, num_layers, direction, time_major, dropout,
                   _attributes(weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr), activation=activation)


class LSTM(_Recurrent):
    """LSTMCells along time: (outputs, (last hidden states, last cells))."""

    _cell, _states = LSTMCell, 2

    def __init__(self, input_size, hidden_size, num_layers=1, direction='forward', time_major=False, dropout=0.0,
                 weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None):
        self._make(input_size, hidden_size, num_layers, direction, time_major, dropout,
                   _attributes(weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))


class GRU(_Recurrent):
    """GRUCells along time: (outputs, last hidden states [layers * directions, batch, width])."""

    _cell = GRUCell

    def __init__(self, input_size, hidden_size, num_layers=1, direction='forward', time_major=False, dropout=0.0,
                 weight_ih_attr=None, weight_hh_attr=None, bias_ih_attr=None, bias_hh_attr=None, name=None):
        self._make(input_size, hidden_size, num_layers, direction, time_major, dropout,
                   _attributes(weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
