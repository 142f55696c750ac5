"""Profiler: how long each op took, as a table on stop and as a timeline in profile_path.

The timeline is in the Trace Event Format: chrome://tracing and Perfetto open it. A profile_path that ends
with .html gets the page of paddle.view instead.
"""
import contextlib
import os

import _trireme as _C

__all__ = ['cuda_profiler', 'reset_profiler', 'profiler', 'start_profiler', 'stop_profiler']

_ORDERS = {None: 'first_end', 'default': 'first_end', 'calls': 'calls', 'total': 'total',
           'max': 'max', 'min': 'min', 'ave': 'average'}


def _check_order(sorted_key):
    if sorted_key not in _ORDERS:
        raise ValueError(f'the table has no column {sorted_key!r} to sort by; sorted_key is one of '
                         f'{list(_ORDERS)}')


def start_profiler(state, tracer_option='Default'):
    """Records from now on. Ops run on the CPU here, so every state records the same; nothing
    happens when it records already."""
    if state not in ('CPU', 'GPU', 'All'):
        raise ValueError(f"the profiler knows the states 'CPU', 'GPU' and 'All', got {state!r}")
    if tracer_option not in ('Default', 'OpDetail', 'AllOpDetail'):
        raise ValueError("tracer_option is 'Default', 'OpDetail' or 'AllOpDetail', got "
                         f'{tracer_option!r}')
    if not _C.profiling_on():
        _start_watch()
    _C.start_profiling()


# What runs while the profiler is on: a page shows the last program of it that trains.
_watch = []


def _start_watch():
    from ..viewer import Watch
    _watch[:] = [Watch(times=False).__enter__()]


def _stop_watch():
    if not _watch:
        return None
    watch = _watch.pop()
    watch.__exit__(None, None, None)
    return watch


def _write_page(path, events, watch):
    from ..viewer import reports, write_page
    call = watch.chosen()
    write_page(path, [reports.report(call.program, call.executor, events, curves=call.curves)], title=os.path.basename(path))


def stop_profiler(sorted_key=None, profile_path='/tmp/profile'):
    """Prints the table, largest sorted_key first, and writes the timeline; nothing happens when
    nothing is being recorded."""
    _check_order(sorted_key)
    if not _C.profiling_on():
        return
    events, watch = _C.stop_profiling(), _stop_watch()
    print(events.table(getattr(_C.ProfileOrder, _ORDERS[sorted_key])))
    if profile_path.endswith('.html'):
        return _write_page(profile_path, events, watch)
    with open(profile_path, 'w') as file:
        file.write(events.timeline())


def reset_profiler():
    """Forgets what was recorded so far."""
    _C.reset_profiling()


@contextlib.contextmanager
def profiler(state, sorted_key=None, profile_path='/tmp/profile', tracer_option='Default'):
    """Records inside, and reports at the end."""
    _check_order(sorted_key)
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


def cuda_profiler(output_file, output_mode=None, config=None):
    """Not built: it drives nvprof, of which newer GPUs know nothing."""
    if output_mode not in (None, 'kvp', 'csv'):
        raise ValueError(f"output_mode is 'kvp' or 'csv', got {output_mode!r}")
    raise NotImplementedError("cuda_profiler is not built in Trireme: it drives nvprof. Use profiler('All', profile_path=...), "
                              'or start the script under nsys profile')
