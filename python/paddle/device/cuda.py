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


for _name in ('Stream', 'Event', 'stream_guard', 'current_stream'):
    globals()[_name] = not_here(f'device.cuda.{_name}', 'work is ordered when a program is compiled')
for _name in ('get_device_properties', 'get_device_name', 'get_device_capability'):
    globals()[_name] = not_here(f'device.cuda.{_name}', 'ask nvidia-smi')
for _name in ('max_memory_allocated', 'memory_allocated'):
    globals()[_name] = not_here(f'device.cuda.{_name}', 'CompiledProgram.memory says what a step needs')
