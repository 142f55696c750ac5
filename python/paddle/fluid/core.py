"""The names of the original's C++ core that programs use."""
import os as _os

import _trireme as _C

_C.set_package_folder(_os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))) + _os.sep)
_C.read_flags_from_environment()

from _trireme import (  # noqa: E402
    AlreadyExistsError, AssertionFailedError, CPUPlace, CUDAPinnedPlace, CUDAPlace, DeviceType,
    EnforceNotMet,
    EOFException, ExecutionTimeoutError, ExternalError, FatalError, InvalidArgumentError, LoDTensor,
    LoDTensorArray, NotFoundError, OutOfRangeError, PermissionDeniedError, Place,
    PreconditionNotMetError, ResourceExhaustedError, Scope, SelectedRows, TypeMismatchError,
    UnavailableError, UnimplementedError, VarType)
from .desc import BlockDesc, OpDesc, ProgramDesc, VarDesc  # noqa: E402

__all__ = ['AlreadyExistsError', 'AssertionFailedError', 'BlockDesc', 'CPUPlace', 'CUDAPinnedPlace',
           'CUDAPlace', 'DeviceType', 'EnforceNotMet', 'EOFException', 'ExecutionTimeoutError', 'ExternalError',
           'FatalError', 'Graph', 'InvalidArgumentError', 'LoDTensor', 'LoDTensorArray', 'NotFoundError',
           'OpDesc', 'OutOfRangeError', 'PermissionDeniedError', 'Place', 'PreconditionNotMetError',
           'ProgramDesc', 'ResourceExhaustedError', 'Scope', 'SelectedRows', 'Tensor',
           'TypeMismatchError', 'UnavailableError', 'UnimplementedError', 'VarDesc', 'VarType']

Tensor = LoDTensor


class Graph:
    """A program as it was when the graph was made: later edits of the program are not in it."""

    def __init__(self, program_desc):
        if not isinstance(program_desc, ProgramDesc):
            raise TypeError(f'Graph needs program.desc, got {type(program_desc).__name__}')
        self._program = program_desc._thing.clone()


def is_compiled_with_cuda():
    return False


def _no(*_):
    return False


is_compiled_with_xpu = is_compiled_with_npu = is_compiled_with_mlu = is_compiled_with_rocm = _no
is_compiled_with_ipu = is_compiled_with_cinn = is_compiled_with_dist = is_compiled_with_brpc = _no
is_compiled_with_mkldnn = _no


def get_cuda_device_count():
    return 0


def get_xpu_device_count():
    return 0


def get_num_devices():
    return 1


class op_proto_and_checker_maker:
    """Names of the attributes that every op carries, and the bits of op_role."""

    class OpRole:
        Forward = 0
        Backward = 1
        Optimize = 2
        RPC = 4
        Dist = 8
        LRSched = 16
        Loss = 256
        NotSpecified = 4096

    @staticmethod
    def kOpRoleAttrName():
        return 'op_role'

    @staticmethod
    def kOpRoleVarAttrName():
        return 'op_role_var'

    @staticmethod
    def kOpNameScopeAttrName():
        return 'op_namescope'

    @staticmethod
    def kOpDeviceAttrName():
        return 'op_device'

    @staticmethod
    def kOpCreationCallstackAttrName():
        return 'op_callstack'


class _Globals:
    """Flags as a mapping: core.globals()['FLAGS_check_nan_inf'] = True."""

    def __getitem__(self, name):
        return _C.get_flag(name)

    def __setitem__(self, name, value):
        _C.set_flag(name, value)

    def __contains__(self, name):
        return _C.is_flag(name)

    def keys(self):
        return [flag['name'] for flag in _C.list_flags()]

    def is_public(self, name):
        return _C.is_flag(name)


def globals():
    return _Globals()


def _set_eager_deletion_mode(threshold, fraction, fast):
    _C.set_flag('eager_delete_tensor_gb', float(threshold))
    _C.set_flag('memory_fraction_of_eager_deletion', float(fraction))
    _C.set_flag('fast_eager_deletion_mode', bool(fast))


def _set_fuse_parameter_group_size(size):
    _C.set_flag('fuse_parameter_groups_size', int(size))


def _set_fuse_parameter_memory_size(size):
    _C.set_flag('fuse_parameter_memory_size', float(size))


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    from . import inference
    if name in inference.__all__:
        return getattr(inference, name)
    raise AttributeError(
        f'paddle.fluid.core has no {name}: Trireme is another engine than the original\'s core, and '
        'offers those of its names that programs use')
