"""fluid.incubate.fleet: programs that train by several processes, without touching a transpiler."""
from . import base

__all__ = []
