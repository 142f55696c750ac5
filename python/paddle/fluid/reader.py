"""DataLoader and PyReader: generators of samples or batches become feed dicts, read ahead.

With iterable=False the program holds a `read` op, and Executor.run takes a batch out of the loader's
queue before each run: at the end of the data it raises core.EOFException, and nothing has run.
"""
import threading
import weakref

import numpy as np

import _trireme as _C

from .. import reader as _readers
from ..batch import batch as _batch
from ..reader.decorator import Channel
from . import core
from .data_feeder import DataFeeder, convert_dtype
from ._places import _get_paddle_place
from .framework import default_main_program, default_startup_program

__all__ = ['DataLoader', 'PyReader']

# Who fills the readers that `read` ops name. Programs built apart may use one name for two readers,
# so the program counts first; clones of a program read from the same one.
_reader_of_program = weakref.WeakValueDictionary()  # (program id, reader name) -> loader
_reader_of_name = weakref.WeakValueDictionary()


def _find_reader(program, name):
    return _reader_of_program.get((program._id, name)) or _reader_of_name.get(name)


class _BatchQueue:
    """A thread that fills a bounded queue with what batches() yields."""

    def __init__(self, batches, capacity):
        self._channel = Channel(capacity)
        self._end = None  # how the data ended: (error or None,)
        self._thread = threading.Thread(target=self._fill, args=(batches,), daemon=True)
        self._thread.start()

    def _fill(self, batches):
        error = None
        try:
            for batch in batches():
                if not self._channel.put((batch, None)):
                    return
        except BaseException as problem:  # raised where the batch is asked for
            error = problem
        self._channel.put((None, (error,)))

    def take(self):
        """The next batch; core.EOFException at the end, or what the generator raised."""
        if self._end is None:
            batch, self._end = self._channel.get() or (None, (None,))
            if self._end is None:
                return batch
        if self._end[0] is not None:
            raise self._end[0]
        raise core.EOFException('the reader has come to its end: call reset(), then start() for another pass')

    def size(self):
        """How many batches stand in it now."""
        return self._channel.size()

    def stop(self):
        self._channel.leave()
        self._thread.join()


def _as_places(places):
    places = places if isinstance(places, (list, tuple)) else [places]
    return [_get_paddle_place(place) for place in places]


class DataLoaderBase:
    """What every loader is: isinstance() tells loaders from readers by it."""


class _GeneratorLoader(DataLoaderBase):
    """Iterates over lists of feed dicts, one dict for each place."""

    def __init__(self, feed_list, capacity, use_double_buffer, iterable, return_list, drop_last):
        if capacity is None or capacity <= 0:
            raise ValueError(f'capacity must be positive, got {capacity}')
        self._feed_list = list(feed_list or [])
        self._capacity = capacity
        self._ahead = use_double_buffer
        self._return_list = return_list
        self._drop_last = drop_last
        self._places = [core.CPUPlace()]
        self._dicts = None
        self._iterable = iterable
        self._queue = None
        if not iterable:
            if not self._feed_list:
                raise ValueError('feed_list must be given when iterable is False')
            self._append_read_op()

    iterable = property(lambda self: self._iterable)
    # The queue between the reading thread and the program, while a pass is on; None else.
    queue = property(lambda self: self._queue)

    def _append_read_op(self, name=None):
        """A READER variable in both programs, made in the startup program and read in the main."""
        name = name or _C.generate_name('create_py_reader')
        self._reader_name = name
        main, startup = default_main_program(), default_startup_program()
        _reader_of_program[(main._id, name)] = _reader_of_name[name] = self
        kinds = core.VarDesc.VarType
        queue_name = _C.generate_name('lod_tensor_blocking_queue')
        startup_block = startup.global_block()
        startup_block.create_var(name=queue_name, type=kinds.RAW, persistable=True)
        for block in (startup_block, main.global_block()):
            block.create_var(name=name, type=kinds.READER, persistable=True)
        shapes = [list(var.shape) for var in self._feed_list]
        described = {'shape_concat': [extent for shape in shapes for extent in shape],
                     'ranks': [len(shape) for shape in shapes],
                     'lod_levels': [var.lod_level for var in self._feed_list],
                     'dtypes': [int(var.dtype) for var in self._feed_list],
                     'need_check_feed': [0 for _ in shapes]}
        startup_block.append_op(type='create_py_reader', attrs=described,
                                inputs={'blocking_queue': [queue_name]}, outputs={'Out': [name]})
        main.global_block().append_op(type='read', attrs={'drop_last': self._drop_last},
                                      inputs={'Reader': [name]}, outputs={'Out': self._feed_list})

    def _take(self, count):
        """count feed dicts, one for each device; core.EOFException when there are not so many."""
        if self._queue is None:
            raise RuntimeError(f'reader {self._reader_name} was not started: call start() before '
                               'Executor.run')
        taken = []
        try:
            for _ in range(count):
                taken.append(self._queue.take())
        except core.EOFException:
            if self._drop_last or not taken:
                raise
        return taken

    def _set(self, dicts, places):
        if places is not None:
            self._places = _as_places(places)
        self._dicts = dicts
        return self

    def set_sample_generator(self, reader, batch_size, drop_last=True, places=None):
        """reader() yields samples: one value per variable of feed_list."""
        return self.set_sample_list_generator(_batch(reader, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader, places=None):
        """reader() yields batches: lists of samples."""
        feeder = DataFeeder(self._feed_list, core.CPUPlace())
        return self._set(feeder.decorate_reader(reader, multi_devices=False), places)

    def set_batch_generator(self, reader, places=None):
        """reader() yields batches that are arrays already: one per variable of feed_list."""
        def dicts():
            for values in reader():
                if isinstance(values, dict):
                    yield values
                    continue
                if len(values) != len(self._feed_list):
                    raise ValueError(f'a batch has {len(values)} arrays for '
                                     f'{len(self._feed_list)} variables')
                yield {var.name: _tensor(value, var)
                       for var, value in zip(self._feed_list, values)}
        return self._set(dicts, places)

    def __iter__(self):
        if not self._iterable:
            raise RuntimeError('a DataLoader with iterable=False is not iterated over: call start(), '
                               'then Executor.run until core.EOFException')
        assert self._dicts is not None, 'the data of the DataLoader is not set: call set_*_generator'
        dicts = _readers.buffered(self._dicts, self._capacity) if self._ahead else self._dicts
        group = []
        for feed in dicts():
            group.append(feed)
            if len(group) == len(self._places):
                yield self._shown(group)
                group = []
        if group and not self._drop_last:
            yield self._shown(group)

    __call__ = __iter__

    def _shown(self, group):
        if not self._return_list:
            return group
        lists = [[feed[var.name] for var in self._feed_list] for feed in group]
        return lists[0] if len(lists) == 1 else lists

    def start(self):
        """Begins a pass over the data: a thread fills the queue from now on."""
        self._check_not_iterable('start')
        if self._queue is not None:
            raise RuntimeError('the reader is started already: call reset() first')
        assert self._dicts is not None, 'the data of the DataLoader is not set: call set_*_generator'
        self._queue = _BatchQueue(self._dicts, self._capacity)

    def reset(self):
        """Ends the pass, whether or not the data has ended; start() begins another."""
        self._check_not_iterable('reset')
        if self._queue is not None:
            self._queue.stop()
            self._queue = None

    def _check_not_iterable(self, method):
        if self._iterable:
            raise RuntimeError(f'{method}() is for a DataLoader with iterable=False; iterate over '
                               'this one')


def _tensor(value, var):
    if isinstance(value, core.LoDTensor):
        return value
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, convert_dtype(var.dtype))


