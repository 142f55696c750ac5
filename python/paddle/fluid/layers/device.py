"""get_places, as programs of the first releases ask for devices."""
from ..framework import cpu_places, cuda_places, is_compiled_with_cuda

__all__ = ['get_places']


def get_places(device_count=None, device_type=None):
    """A list of places, for ParallelExecutor and CompiledProgram.with_data_parallel."""
    if device_type not in (None, 'AUTO', 'CPU', 'CUDA'):
        raise ValueError(f"device_type is 'CPU', 'CUDA' or 'AUTO', got {device_type!r}")
    if device_type == 'CUDA' or (device_type == 'AUTO' and is_compiled_with_cuda()):
        return cuda_places(None if device_count is None else range(device_count))
    return cpu_places(device_count or None)
