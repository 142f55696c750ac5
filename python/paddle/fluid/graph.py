"""IrGraph: a Graph under the name that Python programs of the original use."""
from . import core


class IrGraph:
    """As much of the original's IrGraph as CompiledProgram needs. Its nodes cannot be edited: edit
    the Program, and make a Graph of it."""

    def __init__(self, graph, for_test=False):
        if not isinstance(graph, core.Graph):
            raise TypeError(f'IrGraph needs a core.Graph, got {type(graph).__name__}: '
                            'use IrGraph(core.Graph(program.desc))')
        self.graph = graph
        self._for_test = for_test

    def is_test(self):
        return self._for_test

    def clone(self):
        return IrGraph(core.Graph(self.graph._program.desc), self._for_test)

    def to_program(self):
        """A Program of its own."""
        return self.graph._program.clone()

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        raise NotImplementedError(f'IrGraph.{name} is not there: Trireme has its own passes over its '
                                  'own graph. Edit the Program instead: to_program() gives it')
