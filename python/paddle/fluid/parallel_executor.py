"""ParallelExecutor: named here, not built yet."""
from .compiler import BuildStrategy, ExecutionStrategy, not_built

__all__ = ['ParallelExecutor', 'ExecutionStrategy', 'BuildStrategy']

ParallelExecutor = not_built('ParallelExecutor', 'run the Program itself with Executor.run')
