"""fluid.contrib.slim: quantised training; pruning, distillation and searches say that they are not built when used."""
from . import core, distillation, graph, nas, prune, quantization, searcher
from .core import Compressor, ConfigFactory, Context, Strategy

__all__ = ['quantization', 'Compressor', 'ConfigFactory', 'Context', 'Strategy']
