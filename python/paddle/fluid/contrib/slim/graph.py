"""The graph wrapper of fluid.contrib.slim, which is not built."""
from ...compiler import not_built

__all__ = ['GraphWrapper']

GraphWrapper = not_built('contrib.slim.graph.GraphWrapper', 'work on the Program: its blocks hold ops and variables')
