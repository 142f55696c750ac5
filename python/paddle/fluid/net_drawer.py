"""A program as a graph, in the language of graphviz."""
from .graphviz_text import block_lines, block_text

__all__ = ['draw_graph', 'parse_graph']


class Graph:
    """The text of a graph, which str() gives and show() writes into a file."""

    def __init__(self, text):
        self._text = text

    def __str__(self):
        return self._text

    def show(self, path):
        with open(path, 'w') as file:
            file.write(self._text)


def parse_graph(program, **kwargs):
    """The global block of one program."""
    return Graph(block_text(program.global_block(), kwargs.get('highlights', ())))


def draw_graph(startup_program, main_program, **kwargs):
    """Both programs, one below the other. filename=... also writes them into that file."""
    lines = ['digraph {', '  rankdir=TB;']
    for name, program in (('startup', startup_program), ('main', main_program)):
        lines += [f'  subgraph cluster_{name} {{', f'  label="{name}";',
                  *block_lines(program.global_block(), kwargs.get('highlights', ()), name + '_'), '  }']
    graph = Graph('\n'.join(lines + ['}']) + '\n')
    if 'filename' in kwargs:
        graph.show(kwargs['filename'])
    return graph