class DataLoader:
    """Batches of a dataset, read ahead, as feed takes them; from_generator has those that a generator yields."""

    def __new__(cls, dataset, feed_list=None, places=None, return_list=False, batch_sampler=None, batch_size=1,
                shuffle=False, drop_last=False, collate_fn=None, num_workers=0, use_buffer_reader=True,
                use_shared_memory=True, timeout=0, worker_init_fn=None):
        from ..io.loader import DataLoader as Loader  # which returns lists unless it is told otherwise
        return Loader(dataset, feed_list, places, return_list, batch_sampler, batch_size, shuffle, drop_last,
                      collate_fn, num_workers, use_buffer_reader, use_shared_memory=use_shared_memory,
                      timeout=timeout, worker_init_fn=worker_init_fn)

    @staticmethod
    def from_generator(feed_list=None, capacity=None, use_double_buffer=True, iterable=True,
                       return_list=False, use_multiprocess=False, drop_last=True):
        """Iterates over what set_sample_generator and its like are given."""
        return _GeneratorLoader(feed_list, capacity, use_double_buffer=use_double_buffer,
                                iterable=iterable, return_list=return_list, drop_last=drop_last)

    @staticmethod
    def from_dataset(dataset, places, drop_last=True):
        """Iterates over the batches of a dataset (fluid.DatasetFactory)."""
        loader = _GeneratorLoader(None, 8, True, True, False, drop_last)
        return loader._set(lambda: dataset._batches(dataset._thread_num), places)


class PyReader(_GeneratorLoader):
    """The older face of DataLoader."""

    def __init__(self, feed_list=None, capacity=None, use_double_buffer=True, iterable=True,
                 return_list=False):
        super().__init__(feed_list, capacity, use_double_buffer, iterable, return_list, True)

    def decorate_sample_generator(self, sample_generator, batch_size, drop_last=True, places=None):
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader, places=None):
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader, places=None):
        self.set_batch_generator(reader, places)


class _PyReaderLayer(_GeneratorLoader):
    """What layers.py_reader returns; the `read` op comes with layers.read_file."""

    def __init__(self, feed_list, capacity, use_double_buffer, name):
        super().__init__(feed_list, capacity, use_double_buffer, True, False, True)
        self._iterable = False
        self._name = name
        self._reader_name = name or 'py_reader'
        self._was_read = False

    def _read_file(self):
        if not self._was_read:
            self._append_read_op(self._name)
            self._was_read = True
        return self._feed_list[0] if len(self._feed_list) == 1 else list(self._feed_list)

    name = property(lambda self: self._reader_name)

    def decorate_paddle_reader(self, reader, places=None):
        """reader() yields batches: lists of samples, as paddle.batch makes them."""
        self.set_sample_list_generator(reader, places)

    def decorate_tensor_provider(self, reader, places=None):
        """reader() yields batches that are arrays already."""
        self.set_batch_generator(reader, places)

    decorate_sample_list_generator = decorate_paddle_reader
    decorate_batch_generator = decorate_tensor_provider

    def decorate_sample_generator(self, sample_generator, batch_size, drop_last=True, places=None):
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)
