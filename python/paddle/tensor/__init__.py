"""Functions on variables under their 2.4 names, by subject; most are methods of variables too."""
from . import attribute, creation, linalg, logic, manipulation, math, random, search, stat  # noqa: F401
from .attribute import *
from .creation import *
from .linalg import *
from .logic import *
from .manipulation import *
from .math import *
from .random import *
from .search import *
from .stat import *
from .methods import add_methods as _add_methods

_PARTS = (attribute, creation, linalg, logic, manipulation, math, random, search, stat)
__all__ = [name for part in _PARTS for name in part.__all__]

_add_methods()
