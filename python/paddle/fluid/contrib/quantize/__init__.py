"""fluid.contrib.quantize: quantised training as a transpiler."""
from . import quantize_transpiler
from .quantize_transpiler import QuantizeTranspiler

__all__ = ['QuantizeTranspiler', 'quantize_transpiler']
