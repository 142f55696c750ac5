"""Pruning of fluid.contrib.slim, which is not built."""
from ....compiler import not_built

__all__ = ['AutoPruneStrategy', 'PruneStrategy', 'Pruner', 'SensitivePruneStrategy', 'StructurePruner', 'UniformPruneStrategy']

_INSTEAD = 'set the parameters that are to go to zero in the scope, or build the net with fewer filters'
AutoPruneStrategy = not_built('slim.prune.AutoPruneStrategy', _INSTEAD)
PruneStrategy = not_built('slim.prune.PruneStrategy', _INSTEAD)
Pruner = not_built('slim.prune.Pruner', _INSTEAD)
SensitivePruneStrategy = not_built('slim.prune.SensitivePruneStrategy', _INSTEAD)
StructurePruner = not_built('slim.prune.StructurePruner', _INSTEAD)
UniformPruneStrategy = not_built('slim.prune.UniformPruneStrategy', _INSTEAD)
