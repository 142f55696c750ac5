"""Executor: runs programs. Checks its arguments, then makes one call into the engine."""
import atexit
import contextlib
import sys
import time
import warnings

import numpy

import _trireme as _C
from _trireme import global_scope

from ..progress import Progress, clear, rows, scalar
from . import core
from ._places import _current_expected_place, _get_paddle_place
from .compiler import CompiledProgram
from .framework import Operator, Program, Variable, _schedules, default_main_program

__all__ = ['Executor', 'global_scope', 'scope_guard']


@contextlib.contextmanager
def scope_guard(scope):
    """Inside, this scope is the global one."""
    if not isinstance(scope, core.Scope):
        raise TypeError(f'scope_guard needs a Scope, got {type(scope).__name__}')
    before = _C.switch_scope(scope)
    try:
        yield
    finally:
        _C.switch_scope(before)


def as_numpy(tensor, copy=False):
    """A numpy array of a LoDTensor without LoD; lists become lists."""
    if isinstance(tensor, (core.LoDTensorArray, list)):
        return [as_numpy(item, copy) for item in tensor]
    if isinstance(tensor, core.LoDTensor):
        if tensor.lod():
            raise RuntimeError(f'the tensor has LoD {tensor.lod()}, which a numpy array cannot hold: '
                               'use numpy.array(tensor) for the values alone')
        if not tensor._is_initialized():
            return None
    return numpy.array(tensor) if copy else numpy.asarray(tensor)


def _fetch_var(name, scope=None, return_numpy=True):
    """The value a variable has in a scope."""
    assert isinstance(name, str), 'the name of the variable must be a str'
    found = (scope or global_scope()).find_var(name)
    assert found is not None, (f'{name} is not in the scope; only persistable variables stay there '
                               'after a run: set its persistable to True')
    tensor = found.get_tensor()
    return as_numpy(tensor, copy=True) if return_numpy else tensor


class FetchHandler:
    """Looks at variables every period_secs while a dataset is consumed."""

    def __init__(self, var_dict=None, period_secs=60):
        assert var_dict is not None, 'var_dict must name the variables to look at'
        self.var_dict = var_dict
        self.period_secs = period_secs

    def handler(self, res_dict):
        for name, value in res_dict.items():
            print(f'{name}: {numpy.asarray(value)}')


def _as_lodtensor(data, place, dtype=None):
    """A LoDTensor without LoD of a number, a list or an array."""
    array = data if isinstance(data, numpy.ndarray) else numpy.array(
        data, None if dtype is None else _C.dtype_name(dtype))
    if array.dtype == object:
        raise TypeError('the rows of data have different lengths: make a LoDTensor with fluid.create_lod_tensor')
    tensor = core.LoDTensor()
    tensor.set(array, place)
    return tensor


def _to_name_str(var):
    if isinstance(var, Operator):
        return str(id(var))
    return var.name if isinstance(var, Variable) else str(var)


def _switch_scope(scope):
    """Makes this the global scope and returns the one before."""
    return _C.switch_scope(scope)


def _has_io_ops(kind, holder_slot, block, holder_name):
    """Whether a block has feed or fetch ops; those that use another holder are an error."""
    ops = [op for op in block.ops if op.type == kind]
    for op in ops:
        holder = (op.input if kind == 'feed' else op.output)(holder_slot)[0]
        if holder != holder_name:
            raise ValueError(f'a {kind} op uses {holder}, not {holder_name}')
    return bool(ops)


def has_feed_operators(block, feed_targets, feed_holder_name):
    return _has_io_ops('feed', 'X', block, feed_holder_name)


def has_fetch_operators(block, fetch_targets, fetch_holder_name):
    return _has_io_ops('fetch', 'Out', block, fetch_holder_name)


def _fetch_items(fetch_list):
    """Names to fetch, and whether optimizer ops are among the items."""
    names, has_optimizers = [], False
    for item in fetch_list:
        if type(item) is Variable:
            names.append(item.name)
        elif isinstance(item, str):
            names.append(item)
        elif isinstance(item, Variable):
            names.append(item.name)
        elif isinstance(item, Operator):
            if not item._is_optimize_op():
                raise TypeError(f'fetch_list holds the operator {item.type}; only operators that '
                                'minimize() returned can be there')
            has_optimizers = True
        elif isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], list):
            # What minimize() returned: its ops are run, its gradients are not fetched.
            more, _ = _fetch_items(item[0])
            names += more
            has_optimizers = True
        elif isinstance(item, (list, tuple)):
            more, found = _fetch_items(item)
            names += more
            has_optimizers = has_optimizers or found
        else:
            raise TypeError(f'fetch_list holds a {type(item).__name__}; its items are Variables, '
                            'names, or what minimize() returned')
    return names, has_optimizers


def _feed_dict(feed):
    if feed is None:
        return {}
    if isinstance(feed, (list, tuple)):
        assert len(feed) == 1, f'a Program takes one feed dict, got {len(feed)} in a list'
        feed, = feed
    if not isinstance(feed, dict):
        raise TypeError(f'feed must be a dict, got {type(feed).__name__}')
    return feed


