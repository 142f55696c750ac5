"""Compiled, data-parallel programs: named here, not built yet."""

__all__ = ['CompiledProgram', 'ExecutionStrategy', 'BuildStrategy']


def not_built(name, instead):
    """A class that can be imported and named, and says what is missing when it is used."""
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f'{name} is not built yet in Trireme: {instead}')
    return type(name.rpartition('.')[2], (), {'__init__': refuse, '__doc__': f'{name}: not built yet.'})


_instead = 'run the Program itself with Executor.run'
CompiledProgram = not_built('CompiledProgram', _instead)
BuildStrategy = not_built('BuildStrategy', _instead)
ExecutionStrategy = not_built('ExecutionStrategy', _instead)
