"""paddle.framework: what code for the second line takes from here. Its home is paddle.fluid."""
from ..fluid import core
from ..fluid.core import CPUPlace, CUDAPinnedPlace, CUDAPlace
from ..fluid.framework import Variable, get_flags, in_dygraph_mode, set_flags
from ..fluid.param_attr import ParamAttr

__all__ = ['CPUPlace', 'CUDAPinnedPlace', 'CUDAPlace', 'ParamAttr', 'Variable', 'core',
           'get_default_dtype', 'get_flags', 'in_dygraph_mode', 'in_dynamic_mode', 'seed',
           'set_default_dtype', 'set_flags']

# These stand in the package itself, which is still being imported when this module is.
_IN_PACKAGE = ('seed', 'get_default_dtype', 'set_default_dtype', 'in_dynamic_mode', 'save', 'load', 'dtype')


def __getattr__(name):
    if name in _IN_PACKAGE:
        import paddle
        return getattr(paddle, name)
    raise AttributeError(f'module paddle.framework has no attribute {name!r}')
