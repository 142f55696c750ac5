"""Which parameter server keeps which block."""
import _trireme as _C

__all__ = ['PSDispatcher', 'RoundRobin', 'HashName']


class PSDispatcher:
    """Derive from it and give dispatch() for a rule of your own."""

    def __init__(self, pserver_endpoints):
        if not isinstance(pserver_endpoints, list) or not pserver_endpoints:
            raise TypeError('pserver_endpoints is a list with at least one "ip:port", got '
                            f'{pserver_endpoints!r}')
        self._eps = pserver_endpoints
        self.reset()

    eps = property(lambda self: self._eps, doc='The endpoints, in the order they were given.')

    def reset(self):
        """The next variable goes to the first endpoint again."""
        self._step = 0

    def dispatch(self, varlist):
        """One endpoint for every variable."""
        raise NotImplementedError('dispatch(varlist) is what a dispatcher must give')


class RoundRobin(PSDispatcher):
    """One after another; goes on where the last call stopped, until reset()."""

    def dispatch(self, varlist):
        chosen = []
        for _ in varlist:
            chosen.append(self._eps[self._step])
            self._step = (self._step + 1) % len(self._eps)
        return chosen


class HashName(PSDispatcher):
    """By a hash of the name that is the same in every process."""

    def dispatch(self, varlist):
        return [self._eps[_C.name_hash(var.name) % len(self._eps)] for var in varlist]
