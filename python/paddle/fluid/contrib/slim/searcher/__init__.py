"""Search controllers of fluid.contrib.slim, which are not built."""
from ....compiler import not_built

__all__ = ['EvolutionaryController', 'SAController']

_INSTEAD = 'build a Program for each candidate, and run them in turn'
EvolutionaryController = not_built('slim.searcher.EvolutionaryController', _INSTEAD)
SAController = not_built('slim.searcher.SAController', _INSTEAD)
