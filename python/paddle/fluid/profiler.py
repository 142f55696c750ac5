"""Profiler: not built yet; the names say so when they are used."""
import contextlib

__all__ = ['cuda_profiler', 'reset_profiler', 'profiler', 'start_profiler', 'stop_profiler']


def _refuse(name):
    raise NotImplementedError(f'profiler.{name} is not built yet in Trireme: time runs from outside')


def start_profiler(state, tracer_option='Default'):
    if state not in ('CPU', 'GPU', 'All'):
        raise ValueError("The state must be 'CPU' or 'GPU' or 'All'.")
    if tracer_option not in ('Default', 'OpDetail', 'AllOpDetail'):
        raise ValueError("tracer_option must be 'Default', 'OpDetail' or 'AllOpDetail'")
    _refuse('start_profiler')


def stop_profiler(sorted_key=None, profile_path='/tmp/profile'):
    if sorted_key not in (None, 'default', 'calls', 'total', 'max', 'min', 'ave'):
        raise ValueError("sorted_key must be None, 'calls', 'total', 'max', 'min' or 'ave'")


def reset_profiler():
    """Nothing is recorded, so nothing is left."""


@contextlib.contextmanager
def profiler(state, sorted_key=None, profile_path='/tmp/profile', tracer_option='Default'):
    start_profiler(state, tracer_option)
    try:
        yield
    finally:
        stop_profiler(sorted_key, profile_path)


@contextlib.contextmanager
def cuda_profiler(output_file, output_mode=None, config=None):
    if output_mode not in (None, 'kvp', 'csv'):
        raise ValueError("output_mode must be 'kvp' or 'csv'")
    _refuse('cuda_profiler')
    yield
