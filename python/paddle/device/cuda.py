"""paddle.device.cuda: what there is of GPUs. Queues are the engine's: programs do not order work themselves."""
from .._style import not_here
from ..fluid import core as _core
from . import synchronize

__all__ = ['device_count', 'synchronize', 'empty_cache', 'Stream', 'Event', 'stream_guard', 'current_stream',
           'get_device_properties', 'get_device_name', 'get_device_capability', 'max_memory_allocated', 'memory_allocated']


def device_count():
    """How many GPUs can be used."""
    return _core.get_cuda_device_count()


def empty_cache():
    """Nothing to give back: memory belongs to plans, and goes with their programs."""


Stream = not_here('device.cuda.Stream', 'work is ordered when a program is compiled')
Event = not_here('device.cuda.Event', 'work is ordered when a program is compiled')
stream_guard = not_here('device.cuda.stream_guard', 'work is ordered when a program is compiled')
current_stream = not_here('device.cuda.current_stream', 'work is ordered when a program is compiled')
get_device_properties = not_here('device.cuda.get_device_properties', 'ask nvidia-smi')
get_device_name = not_here('device.cuda.get_device_name', 'ask nvidia-smi')
get_device_capability = not_here('device.cuda.get_device_capability', 'ask nvidia-smi')
max_memory_allocated = not_here('device.cuda.max_memory_allocated', 'CompiledProgram.memory says what a step needs')
memory_allocated = not_here('device.cuda.memory_allocated', 'CompiledProgram.memory says what a step needs')
