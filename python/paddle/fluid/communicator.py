"""Communicator: what trainers without barriers start before they train."""
import _trireme as _C

from .framework import Program
from .transpiler.distribute_transpiler import DistributedMode

__all__ = ['Communicator']


class Communicator:
    """In async and half-async mode send and recv talk to the servers themselves, and there is nothing
    to start. In geo mode it decides when what has changed is pushed: every
    kwargs['geo_need_push_nums'] steps, of kwargs['trainers'] trainers."""

    def __init__(self, program, mode, kwargs=None, envs=None):
        if not isinstance(program, Program):
            raise TypeError(f'program must be a Program, got {type(program).__name__}')
        if mode not in (DistributedMode.SYNC, DistributedMode.ASYNC, DistributedMode.HALF_ASYNC,
                        DistributedMode.GEO):
            raise ValueError(f'mode is {mode!r}: it must be one of DistributedMode')
        self._program, self._geo, self._running = program, mode == DistributedMode.GEO, False
        self._settings = dict(kwargs or {})
        missing = {'trainers', 'geo_need_push_nums'} - set(self._settings) if self._geo else ()
        if missing:
            raise ValueError(f'kwargs lacks {sorted(missing)}, which geo mode needs')

    def start(self):
        if self._geo:
            _C.start_geo(self._program, int(self._settings['trainers']),
                         int(self._settings['geo_need_push_nums']))
        self._running = True

    def stop(self):
        """In geo mode what has changed since the last push is pushed."""
        if self._geo and self._running:
            _C.stop_geo(_C.global_scope())
        self._running = False

    def is_running(self):
        return self._running
