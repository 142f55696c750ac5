"""Inferencer under the name that it had before it was fluid.contrib.inferencer."""
from .contrib.inferencer import Inferencer

__all__ = ['Inferencer']
