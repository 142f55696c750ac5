"""Functions on variables under their 2.4 names, by subject; most are methods of variables too."""
from . import attribute, creation, linalg, logic, manipulation, math, random, running, search, stat  # noqa: F401
from .attribute import *
from .creation import *
from .linalg import *
from .logic import *
from .manipulation import *
from .math import *
from .random import *
from .running import *
from .search import *
from .stat import *
from .methods import add_methods as _add_methods

_PARTS = (attribute, creation, linalg, logic, manipulation, math, random, running, search, stat)
__all__ = [name for part in _PARTS for name in part.__all__]

# In a static program nothing happens in place: x.exp_() is x.exp(), a new variable, as in 2.4.
for _name in ('abs acos addmm asin atan bitwise_and bitwise_not bitwise_or bitwise_xor cast ceil clip cos cosh cumprod cumsum divide '
              'equal erf exp expm1 flatten floor floor_divide floor_mod frac greater_equal greater_than hypot index_add index_fill '
              'ldexp lerp less_equal less_than log log10 log2 logical_and logical_not logical_or logit masked_fill mod '
              'multiply nan_to_num neg not_equal pow put_along_axis reciprocal remainder renorm round rsqrt scale sigmoid '
              'sin sinh sqrt square subtract add t tan tanh transpose tril triu trunc where').split():
    globals()[_name + '_'] = globals()[_name]
    __all__.append(_name + '_')

_add_methods([name for name in __all__ if name.endswith('_')])
