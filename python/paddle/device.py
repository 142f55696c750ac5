"""Which device is used: this build has the CPU only."""
from .fluid.framework import _get_paddle_place

__all__ = ['get_device', 'set_device', 'is_compiled_with_cuda', 'is_compiled_with_xpu',
           'is_compiled_with_npu', 'is_compiled_with_rocm']


_convert_to_place = _get_paddle_place


def set_device(device):
    """Only 'cpu' can be chosen."""
    return _get_paddle_place(device)


def get_device():
    return 'cpu'


def is_compiled_with_cuda():
    return False


is_compiled_with_xpu = is_compiled_with_npu = is_compiled_with_rocm = is_compiled_with_cuda
is_compiled_with_ipu = is_compiled_with_mlu = is_compiled_with_cinn = is_compiled_with_cuda
