"""DataLoader: batches of a dataset, read ahead by threads or by processes.

num_workers=0 reads in the caller, or in one thread ahead of it; with more, that many processes read whole
batches, and batches come out in the order of the sampler. Each sends arrays through a pipe.
"""
import collections
import collections.abc
import multiprocessing
import queue
import traceback

import numpy as np

import _trireme as _C

from .. import reader as _readers
from ..fluid.reader import DataLoader as _FluidLoader
from .batch_sampler import BatchSampler
from .dataset import IterableDataset

__all__ = ['DataLoader', 'default_collate_fn', 'get_worker_info']

WorkerInfo = collections.namedtuple('WorkerInfo', ['id', 'num_workers', 'dataset', 'seed'])
_worker = None  # what this process is, where it reads for a DataLoader


def get_worker_info():
    """Which of the loader's processes this is; None in the caller."""
    return _worker


def default_collate_fn(batch):
    """Samples as arrays with the batch in front; dicts and lists keep their form."""
    sample = batch[0]
    if isinstance(sample, _C.LoDTensor):
        return np.stack([np.array(each) for each in batch])
    if isinstance(sample, (np.ndarray, np.generic, int, float)) and not isinstance(sample, bool):
        found = np.stack([np.asarray(each) for each in batch])
        return found.astype('float32') if isinstance(sample, float) else found
    if isinstance(sample, bool):
        return np.array(batch)
    if isinstance(sample, (str, bytes)):
        return list(batch)
    if isinstance(sample, collections.abc.Mapping):
        return {key: default_collate_fn([each[key] for each in batch]) for key in sample}
    if isinstance(sample, collections.abc.Sequence):
        if any(len(each) != len(sample) for each in batch):
            raise RuntimeError('the samples of a batch have different numbers of fields')
        return [default_collate_fn(list(field)) for field in zip(*batch)]
    raise TypeError(f'samples hold a {type(sample).__name__}: give arrays, numbers, or a collate_fn')


def _work(dataset, collate, drop_last, wanted, found, init, info):
    """One process: numbers in, batches out; for a stream every n-th batch of it."""
    global _worker
    _worker = info
    np.random.seed(info.seed % 2 ** 32)
    try:
        if init is not None:
            init(info.id)
        stream = iter(dataset) if isinstance(dataset, IterableDataset) else None
        for ticket, indices in iter(wanted.get, None):
            if stream is None:
                samples = [dataset[i] for i in indices]
            else:
                samples = [sample for _, sample in zip(range(indices), stream)]
                samples = [] if drop_last and len(samples) < indices else samples
            found.put((ticket, collate(samples) if samples else None, None))
    except BaseException:
        found.put((None, None, traceback.format_exc()))


class _Workers:
    """The processes of one pass; at most `ahead` batches each are under way."""

    def __init__(self, loader):
        context = multiprocessing.get_context('fork')
        self._timeout = loader.timeout or None
        self._found = context.Queue()
        self._wanted = [context.Queue() for _ in range(loader.num_workers)]
        seed = int(np.random.randint(2 ** 31))
        self._processes = []
        for i, wanted in enumerate(self._wanted):
            info = WorkerInfo(i, loader.num_workers, loader.dataset, seed + i)
            process = context.Process(target=_work, daemon=True, args=(
                loader.dataset, loader.collate_fn, loader.drop_last, wanted, self._found, loader.worker_init_fn, info))
            process.start()
            self._processes.append(process)

    def batches(self, tickets, ahead):
        """Batches in the order of their tickets; a worker whose stream has ended gets no more."""
        tickets = enumerate(tickets)
        ready, asked, given, over = {}, 0, 0, set()
        owner, order = {}, collections.deque()

        def ask():
            nonlocal asked
            for ticket, indices in tickets:
                worker = ticket % len(self._wanted)
                if worker in over:
                    continue
                self._wanted[worker].put((ticket, indices))
                owner[ticket] = worker
                order.append(ticket)
                asked += 1
                return True
            return False
        while len(order) < ahead * len(self._wanted) and ask():
            pass
        while order:
            ticket = order.popleft()
            while ticket not in ready:
                done, batch = self._receive()
                ready[done] = batch
            batch = ready.pop(ticket)
            given += 1
            if batch is None:
                over.add(owner[ticket])
                if len(over) == len(self._wanted):
                    return
                if order or ask():
                    continue
                return
            ask()
            yield batch

    def _receive(self):
        waited = 0.0
        while True:
            try:
                ticket, batch, error = self._found.get(timeout=1.0)
                break
            except queue.Empty:
                waited += 1.0
                dead = [p.pid for p in self._processes if not p.is_alive()]
                if dead:
                    raise RuntimeError(f'a process of the DataLoader (pid {dead[0]}) has ended: it was killed, or ran '
                                       'out of memory') from None
                if self._timeout is not None and waited >= self._timeout:
                    raise RuntimeError(f'a batch of the DataLoader took more than {self._timeout} seconds') from None
        if error:
            raise RuntimeError('a process of the DataLoader failed:\n' + error)
        return ticket, batch

    def stop(self):
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
        for channel in [self._found, *self._wanted]:
            channel.cancel_join_thread()
            channel.close()


