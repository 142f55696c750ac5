"""Watches what Executors of this process run: which programs, on what, and how long the last steps took.

A script is run as its user runs it; Executor.run is the one way into the engine, and while a Watch is
on, it remembers each call. Without one nothing is remembered and no call is longer.
"""
import collections
import contextlib
import inspect

import numpy

import _trireme as _C

from ..fluid import executor as _executors
from ..fluid.compiler import CompiledProgram
from ..fluid.framework import default_main_program

STEPS = 10  # of each program, the last ones, are timed
MOST_EVENTS = 200000


class StopScript(BaseException):
    """Ends a script that has run enough."""


class Call:
    """One program as it was run, with what it was run on last."""

    def __init__(self, executor, program, names):
        self.executor, self.program, self.names = executor, program, names
        self.source = program._program if isinstance(program, CompiledProgram) else program
        self.runs, self.feed, self.scope = 0, {}, None
        self.steps = collections.deque(maxlen=STEPS)  # events of each
        self.curves = {}  # scalars that were fetched, by name
        self.report = None  # taken when the executor was closed: nothing of it is left afterwards

    @property
    def trains(self):
        return any(op._is_backward_op() or op._is_optimize_op() for op in self.source.global_block().ops)

    def events(self):
        joined = _C.ProfileEvents()
        for events in self.steps:
            joined.extend(events)
        return joined

    def take(self, names, results):
        for name, value in zip(names, results or []):
            if isinstance(value, numpy.ndarray) and value.size == 1 and value.dtype.kind == 'f':
                self.curves.setdefault(name, []).append(float(value.reshape(-1)[0]))


class Watch:
    """with Watch() as watch: ... Then watch.chosen() is the last program that was trained."""

    def __init__(self, times=True, stop_after=None, name=''):
        self.calls = collections.OrderedDict()
        self._times, self._stop_after, self._name = times, stop_after, name
        self._read = None

    def __enter__(self):
        self._full, self._readers, self._close = (_executors.Executor.run, _executors._with_readers,
                                                  _executors.Executor.close)
        full, signature = self._full, inspect.signature(self._full.__wrapped__)

        def run(executor, *args, **kwargs):
            try:
                given = signature.bind(executor, *args, **kwargs).arguments
            except TypeError:
                return full(executor, *args, **kwargs)  # which says what is wrong
            return self._run(executor, given, lambda: full(executor, *args, **kwargs))

        def with_readers(*args, **kwargs):
            self._read = self._readers(*args, **kwargs)
            return self._read

        def close(executor):
            if self._times:
                self._keep_reports(executor)
            self._close(executor)

        _executors.Executor.run, _executors._with_readers, _executors.Executor.close = run, with_readers, close
        return self

    def __exit__(self, *_):
        _executors.Executor.run, _executors._with_readers, _executors.Executor.close = self._full, self._readers, self._close

    def _keep_reports(self, executor):
        from .reports import report_of_call
        for call in list(self.calls.values()):
            if call.executor is executor and not executor._closed and call is self.chosen():
                call.report = report_of_call(call, self._name)

    def _run(self, executor, given, go):
        program = given.get('program') or default_main_program()
        self._read = None
        own = self._times and not _C.profiling_on()
        if own:
            _C.start_profiling()
        try:
            results = go()
        finally:
            events = _C.stop_profiling() if own else None
        fetches = given.get('fetch_list') or []
        try:
            names, _ = _executors._fetch_items(fetches if isinstance(fetches, (list, tuple)) else [fetches])
        except TypeError:
            names = []
        key = (id(program), tuple(names))
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = Call(executor, program, names)
        self.calls.move_to_end(key)
        call.executor, call.scope = executor, given.get('scope') or _C.global_scope()
        call.feed = self._read if self._read is not None else given.get('feed') or {}
        call.runs += 1
        if events is not None and len(events) <= MOST_EVENTS:
            call.steps.append(events)
        call.take(names, results)
        if self._stop_after and call.runs >= self._stop_after and call.trains:
            raise StopScript
        return results

    def chosen(self):
        """The last program that trains, else the last that took feeds or gave results, else the last."""
        calls = [call for call in reversed(self.calls.values())]
        if not calls:
            raise RuntimeError('no program was run: there is nothing to show')
        for wanted in (lambda call: call.trains, lambda call: call.names or call.feed, lambda call: True):
            for call in calls:
                if wanted(call):
                    return call


@contextlib.contextmanager
def script_arguments(path, arguments):
    """sys.argv and sys.path as the script at `path` finds them when it is run by itself."""
    import os
    import sys
    before = sys.argv, list(sys.path)
    sys.argv = [path] + list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


def run_script(path, arguments=(), times=True, stop_after=None, name=''):
    """Runs a script as `python path` does, and gives (its Watch, the status it ended with)."""
    import runpy
    status = 0
    with script_arguments(path, arguments), Watch(times, stop_after, name) as watch:
        try:
            runpy.run_path(path, run_name='__main__')
        except StopScript:
            pass
        except SystemExit as end:
            status = 0 if end.code is None else end.code if isinstance(end.code, int) else 1
    return watch, status
