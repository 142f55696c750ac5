"""fluid.incubate: fleets, and the generators of dataset files."""
from . import data_generator, fleet

__all__ = ['data_generator', 'fleet']
