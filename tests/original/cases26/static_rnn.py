"""Recurrent layers of paddle.nn."""
import numpy as np
import paddle.nn as nn
from case import case


def _parts(found):
    """Outputs and states, in a row."""
    out, states = found
    return [out] + (list(states) if isinstance(states, (list, tuple)) else [states])


def _walked(name, make, lengths=None, time_major=False):
    def build(c):
        x = c.x([4, 3, 5] if time_major else [3, 4, 5])
        return _parts(make()(x, sequence_length=c.given(np.array(lengths, 'int64')) if lengths else None))
    case(build, name)


_walked('nn_simple_rnn', lambda: nn.SimpleRNN(5, 4))
_walked('nn_simple_rnn_relu_both_ways', lambda: nn.SimpleRNN(5, 4, direction='bidirect', activation='relu'))
_walked('nn_lstm', lambda: nn.LSTM(5, 4))
_walked('nn_lstm_deep_both_ways', lambda: nn.LSTM(5, 3, num_layers=2, direction='bidirect'))
_walked('nn_lstm_lengths', lambda: nn.LSTM(5, 4), [4, 2, 3])
_walked('nn_lstm_lengths_both_ways', lambda: nn.LSTM(5, 4, direction='bidirect'), [4, 2, 3])
_walked('nn_lstm_time_major', lambda: nn.LSTM(5, 4, time_major=True), time_major=True)
_walked('nn_gru', lambda: nn.GRU(5, 4))
_walked('nn_gru_deep', lambda: nn.GRU(5, 3, num_layers=2))
_walked('nn_gru_lengths_both_ways', lambda: nn.GRU(5, 4, direction='bidirect'), [1, 4, 2])
_walked('nn_rnn_of_a_cell', lambda: nn.RNN(nn.GRUCell(5, 4)))
_walked('nn_rnn_reversed', lambda: nn.RNN(nn.SimpleRNNCell(5, 4), is_reverse=True))


@case
def nn_birnn(c):
    out, (last, first) = nn.BiRNN(nn.GRUCell(5, 4), nn.GRUCell(5, 4))(c.x([3, 4, 5]))
    return out, last, first


@case
def nn_lstm_initial(c):
    states = c.x([1, 3, 4], fixed=True), c.x([1, 3, 4], fixed=True)
    return _parts(nn.LSTM(5, 4)(c.x([3, 4, 5], fixed=True), states))


@case
def nn_gru_initial(c):
    return _parts(nn.GRU(5, 4, direction='bidirect')(c.x([3, 4, 5], fixed=True), c.x([2, 3, 4], fixed=True)))


@case
def nn_simple_rnn_cell(c):
    return nn.SimpleRNNCell(5, 4)(c.x([3, 5]), c.x([3, 4]))[0]


@case
def nn_lstm_cell(c):
    out, (hidden, cell) = nn.LSTMCell(5, 4)(c.x([3, 5]), (c.x([3, 4]), c.x([3, 4])))
    return out, cell


@case
def nn_gru_cell(c):
    return nn.GRUCell(5, 4)(c.x([3, 5]))[0]
