"""The graph wrappers of fluid.contrib.slim, which are not built."""
from ...compiler import not_built

__all__ = ['GraphWrapper', 'OpWrapper', 'SlimGraphExecutor', 'VarWrapper']

_INSTEAD = 'work on the Program: its blocks hold ops and variables'
GraphWrapper = not_built('contrib.slim.graph.GraphWrapper', _INSTEAD)
OpWrapper = not_built('contrib.slim.graph.OpWrapper', _INSTEAD)
VarWrapper = not_built('contrib.slim.graph.VarWrapper', _INSTEAD)
SlimGraphExecutor = not_built('contrib.slim.graph.SlimGraphExecutor', 'run the Program with fluid.Executor')
