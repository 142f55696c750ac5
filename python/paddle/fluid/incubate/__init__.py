"""fluid.incubate: the generators of dataset files."""
from . import data_generator

__all__ = ['data_generator']
