"""Programs rewritten: for parameter servers and ranks, or to name fewer variables."""
from . import collective, details, distribute_transpiler, geo_sgd_transpiler, ps_dispatcher
from .distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from .inference_transpiler import InferenceTranspiler
from .memory_optimization_transpiler import memory_optimize, release_memory
from .ps_dispatcher import HashName, RoundRobin

__all__ = ['DistributeTranspiler', 'memory_optimize', 'release_memory', 'HashName', 'RoundRobin',
           'DistributeTranspilerConfig', 'InferenceTranspiler']
