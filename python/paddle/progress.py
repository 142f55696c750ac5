"""Where long work stands: one line on a terminal, and a callback for those who draw their own.

    paddle.progress.listen(lambda state: ...)    # called now and then with a dict; None: no more

Work is training over a dataset, a job of several processes, compiling, saving and loading. The line stands on
stderr while that is a terminal; where it is none and nobody listens, nothing is measured and nothing said.
"""
import json
import os
import sys
import time

import numpy

import _trireme as _C

__all__ = ['listen', 'Progress']

EVERY = 0.2  # seconds between two lines
PATIENCE = 0.5  # seconds that work takes before it is worth a line
SAMPLED = 16  # of so many steps one is taken apart into shares

FILE = 'TRIREME_PROGRESS_FILE'  # where a launcher looks for what its processes say

_listener = None


def _is_terminal():
    return sys.stderr is not None and sys.stderr.isatty()


def listen(callback):
    """From now on callback(state) is told of long work; state says what: work, step, total, loss,
    samples_per_second, shares, seconds, seconds_left, at. None ends it."""
    global _listener
    if callback is not None and not callable(callback):
        raise TypeError(f'callback must be a function of one dict, got {type(callback).__name__}')
    _listener = callback
    _watch_engine()


def wanted():
    return _listener is not None or FILE in os.environ or _is_terminal()


def duration(seconds):
    seconds = int(seconds + 0.5)
    return f'{seconds} s' if seconds < 100 else f'{seconds // 60} min' if seconds < 6000 else f'{seconds / 3600:.1f} h'


def line_of(state):
    """The line of a state, for a terminal."""
    parts = [state['work']]
    if state.get('step') is not None:
        parts.append(f'step {state["step"]}' + (f' of {state["total"]}' if state.get('total') else ''))
    if state.get('at'):
        parts.append(state['at'])
    if state.get('loss') is not None:
        parts.append(f'loss {state["loss"]:.4g}')
    if state.get('samples_per_second'):
        parts.append(f'{state["samples_per_second"]:.4g} samples/s')
    if state.get('shares'):
        parts.append(' '.join(f'{name} {100 * share:.0f}%' for name, share in state['shares'].items() if share >= 0.005))
    if state.get('seconds_left') is not None:
        parts.append(f'{duration(state["seconds_left"])} left')
    return '   '.join(parts)


class _Line:
    """What stands in the terminal's last line."""

    def __init__(self):
        self._shown = False

    def show(self, text):
        if _is_terminal():
            import shutil
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write('\r\x1b[K' + text[:width])
            sys.stderr.flush()
            self._shown = True

    def clear(self):
        if self._shown and _is_terminal():
            sys.stderr.write('\r\x1b[K')
            sys.stderr.flush()
        self._shown = False


_line = _Line()


def tell(state):
    if _listener is not None:
        _listener(state)
    if FILE in os.environ:
        _write(os.environ[FILE], state)
    _line.show(line_of(state))


def _write(path, state):
    """Whole or not at all: the launcher reads it at any time."""
    with open(path + '.part', 'w') as file:
        json.dump(state, file)
    os.replace(path + '.part', path)


def read(path):
    """The last state in a file; None where there is none yet."""
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def clear():
    _line.clear()


class Progress:
    """Of a loop over steps: with Progress(total) as progress: ... with progress.reading(): ...,
    with progress.running(): ..., progress.step(loss, samples). Nothing is measured where nobody looks."""

    def __init__(self, total=None, work='training'):
        self.total, self.work, self.active = total, work, wanted()
        self.steps, self.samples, self.loss = 0, 0, None
        self._reader, self._run, self._inside, self._taken = 0.0, 0.0, {'compute': 0.0, 'communication': 0.0, 'wait': 0.0}, 0
        self._began = self._told = self._since = time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.active:
            clear()

    def read(self, batches):
        """The same batches, with the time that they take."""
        if not self.active:
            yield from batches
            return
        source = iter(batches)
        while True:
            start = time.monotonic()
            try:
                batch = next(source)
            except StopIteration:
                return
            self._reader += time.monotonic() - start
            yield batch

    def run(self, go):
        """go(), timed; now and then it is taken apart into computing, talking to others and waiting."""
        if not self.active:
            return go()
        sampled = self.steps % SAMPLED == 1 and not _C.profiling_on()
        if sampled:
            _C.start_profiling()
        start = time.monotonic()
        try:
            return go()
        finally:
            self._run += time.monotonic() - start
            if sampled:
                for name, share in _C.stop_profiling().shares().items():
                    self._inside[name] += share
                self._taken += 1

    def step(self, loss=None, samples=0):
        self.steps += 1
        if not self.active:
            return
        self.samples += samples
        self.loss = loss if loss is not None else self.loss
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            tell(self.state(now))

    def state(self, now=None):
        elapsed = max((now or time.monotonic()) - self._began, 1e-9)
        known = self._reader + self._run
        shares = {}
        if known > 0:
            shares['reader'] = self._reader / known
            inside = self._inside if self._taken else {'compute': 1.0}
            for name, share in inside.items():
                shares[name] = self._run / known * share / max(1, self._taken)
        left = elapsed / self.steps * (self.total - self.steps) if self.total and self.steps else None
        return {'work': self.work, 'step': self.steps, 'total': self.total, 'loss': self.loss, 'shares': shares,
                'samples_per_second': self.samples / elapsed if self.samples else None, 'seconds': elapsed,
                'seconds_left': left, 'at': ''}


def scalar(value):
    """A loss out of what was fetched; None where it is no single number."""
    array = numpy.asarray(value)
    return float(array.reshape(-1)[0]) if array.size == 1 and array.dtype.kind in 'fiu' else None


def rows(feed):
    """Samples of a batch: sequences, or rows, of the first thing that is fed."""
    for value in feed.values():
        if callable(getattr(value, 'lod', None)) and value.lod():
            return len(value.lod()[0]) - 1
        shape = value.shape() if callable(getattr(value, 'shape', None)) else getattr(value, 'shape', ())
        if len(shape):
            return int(shape[0])
    return 0


class _EngineWork:
    """Hears of compiling, saving and loading, and tells of what takes long."""

    def __init__(self):
        self._work, self._began, self._told = None, 0.0, 0.0

    def __call__(self, work, at, done, total):
        now = time.monotonic()
        if work != self._work:
            self._work, self._began = work, now
        if not at:
            self._work = None
            return clear()
        if now - self._began < PATIENCE or now - self._told < EVERY:
            return None
        self._told = now
        left = (now - self._began) / done * (total - done) if done and work != 'compiling' else None
        return tell({'work': work, 'step': None, 'total': total, 'at': f'{done} of {total}: {at}', 'loss': None,
                     'shares': {}, 'samples_per_second': None, 'seconds': now - self._began, 'seconds_left': left})


def _watch_engine():
    _C.set_progress_listener(_EngineWork() if wanted() else None)


_watch_engine()