def _check_feed_ops(program, feed, feed_var_name):
    """A program with feed ops (a loaded inference model) takes exactly what those name."""
    targets = [op.output('Out')[0] for op in program.global_block().ops if op.type == 'feed']
    if not targets:
        return
    holders = {op.input('X')[0] for op in program.global_block().ops if op.type == 'feed'}
    assert holders == {feed_var_name}, f'the program feeds from {sorted(holders)}'
    missing, extra = set(targets) - set(feed), set(feed) - set(targets)
    if missing or extra:
        raise Exception(f'the program is fed through {targets}; feed lacks {sorted(missing)} and '
                        f'has {sorted(extra)} besides')


def _check_fetch_ops(program, names):
    targets = program.desc.get_fetch_target_names()
    if targets and names and names != targets:
        raise Exception(f'the program fetches {targets}; fetch_list asks for {names}')


def _with_readers(program, reads, feed, devices, trains):
    """feed, with a batch out of every reader; for several devices a list of as many dicts.

    At the end there may be fewer batches than devices: a test leaves devices idle then, training
    ends.
    """
    from .reader import _find_reader
    feed = feed or {}
    if not isinstance(feed, dict):
        raise TypeError('feed must be a dict when the program reads from a reader')
    batches = [dict(feed) for _ in range(devices)]
    for name, targets in reads:
        if all(target in feed for target in targets):
            continue  # fed by hand
        loader = _find_reader(program, name)
        if loader is None:
            raise RuntimeError(f'the program reads from {name}, and no DataLoader or py_reader of '
                               f'this process fills it: make one, or feed {targets}')
        taken = loader._take(devices)
        if trains and len(taken) < devices:
            warnings.warn(f'the last {len(taken)} batches of {name} are dropped: training on {devices} '
                          'devices takes a batch for each')
            raise core.EOFException(f'{name} has no more batches for {devices} devices')
        batches = batches[:len(taken)]
        for batch, more in zip(batches, taken):
            batch.update(more)
    return batches


# A process that ends, in whichever way Python notices, has left its servers and ranks. One that ends
# by an exception says which: the others' errors name it.
@atexit.register
def _leave_job():
    failure = getattr(sys, 'last_value', None)
    _C.leave_job('' if failure is None else f'{type(failure).__name__}: {failure}')


