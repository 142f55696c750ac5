"""Which device is used. Programs choose by their Executor's place; what is here asks what there is."""
from ..fluid import _places, core as _core

__all__ = ['get_device', 'set_device', 'is_compiled_with_cuda', 'is_compiled_with_xpu', 'is_compiled_with_npu',
           'is_compiled_with_rocm', 'is_compiled_with_custom_device', 'is_compiled_with_distribute', 'get_cudnn_version',
           'get_all_device_type', 'get_all_custom_device_type', 'get_available_device', 'get_available_custom_device',
           'synchronize']


_convert_to_place = _places._get_paddle_place


def set_device(device):
    """Where an Executor runs that is given no place: 'cpu', 'gpu' or 'gpu:NUMBER'. Returns the place."""
    place = _places._get_paddle_place(device)
    if place.is_gpu_place() and place.gpu_device_id() >= _core.get_cuda_device_count():
        raise ValueError(f'{device!r} cannot be chosen: {_core.get_cuda_device_count()} GPUs can be used here')
    _places.choose_place(place)
    return place


def get_device():
    """'cpu' or 'gpu:NUMBER': where an Executor runs that is given no place."""
    place = _places._current_expected_place()
    return f'gpu:{place.gpu_device_id()}' if place.is_gpu_place() else 'cpu'


is_compiled_with_cuda = _core.is_compiled_with_cuda
is_compiled_with_xpu = is_compiled_with_npu = is_compiled_with_rocm = is_compiled_with_ipu = _core._no
is_compiled_with_mlu = is_compiled_with_cinn = _core._no


def is_compiled_with_custom_device(device_type):
    """False for every type: devices come as libraries that are asked when a program runs there."""
    return False


def is_compiled_with_distribute():
    """True: parameter servers and ranks are part of every build."""
    return True


def get_cudnn_version():
    """None: programs do not ask for cuDNN, a GPU's library does."""
    return None


def get_all_device_type():
    """['cpu'], and 'gpu' where one can be used."""
    return ['cpu'] + ['gpu'] * bool(_core.is_compiled_with_cuda())


def get_all_custom_device_type():
    """None but those of get_all_device_type."""
    return []


def get_available_device():
    """['cpu'], and each GPU as 'gpu:NUMBER'."""
    return ['cpu'] + [f'gpu:{number}' for number in range(_core.get_cuda_device_count())]


def get_available_custom_device():
    """None but those of get_available_device."""
    return []


def synchronize(device=None):
    """Nothing is under way: Executor.run returns when its program has run."""
    if device is not None:
        _places._get_paddle_place(device)


from . import cuda  # noqa: E402