class DataLoader:
    """Iterates over batches: lists of arrays, or with return_list=False what feed takes."""

    def __init__(self, dataset, feed_list=None, places=None, return_list=True, batch_sampler=None, batch_size=1,
                 shuffle=False, drop_last=False, collate_fn=None, num_workers=0, use_buffer_reader=True,
                 prefetch_factor=2, use_shared_memory=True, timeout=0, worker_init_fn=None, persistent_workers=False):
        if not return_list and not feed_list:
            raise ValueError('DataLoader: feed_list names the variables of a batch; with return_list=False it must be '
                             'given')
        if num_workers < 0 or prefetch_factor < 1 or timeout < 0:
            raise ValueError(f'DataLoader: num_workers ({num_workers}) and timeout ({timeout}) must not be below 0, '
                             f'prefetch_factor ({prefetch_factor}) must be above')
        if places is not None and isinstance(places, (list, tuple)) and len(places) > 1:
            raise NotImplementedError('DataLoader: batches go to one place: feed several places by CompiledProgram, '
                                      'which cuts a batch among them')
        self.dataset, self.feed_list, self.return_list = dataset, feed_list, return_list
        self.collate_fn = collate_fn or default_collate_fn
        self.num_workers, self.use_buffer_reader, self.prefetch_factor = num_workers, use_buffer_reader, prefetch_factor
        self.timeout, self.worker_init_fn, self.drop_last = timeout, worker_init_fn, drop_last
        self.batch_size, self.batch_sampler = batch_size, batch_sampler
        if isinstance(dataset, IterableDataset):
            if shuffle or batch_sampler is not None:
                raise ValueError('DataLoader: a stream has an order of its own: leave shuffle and batch_sampler out')
        elif batch_sampler is not None:
            if batch_size != 1 or shuffle or drop_last:
                raise ValueError('DataLoader: batch_sampler says what batches are: leave batch_size, shuffle and '
                                 'drop_last out')
        elif batch_size is not None:
            self.batch_sampler = BatchSampler(dataset, None, shuffle, batch_size, drop_last)

    def __len__(self):
        if isinstance(self.dataset, IterableDataset):
            raise ValueError('a DataLoader over an IterableDataset has no length')
        return len(self.dataset) if self.batch_sampler is None else len(self.batch_sampler)

    def _batches(self):
        """Batches made here, one after the other."""
        if isinstance(self.dataset, IterableDataset):
            size, batch = self.batch_size or 1, []
            for sample in self.dataset:
                batch.append(sample)
                if len(batch) == size:
                    yield self.collate_fn(batch)
                    batch = []
            if batch and not self.drop_last:
                yield self.collate_fn(batch)
        elif self.batch_sampler is None:  # batch_size=None: samples as they are
            for index in range(len(self.dataset)):
                yield self.dataset[index]
        else:
            for indices in self.batch_sampler:
                yield self.collate_fn([self.dataset[i] for i in indices])

    def _from_workers(self):
        if isinstance(self.dataset, IterableDataset):
            def tickets():
                while True:
                    yield self.batch_size or 1
            tickets = tickets()
        elif self.batch_sampler is None:
            raise NotImplementedError('DataLoader: batch_size=None is built for num_workers=0')
        else:
            tickets = iter(self.batch_sampler)
        workers = _Workers(self)
        try:
            yield from workers.batches(tickets, self.prefetch_factor)
        finally:
            workers.stop()

    def __iter__(self):
        if self.num_workers:
            batches = self._from_workers()
        elif self.use_buffer_reader:
            batches = _readers.buffered(self._batches, self.prefetch_factor)()
        else:
            batches = self._batches()
        for batch in batches:
            yield self._shown(batch)

    __call__ = __iter__

    def _shown(self, batch):
        """The batch, or a list of one dict of names for the one place."""
        if self.return_list:
            return batch
        values = list(batch.values()) if isinstance(batch, collections.abc.Mapping) else list(batch)
        if len(values) != len(self.feed_list):
            raise ValueError(f'a batch has {len(values)} arrays for {len(self.feed_list)} variables')
        return [{getattr(var, 'name', var): value for var, value in zip(self.feed_list, values)}]

    from_generator = staticmethod(_FluidLoader.from_generator)
    from_dataset = staticmethod(_FluidLoader.from_dataset)
