"""fluid.contrib.layers: recurrent nets of plain layers; what is not built yet says so when it is named."""
from .rnn_impl import basic_gru, basic_lstm
from .rnn_units import BasicGRUUnit, BasicLSTMUnit

__all__ = ['BasicGRUUnit', 'BasicLSTMUnit', 'basic_gru', 'basic_lstm']


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.fluid.contrib.layers.{name} is not built yet in Trireme')
