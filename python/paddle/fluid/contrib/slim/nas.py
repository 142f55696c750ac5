"""The architecture search of fluid.contrib.slim, which is not built."""
from ...compiler import not_built

__all__ = ['SearchSpace', 'ControllerServer', 'SearchAgent', 'LightNASStrategy']

_INSTEAD = 'build a Program for each candidate, and run them in turn'
SearchSpace = not_built('contrib.slim.nas.SearchSpace', _INSTEAD)
ControllerServer = not_built('contrib.slim.nas.ControllerServer', _INSTEAD)
SearchAgent = not_built('contrib.slim.nas.SearchAgent', _INSTEAD)
LightNASStrategy = not_built('contrib.slim.nas.LightNASStrategy', _INSTEAD)
