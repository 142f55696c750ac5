"""The package programs import: PaddlePaddle's static-graph API, run by Trireme."""
try:
    import _trireme as _C
except ImportError as _error:
    raise ImportError('the extension module _trireme was not found: build it first (make build), and '
                      'run the Python in .venv') from _error

from .version import full_version as __version__
from .version import trireme_version
from . import fluid, progress, version
from .batch import batch
from . import tensor  # first: it gives variables their methods
from . import (amp, compat, dataset, device, distribution, framework, inference, io, linalg, metric, nn, optimizer, reader,
               regularizer, static, utils)
from .device import (get_device, is_compiled_with_cinn, is_compiled_with_cuda, is_compiled_with_ipu,
                     is_compiled_with_mlu, is_compiled_with_npu, is_compiled_with_rocm, is_compiled_with_xpu,
                     set_device)
from .fluid import framework as _framework
from .fluid.core import CPUPlace, CUDAPinnedPlace, CUDAPlace, VarType as _VarType
from .fluid.framework import get_flags, set_flags, require_version as _require_version
from .fluid.framework import Variable
from .fluid.param_attr import ParamAttr
from ._summary import summary
from .saving import load, save
from .tensor import *

bool = _VarType.BOOL
uint8 = _VarType.UINT8
int8 = _VarType.INT8
int16 = _VarType.INT16
int32 = _VarType.INT32
int64 = _VarType.INT64
float16 = _VarType.FP16
bfloat16 = _VarType.BF16
float32 = _VarType.FP32
float64 = _VarType.FP64
dtype = _VarType


def enable_static():
    """Static mode is the only one; programs then print as 2.4 prints them."""
    _framework._print_as_2_4 = True


def disable_static(place=None):
    raise NotImplementedError('paddle.disable_static: Trireme runs static programs only, there is '
                              'no dynamic mode. Call paddle.enable_static() and build a Program')


def in_dynamic_mode():
    return False


def in_dygraph_mode():
    return False


def seed(seed):
    """The seed of programs created from now on, and of the default ones."""
    static.Program._set_default_seed(int(seed))
    for program in (static.default_main_program(), static.default_startup_program()):
        program.random_seed = int(seed)


def get_default_dtype():
    return _C.dtype_name(_C.get_default_dtype())


def set_default_dtype(d):
    _C.set_default_dtype(d)


Tensor = Variable


class no_grad:
    """with no_grad(): ..., or @no_grad(). Gradients of a static program come from minimize: as in 2.4 this changes
    nothing, and what is to have no gradient says so by stop_gradient."""

    def __init__(self, func=None):
        self._function = func

    def __call__(self, *args, **kwargs):
        return args[0] if self._function is None else self._function(*args, **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def is_grad_enabled():
    return True


def iinfo(dtype):
    """numpy.iinfo of a type of whole numbers."""
    import numpy
    return numpy.iinfo(_C.dtype_name(_C.to_dtype(dtype)))


def finfo(dtype):
    """numpy.finfo of a type of fractional numbers."""
    import numpy
    name = _C.dtype_name(_C.to_dtype(dtype))
    if name == 'bfloat16':
        raise NotImplementedError('paddle.finfo: numpy has no bfloat16: its largest number is that of float32, and '
                                  'its eps 2**-7')
    return numpy.finfo(name)


def flops(*args, **kwargs):
    raise NotImplementedError('paddle.flops is not built in Trireme: use paddle.summary for the parameters')


def get_cudnn_version():
    return None


def grad(*args, **kwargs):
    raise NotImplementedError('paddle.grad needs dynamic mode: use paddle.static.gradients')


_DYNAMIC_ONLY = {
    'Model': 'build a program, and run it by paddle.static.Executor',
    'DataParallel': 'use paddle.static.CompiledProgram(program).with_data_parallel',
    'set_grad_enabled': 'say stop_gradient on variables',
    'enable_grad': 'say stop_gradient on variables',
    'LazyGuard': 'parameters of a static program are made when the startup program runs',
}


def __getattr__(name):
    if name == 'distributed':
        from importlib import import_module
        return import_module('paddle.distributed')
    if name in ('vision', 'text', 'jit', 'incubate', 'hapi', 'sparse', 'fft', 'signal'):
        raise NotImplementedError(f'paddle.{name} is not built yet in Trireme')
    if name in _DYNAMIC_ONLY:
        raise NotImplementedError(f'paddle.{name} needs dynamic mode, which Trireme does not have: {_DYNAMIC_ONLY[name]}')
    raise AttributeError(f'module paddle has no attribute {name!r}')


from . import _docstrings, _guard  # noqa: E402

_guard.watch()
_docstrings.describe()
# Last of all, so that what it stands in front of is the method as people see it.
fluid.Executor.run = _C.repeatable(fluid.Executor.run, fluid.framework._schedules)
