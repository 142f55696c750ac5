"""basic_lstm and basic_gru: layers of units over padded sequences, in one direction or both."""
import copy

from ...param_attr import ParamAttr
from .rnn_units import BasicGRUUnit, BasicLSTMUnit

__all__ = ['basic_lstm', 'basic_gru']


def _named(attr, suffix):
    attr = ParamAttr._to_attr(attr)
    if not attr or not attr.name:
        return attr
    attr = copy.copy(attr)
    attr.name += suffix
    return attr


class _Stack:
    """num_layers units in each direction, and the loop over the steps."""

    def __init__(self, make_unit, names, num_layers, bidirectional, dropout_prob, hidden_size, param_attr, bias_attr):
        self._hidden_size = hidden_size
        self._dropout_prob = dropout_prob
        self._num_layers = num_layers
        self._directions = [
            [make_unit(names + scope + str(i), _named(param_attr, f'_{way}_w_{i}'), _named(bias_attr, f'_{way}_b_{i}'))
             for i in range(num_layers)]
            for way, scope in [('fw', '_layers_'), ('bw', '_reverse_layers_')][:2 if bidirectional else 1]]

    def run(self, input, initial, sequence_length, batch_first):
        """(outputs, last states), each of them [layers * directions, batch, hidden]."""
        from ... import layers
        if batch_first:
            input = layers.transpose(input, [1, 0, 2])
        mask = None
        if sequence_length is not None:
            steps = layers.slice(layers.shape(input), axes=[0], starts=[0], ends=[1])
            mask = layers.transpose(layers.sequence_mask(sequence_length, maxlen=steps, dtype='float32'), [1, 0])
        ways = len(self._directions)
        initial = [layers.reshape(state, [self._num_layers, ways, -1, self._hidden_size]) if state is not None else None
                   for state in initial]
        outputs, states = [], []
        for way, units in enumerate(self._directions):
            turned = (lambda x: layers.reverse(x, axis=[0])) if way else (lambda x: x)
            found, last = self._direction(units, turned(input), turned(mask) if mask is not None else None,
                                          [[_at(state, i, way) for state in initial] for i in range(self._num_layers)])
            outputs.append(turned(found))
            states.append(last)
        out = layers.concat(outputs, axis=2) if ways > 1 else outputs[0]
        # Layer by layer, the forward direction of each before the other.
        joined = [layers.stack([states[way][i][kind] for i in range(self._num_layers) for way in range(ways)], axis=0)
                  for kind in range(len(initial))]
        return layers.transpose(out, [1, 0, 2]) if batch_first else out, joined

    def _direction(self, units, input, mask, initial):
        from ... import layers
        rnn = layers.StaticRNN()
        with rnn.step():
            step_input = rnn.step_input(input)
            step_mask = rnn.step_input(mask) if mask is not None else None
            for unit, begins in zip(units, initial):
                before = [rnn.memory(init=begin) if begin is not None else
                          rnn.memory(batch_ref=input, shape=[-1, self._hidden_size], ref_batch_dim_idx=1)
                          for begin in begins]
                after = unit(step_input, *before)
                after = list(after) if isinstance(after, tuple) else [after]
                if step_mask is not None:  # after its end, a sequence stays where it was
                    after = [layers.elementwise_mul(new, step_mask, axis=0) +
                             layers.elementwise_mul(old, 1.0 - step_mask, axis=0) for old, new in zip(before, after)]
                for old, new in zip(before, after):
                    rnn.update_memory(old, new)
                    rnn.step_output(new)
                step_input = after[0]
                if self._dropout_prob:
                    step_input = layers.dropout(step_input, dropout_prob=self._dropout_prob,
                                                dropout_implementation='upscale_in_train')
            rnn.step_output(step_input)
        *steps, out = rnn()
        last = [layers.squeeze(layers.slice(s, axes=[0], starts=[-1], ends=[2**31 - 1]), axes=[0]) for s in steps]
        kinds = len(initial[0])
        return out, [last[i * kinds:(i + 1) * kinds] for i in range(len(units))]


def _at(state, layer, way):
    """state[layer, way] of [layers, directions, batch, hidden]."""
    from ... import layers
    if state is None:
        return None
    one = layers.slice(state, axes=[0, 1], starts=[layer, way], ends=[layer + 1, way + 1])
    return layers.squeeze(one, axes=[0, 1])


def basic_lstm(input, init_hidden, init_cell, hidden_size, num_layers=1, sequence_length=None, dropout_prob=0.0,
               bidirectional=False, batch_first=True, param_attr=None, bias_attr=None, gate_activation=None,
               activation=None, forget_bias=1.0, dtype='float32', name='basic_lstm'):
    """(outputs, last hidden, last cell). Both directions stand side by side in the outputs."""
    stack = _Stack(lambda scope, weights, biases: BasicLSTMUnit(scope, hidden_size, weights, biases, gate_activation,
                                                                activation, forget_bias, dtype),
                   name, num_layers, bidirectional, dropout_prob, hidden_size, param_attr, bias_attr)
    outputs, (hidden, cell) = stack.run(input, [init_hidden, init_cell], sequence_length, batch_first)
    return outputs, hidden, cell


def basic_gru(input, init_hidden, hidden_size, num_layers=1, sequence_length=None, dropout_prob=0.0,
              bidirectional=False, batch_first=True, param_attr=None, bias_attr=None, gate_activation=None,
              activation=None, dtype='float32', name='basic_gru'):
    """(outputs, last hidden). Both directions stand side by side in the outputs."""
    stack = _Stack(lambda scope, weights, biases: BasicGRUUnit(scope, hidden_size, weights, biases, gate_activation,
                                                               activation, dtype),
                   name, num_layers, bidirectional, dropout_prob, hidden_size, param_attr, bias_attr)
    outputs, (hidden,) = stack.run(input, [init_hidden], sequence_length, batch_first)
    return outputs, hidden
