"""The compressor of fluid.contrib.slim, which is not built."""
from ...compiler import not_built

__all__ = ['Compressor', 'ConfigFactory', 'Context', 'Strategy']

_INSTEAD = 'rewrite the program with slim.quantization, and train it in a loop over Executor.run'
Compressor = not_built('contrib.slim.Compressor', _INSTEAD)
ConfigFactory = not_built('contrib.slim.ConfigFactory', _INSTEAD)
Context = not_built('contrib.slim.Context', _INSTEAD)
Strategy = not_built('contrib.slim.Strategy', _INSTEAD)
