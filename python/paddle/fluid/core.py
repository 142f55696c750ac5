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


# As tests of others fill tensors: a shape first, then memory for it.

LoDTensor._get_dims = LoDTensor.shape
LoDTensor._alloc_float = lambda self, place: self._mutable_data(place, VarType.FP32) and None
LoDTensor._alloc_double = lambda self, place: self._mutable_data(place, VarType.FP64) and None
LoDTensor._alloc_int = lambda self, place: self._mutable_data(place, VarType.INT32) and None
LoDTensor._get_double_element = LoDTensor._get_float_element
LoDTensor._set_double_element = LoDTensor._set_float_element
_Scope = Scope


class Graph:
    """A program as it was when the graph was made: later edits of the program are not in it."""

    def __init__(self, program_desc):
        if not isinstance(program_desc, ProgramDesc):
            raise TypeError(f'Graph needs program.desc, got {type(program_desc).__name__}')
        self._program = program_desc._thing.clone()


def is_compiled_with_cuda():
    """Whether a GPU can be used: its library and its driver are installed, and a card is visible."""
    return _C.gpu_count() > 0


def _no(*_):
    return False


is_compiled_with_xpu = is_compiled_with_npu = is_compiled_with_mlu = is_compiled_with_rocm = _no
is_compiled_with_ipu = is_compiled_with_cinn = is_compiled_with_dist = is_compiled_with_brpc = _no
is_compiled_with_mkldnn = _no


def is_float16_supported(place):
    """Whether ops compute in float16 there; mixed precision around float32 parameters needs no such place."""
    return place.is_gpu_place() and is_compiled_with_cuda()


def op_support_gpu(op_type):
    """Whether programs on a CUDAPlace may hold the op."""
    return is_compiled_with_cuda() and _C.has_op(op_type)


def grad_var_suffix():
    return '@GRAD'


def empty_var_name():
    return '@EMPTY@'


kEmptyVarName, kTempVarName = empty_var_name, lambda: '@TEMP@'


def size_of_dtype(dtype):
    """Bytes of one element."""
    import numpy
    name = _C.dtype_name(dtype)
    return 2 if name == 'bfloat16' else numpy.dtype(name).itemsize


def get_grad_op_desc(op_desc, no_grad_set, grad_sub_block):
    """(the gradient ops of one op, as its row makes them; gradient -> the variable it is of)"""
    if grad_sub_block:
        raise NotImplementedError('get_grad_op_desc of an op with a sub-block: use append_backward, which '
                                  'makes the block of gradients as well')
    scratch = ProgramDesc()
    made = _C.make_grad_ops(op_desc._thing, set(no_grad_set), scratch._thing.global_block())
    descs = [OpDesc(op) for op in made]
    used = {name for desc in descs for name in desc.input_arg_names() + desc.output_arg_names()}
    forward = op_desc.input_arg_names() + op_desc.output_arg_names()
    return descs, {name + '@GRAD': name for name in forward if name + '@GRAD' in used}


get_cuda_device_count = _C.gpu_count


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


class Executor:
    """The original's engine class: runs the descriptor of a program."""

    def __init__(self, place):
        self._engine = _C.Executor(place)

    def run(self, program_desc, scope, block_id=0, create_local_scope=True, create_vars=True, fetch_list=()):
        """Runs the whole program; what is fetched comes back, as nothing stands in a fetch holder."""
        if block_id != 0:
            raise NotImplementedError(f'core.Executor.run of block {block_id}: only whole programs run, block 0')
        return self._engine.run(program_desc._thing, {}, list(fetch_list), scope, False, False, False)

    def close(self):
        self._engine.close()


def _set_eager_deletion_mode(threshold, fraction, fast):
    _C.set_flag('eager_delete_tensor_gb', float(threshold))
    _C.set_flag('memory_fraction_of_eager_deletion', float(fraction))
    _C.set_flag('fast_eager_deletion_mode', bool(fast))


def _set_fuse_parameter_group_size(size):
    _C.set_flag('fuse_parameter_groups_size', int(size))


def _set_fuse_parameter_memory_size(size):
    _C.set_flag('fuse_parameter_memory_size', float(size))


def set_num_threads(count):
    """How many threads run kernels: FLAGS_paddle_num_threads."""
    _C.set_flag('paddle_num_threads', int(count))


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    from . import inference
    if name in inference.__all__:
        return getattr(inference, name)
    raise AttributeError(
        f'paddle.fluid.core has no {name}: Trireme is another engine than the original\'s core, and '
        'offers those of its names that programs use')
