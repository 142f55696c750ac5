"""Programs rewritten for several machines: named here, not built yet."""
import warnings

from ..compiler import not_built

__all__ = ['DistributeTranspiler', 'memory_optimize', 'release_memory', 'HashName', 'RoundRobin',
           'DistributeTranspilerConfig']

_instead = 'train on one machine'
DistributeTranspiler = not_built('DistributeTranspiler', _instead)
DistributeTranspilerConfig = not_built('DistributeTranspilerConfig', _instead)
HashName = not_built('HashName', _instead)
RoundRobin = not_built('RoundRobin', _instead)


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=True):
    """Without effect since 1.6: memory is planned when a program is compiled."""
    warnings.warn('memory_optimize has no effect: memory is planned when a program is compiled')


def release_memory(input_program, skip_opt_set=None):
    """Without effect since 1.6: memory is planned when a program is compiled."""
    warnings.warn('release_memory has no effect: memory is planned when a program is compiled')
