"""Readers: functions that return iterators over samples, and ways to combine them."""
from . import creator, decorator
from .decorator import *

__all__ = decorator.__all__
