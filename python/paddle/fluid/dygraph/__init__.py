"""Dynamic mode: Trireme runs static programs only."""
import contextlib

_TEXT = ('Trireme runs static programs only: there is no dynamic mode. Build a Program and run it '
         'with an Executor')


@contextlib.contextmanager
def guard(place=None):
    raise NotImplementedError(f'fluid.dygraph.guard: {_TEXT}')
    yield


def enabled():
    return False


def __getattr__(name):
    if name.startswith('__'):
        raise AttributeError(name)
    raise NotImplementedError(f'fluid.dygraph.{name}: {_TEXT}')
