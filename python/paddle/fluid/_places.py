"""Places by number and by name, and where programs run that name none."""
import _trireme as _C

from . import core
from .core import CPUPlace

_chosen_place = None  # by choose_place


def choose_place(place):
    """From now on Executors that are given no place run there."""
    global _chosen_place
    _chosen_place = place


def _current_expected_place():
    """Where an Executor runs that is given no place: what set_device chose, else the first GPU, else the CPU."""
    if _chosen_place is not None:
        return _chosen_place
    return core.CUDAPlace(0) if core.is_compiled_with_cuda() else CPUPlace()


def cpu_places(device_count=None):
    return [CPUPlace()] * (_C.cpu_num() if device_count is None else device_count)


def cuda_places(device_ids=None):
    """The GPUs of these numbers; without numbers those of FLAGS_selected_gpus, or all that are visible."""
    assert core.is_compiled_with_cuda(), 'no GPU can be used here: use cpu_places()'
    if device_ids is None:
        return [core.CUDAPlace(place.gpu_device_id()) for place in _C.default_places(core.CUDAPlace(0))]
    return [core.CUDAPlace(number) for number in device_ids]


def cuda_pinned_places(device_count=None):
    """As many as CPU_NUM says, or as are asked for."""
    assert core.is_compiled_with_cuda(), 'no GPU can be used here: use cpu_places()'
    return [core.CUDAPinnedPlace()] * (_C.cpu_num() if device_count is None else device_count)


def _get_paddle_place(place):
    """A Place, or what names one: 'cpu', 'gpu', 'gpu:1'."""
    if place is None or isinstance(place, core.Place):
        return place
    if not isinstance(place, str):
        raise ValueError(f'a place is a Place or a str, got {type(place).__name__}')
    kind, _, number = place.lower().partition(':')
    if kind in ('cpu', 'device') and not number:
        return CPUPlace()
    if kind == 'gpu' and (number or '0').isdigit():
        return core.CUDAPlace(int(number or 0))
    if kind == 'gpu_pinned' and not number:
        return core.CUDAPinnedPlace()
    if kind in ('xpu', 'npu', 'ipu', 'mlu'):
        raise ValueError(f'{place!r} cannot be used: Trireme runs on CPUs and NVIDIA GPUs')
    raise ValueError(f'there is no place {place!r}: use \'cpu\', \'gpu\' or \'gpu:N\'')