class Executor:
    """Runs programs on one place. place may also be a text such as 'cpu'."""

    def __init__(self, place=None):
        self.place = _current_expected_place() if place is None else _get_paddle_place(place)
        self._engine = _C.Executor(self.place)
        self._closed = False
        self._io_of = (None, 0, False, [])  # of the program that ran last: see _program_io
        self._calls = _C.KnownCalls(self._engine)

    def close(self):
        """Releases what the executor holds; later runs are refused. May be called again."""
        if not self._closed:
            self._engine.close()
            self._calls.forget()
            self._closed = True

    def check_passes(self, program=None, feed=None, scope=None, tolerance=0.0):
        """Runs one step with each pass of the compiler on and with all off, on copies of the
        scope's variables. Returns a text with the first op that differs for each pass; differences
        up to `tolerance` of a variable's largest number count as none."""
        program = program if program is not None else default_main_program()
        feed = _feed_dict(feed)
        if scope is not None and not isinstance(scope, core.Scope):
            raise TypeError(f'scope must be a Scope, got {type(scope).__name__}')
        if isinstance(program, CompiledProgram):
            return program._engine.check_passes(feed, scope, tolerance)
        if not isinstance(program, Program):
            raise TypeError('program must be a Program or a CompiledProgram, '
                            f'got {type(program).__name__}')
        return _C.check_passes(program, feed, scope, tolerance)[1]

    def _program_io(self, program):
        """(the program, its version, whether it has feed or fetch ops, its `read` ops as (reader,
        the variables it fills))."""
        ops = program.global_block().ops
        reads = [(op.input('Reader')[0], op.output('Out')) for op in ops if op.type == 'read']
        self._io_of = (program, program._version,
                       any(op.type in ('feed', 'fetch') for op in ops), reads)
        return self._io_of

    def run(self, program=None, feed=None, fetch_list=None, feed_var_name='feed',
            fetch_var_name='fetch', scope=None, return_numpy=True, use_program_cache=False,
            return_merged=True, use_prune=False):
        """Runs the program once and returns one value per item of fetch_list."""
        if self._closed:
            raise RuntimeError('the executor was closed: make a new one')
        if program is None:
            program = default_main_program()
        compiled = None
        if type(program) is not Program:  # the usual ones first: a step of a small program is short
            if isinstance(program, CompiledProgram):
                compiled, program = program, program._program
            elif not isinstance(program, Program):
                raise TypeError('program must be a Program or a CompiledProgram, '
                                f'got {type(program).__name__}')
        if type(fetch_var_name) is not str and not isinstance(fetch_var_name, str):
            raise TypeError(f'fetch_var_name must be a str, got {type(fetch_var_name).__name__}')
        if scope is not None and not isinstance(scope, core.Scope):
            raise TypeError(f'scope must be a Scope, got {type(scope).__name__}')
        if type(feed) is not dict and compiled is None:
            feed = _feed_dict(feed)
        if type(fetch_list) is not list:
            if fetch_list is None:
                fetch_list = []
            elif isinstance(fetch_list, (Variable, str, Operator)):
                fetch_list = [fetch_list]
            assert isinstance(fetch_list, (tuple, list)), \
                f'fetch_list must be a list or a tuple, got {type(fetch_list).__name__}'
        names, has_optimizers = _fetch_items(fetch_list)
        known = self._io_of
        if known[0] is not program or known[1] != program._version:
            known = self._program_io(program)
        _, _, has_feed_or_fetch_ops, reads = known
        if compiled is None and has_feed_or_fetch_ops:
            _check_feed_ops(program, feed, feed_var_name)
            _check_fetch_ops(program, names)
        if reads:
            devices = compiled._device_count(self.place) if compiled is not None else 1
            trains = compiled is not None and compiled._engine.trains
            feed = _with_readers(program, reads, feed, devices, trains)
            if len(feed) == 1 and devices == 1:
                feed = feed[0]
        if _schedules:
            _write_scheduled_rate(program, scope)
        prune = use_prune or has_optimizers
        if compiled is not None:
            results = compiled._run(self, feed, names, scope, return_numpy, return_merged, prune)
        else:
            results = self._engine.run(program, feed, names, scope, return_numpy, prune, prune)
        # What a call like this one would find again: it goes straight to the engine (repeated_run.cc).
        if scope is None and return_numpy and return_merged and not (prune or reads) and feed_var_name == 'feed':
            if type(feed) is dict and type(fetch_list) is list and (compiled is None or compiled._is_plain):
                fed = list(feed) if compiled is None and has_feed_or_fetch_ops else []
                self._calls.remember(compiled or program, program, fetch_list, names,
                                     compiled and compiled._engine, fed)
        return results

    def train_from_dataset(self, program=None, dataset=None, scope=None, thread=0, debug=False,
                           fetch_list=None, fetch_info=None, print_period=100, fetch_handler=None):
        """Runs the program once for each batch of a dataset, one after the other.

        thread says how many files are read at a time; what is computed does not depend on it.
        """
        self._run_from_dataset(program, dataset, scope, thread, debug, fetch_list, fetch_info,
                               print_period, fetch_handler)

    def infer_from_dataset(self, program=None, dataset=None, scope=None, thread=0, debug=False,
                           fetch_list=None, fetch_info=None, print_period=100, fetch_handler=None):
        """The same for a program that does not train."""
        self._run_from_dataset(program, dataset, scope, thread, debug, fetch_list, fetch_info,
                               print_period, fetch_handler)

    def _run_from_dataset(self, program, dataset, scope, thread, debug, fetch_list, fetch_info,
                          print_period, fetch_handler):
        if dataset is None:
            raise RuntimeError('there is no dataset to run over: make one with fluid.DatasetFactory')
        if not hasattr(dataset, '_batches'):
            raise TypeError(f'dataset must be made by fluid.DatasetFactory, got {type(dataset).__name__}')
        thread = thread if thread > 0 else dataset._thread_num
        if thread <= 0:
            raise RuntimeError('nobody said how many files to read at a time: call dataset.set_thread(n), or '
                               'pass thread=n here')
        fetch_list = list(fetch_list or [])
        fetch_info = list(fetch_info or [item if isinstance(item, str) else item.name for item in fetch_list])
        assert len(fetch_list) == len(fetch_info), \
            f'fetch_list has {len(fetch_list)} items, fetch_info {len(fetch_info)}'
        watched = dict(fetch_handler.var_dict) if fetch_handler is not None else {}
        began = looked = time.monotonic()
        count, progress = 0, Progress(dataset._batch_count())
        for count, feed in enumerate(progress.read(dataset._batches(thread)), 1):
            values = progress.run(lambda: self.run(program, feed=feed, fetch_list=fetch_list + list(watched.values()),
                                                   scope=scope, return_numpy=False))
            if progress.active:
                progress.step(scalar(values[0]) if fetch_list else None, rows(feed))
            if fetch_list and count % print_period == 0:
                shown = ', '.join(f'{info}: {numpy.array(value)}' for info, value in zip(fetch_info, values))
                clear()
                print(f'batch: {count}, {shown}')
            if watched and time.monotonic() - looked >= fetch_handler.period_secs:
                looked = time.monotonic()
                fetch_handler.handler(dict(zip(watched, map(numpy.array, values[len(fetch_list):]))))
        clear()
        if debug:
            print(f'{count} batches in {time.monotonic() - began:.3f} s, {thread} files read at a time')


def _write_scheduled_rate(program, scope):
    """2.4: an LRScheduler lives on the host; its value of now goes into the rate's variable."""
    schedule = _schedules.get(program._id)
    if schedule is None:
        return
    found = (scope or global_scope()).find_var(program._scheduled_rate)
    if found is not None and found.is_initialized():
        tensor = found.get_tensor()
        tensor.set(numpy.full(tensor.shape(), schedule(), _C.dtype_name(tensor._dtype())))
