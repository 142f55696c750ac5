"""One step of a GRU and of an LSTM, made of plain layers."""
import copy

import _trireme as _C

from ...layer_helper import LayerHelper
from ...param_attr import ParamAttr

__all__ = ['BasicGRUUnit', 'BasicLSTMUnit']


class _Unit:
    """Makes its parameters in the program that is being built, under the same names in every one."""

    def __init__(self, name_scope, hidden_size, param_attr, bias_attr, dtype):
        self._helper = LayerHelper(name_scope, name=_C.generate_name(name_scope))
        self._hidden_size = hidden_size
        self._attrs = {False: ParamAttr._to_attr(param_attr), True: ParamAttr._to_attr(bias_attr)}
        self._dtype = dtype
        self._names = {}

    def _parameter(self, role, shape, is_bias=False):
        attr = self._attrs[is_bias]
        block = self._helper.main_program.global_block()
        name = self._names.get((role, is_bias))
        if name is None:
            given = attr and attr.name
            suffix = f'_{role}' if role else ''
            name = given + suffix if given else _C.generate_name(self._helper.name + ('.b' if is_bias else '.w'))
            self._names[(role, is_bias)] = name
        if block.has_var(name):
            return block.var(name)
        attr = copy.copy(attr) if attr else ParamAttr()
        attr.name = name
        return self._helper.create_parameter(attr, shape, self._dtype, is_bias)

    def __call__(self, *args):
        return self.forward(*args)


class BasicGRUUnit(_Unit):
    """new hidden = u * hidden + (1 - u) * candidate; r says how much of hidden the candidate sees."""

    def __init__(self, name_scope, hidden_size, param_attr=None, bias_attr=None, gate_activation=None,
                 activation=None, dtype='float32'):
        from ... import layers
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or layers.sigmoid
        self._activation = activation or layers.tanh

    def forward(self, input, pre_hidden):
        from ... import layers
        size, width = self._hidden_size, input.shape[-1] + self._hidden_size
        gate_weight = self._parameter('gate', [width, 2 * size])
        candidate_weight = self._parameter('candidate', [width, size])
        gate_bias = self._parameter('gate', [2 * size], is_bias=True)
        candidate_bias = self._parameter('candidate', [size], is_bias=True)
        gates = layers.matmul(layers.concat([input, pre_hidden], axis=1), gate_weight)
        gates = self._gate_activation(layers.elementwise_add(gates, gate_bias))
        r, u = layers.split(gates, num_or_sections=2, dim=1)
        candidate = layers.matmul(layers.concat([input, r * pre_hidden], axis=1), candidate_weight)
        candidate = self._activation(layers.elementwise_add(candidate, candidate_bias))
        return u * pre_hidden + (1 - u) * candidate


class BasicLSTMUnit(_Unit):
    """Returns (new hidden, new cell); forget_bias is added to what the forget gate sees."""

    def __init__(self, name_scope, hidden_size, param_attr=None, bias_attr=None, gate_activation=None,
                 activation=None, forget_bias=1.0, dtype='float32'):
        from ... import layers
        super().__init__(name_scope, hidden_size, param_attr, bias_attr, dtype)
        self._gate_activation = gate_activation or layers.sigmoid
        self._activation = activation or layers.tanh
        self._forget_bias = float(forget_bias)

    def forward(self, input, pre_hidden, pre_cell):
        from ... import layers
        size = self._hidden_size
        weight = self._parameter('', [input.shape[-1] + size, 4 * size])
        bias = self._parameter('', [4 * size], is_bias=True)
        gates = layers.elementwise_add(layers.matmul(layers.concat([input, pre_hidden], axis=1), weight), bias)
        i, j, f, o = layers.split(gates, num_or_sections=4, dim=-1)
        keep = self._gate_activation(f + self._forget_bias)
        new_cell = pre_cell * keep + self._gate_activation(i) * self._activation(j)
        new_hidden = self._activation(new_cell) * self._gate_activation(o)
        return new_hidden, new_cell
