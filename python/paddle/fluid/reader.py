"""DataLoader and PyReader: generators of samples or batches become feed dicts, read ahead."""
import numpy as np

from .. import reader as _readers
from ..batch import batch as _batch
from . import core
from .data_feeder import DataFeeder, convert_dtype
from .framework import _get_paddle_place

__all__ = ['DataLoader', 'PyReader']


def _as_places(places):
    places = places if isinstance(places, (list, tuple)) else [places]
    return [_get_paddle_place(place) for place in places]


class _GeneratorLoader:
    """Iterates over lists of feed dicts, one dict for each place."""

    def __init__(self, feed_list, capacity, use_double_buffer, iterable, return_list, drop_last):
        if not iterable:
            raise NotImplementedError(
                'DataLoader with iterable=False is not built yet in Trireme: pass iterable=True and '
                'feed what it yields to Executor.run')
        if capacity is None or capacity <= 0:
            raise ValueError(f'capacity must be positive, got {capacity}')
        self._feed_list = list(feed_list or [])
        self._capacity = capacity
        self._ahead = use_double_buffer
        self._return_list = return_list
        self._drop_last = drop_last
        self._places = [core.CPUPlace()]
        self._dicts = None

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
        raise RuntimeError('start() is for a DataLoader with iterable=False; iterate over this one')

    reset = start


def _tensor(value, var):
    if isinstance(value, core.LoDTensor):
        return value
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, convert_dtype(var.dtype))


class DataLoader:
    """DataLoader.from_generator(...) reads ahead what a generator yields."""

    @staticmethod
    def from_generator(feed_list=None, capacity=None, use_double_buffer=True, iterable=True,
                       return_list=False, use_multiprocess=False, drop_last=True):
        return _GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list,
                                drop_last)

    @staticmethod
    def from_dataset(dataset, places, drop_last=True):
        raise NotImplementedError('DataLoader.from_dataset is not built yet in Trireme')


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
