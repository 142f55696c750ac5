"""Programs that train by several processes: who they are, and what they say to each other."""
from . import environment
from .collective import (all_gather, all_reduce, barrier, broadcast, init_parallel_env, ReduceOp)
from .environment import ParallelEnv

__all__ = ['get_rank', 'get_world_size', 'init_parallel_env', 'ParallelEnv', 'barrier', 'all_reduce',
           'all_gather', 'broadcast', 'ReduceOp', 'fleet']


def get_rank(group=None):
    """The number of this process among those that train together."""
    if group is not None:
        raise NotImplementedError('get_rank(group=...): there is one group, of all ranks')
    return ParallelEnv().rank


def get_world_size(group=None):
    """How many processes train together."""
    if group is not None:
        raise NotImplementedError('get_world_size(group=...): there is one group, of all ranks')
    return ParallelEnv().world_size


def is_initialized():
    from . import collective
    return collective.has_met()


def __getattr__(name):
    if name == 'fleet':
        from importlib import import_module
        return import_module('paddle.distributed.fleet')
    if name in ('spawn', 'new_group', 'scatter', 'reduce', 'send', 'recv', 'alltoall', 'split'):
        raise NotImplementedError(f'paddle.distributed.{name} is not built yet in Trireme')
    raise AttributeError(f'module paddle.distributed has no attribute {name!r}')
