"""fluid.contrib.slim: quantised training; pruning, distillation and searches say that they are not built when used."""
from . import core, graph, nas, quantization
from .core import Compressor, ConfigFactory

__all__ = ['quantization', 'Compressor', 'ConfigFactory']
