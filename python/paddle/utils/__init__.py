"""What old programs take from paddle.utils: plots of their costs."""
from . import plot
from ..fluid import unique_name
from .plot import Ploter

__all__ = ['Ploter']
