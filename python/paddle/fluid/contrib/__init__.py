"""fluid.contrib: layers, mixed precision, readers; what is not built yet says so when named."""
from . import layers, mixed_precision, reader
from .reader import distributed_batch_reader


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'paddle.fluid.contrib.{name} is not built yet in Trireme')
