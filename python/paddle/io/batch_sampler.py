"""Batch samplers: which samples make a batch."""
import math
import os

import numpy as np

from .dataset import IterableDataset
from .sampler import RandomSampler, Sampler, SequenceSampler

__all__ = ['BatchSampler', 'DistributedBatchSampler']


def _check(name, value, kind):
    if not isinstance(value, kind):
        raise TypeError(f'{name} must be a {kind.__name__}, got {value!r}')


class BatchSampler(Sampler):
    """Lists of batch_size numbers, of a dataset or from a sampler."""

    def __init__(self, dataset=None, sampler=None, shuffle=False, batch_size=1, drop_last=False):
        if (dataset is None) == (sampler is None):
            raise ValueError('BatchSampler: give dataset or sampler, one of them')
        if isinstance(dataset, IterableDataset):
            raise TypeError('BatchSampler: an IterableDataset has no samples by number')
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f'batch_size must be a number above 0, got {batch_size!r}')
        _check('shuffle', shuffle, bool)
        _check('drop_last', drop_last, bool)
        if sampler is not None and shuffle:
            raise ValueError('BatchSampler: shuffle goes with dataset; a sampler has its own order')
        self.sampler = sampler or (RandomSampler(dataset) if shuffle else SequenceSampler(dataset))
        self.batch_size, self.drop_last = batch_size, drop_last

    def __iter__(self):
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedBatchSampler(BatchSampler):
    """The batches of one of several trainers; the last samples are taken twice where they do not divide."""

    def __init__(self, dataset, batch_size, num_replicas=None, rank=None, shuffle=False, drop_last=False):
        super().__init__(dataset, None, False, batch_size, drop_last)
        _check('shuffle', shuffle, bool)
        self.dataset, self.shuffle, self.epoch = dataset, shuffle, 0
        self.nranks = int(os.environ.get('PADDLE_TRAINERS_NUM', 1)) if num_replicas is None else num_replicas
        self.local_rank = int(os.environ.get('PADDLE_TRAINER_ID', 0)) if rank is None else rank
        if not 0 <= self.local_rank < self.nranks:
            raise ValueError(f'rank {self.local_rank} is none of {self.nranks} trainers')
        self.num_samples = math.ceil(len(dataset) / self.nranks)
        self.total_size = self.num_samples * self.nranks

    def __iter__(self):
        order = np.arange(len(self.dataset))
        if self.shuffle:  # every trainer draws the same order
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        order = np.resize(order, self.total_size).tolist()
        mine, begin = [], 0
        whole = self.batch_size * self.nranks
        while begin + whole <= self.total_size:
            at = begin + self.local_rank * self.batch_size
            mine += order[at:at + self.batch_size]
            begin += whole
        rest = (self.total_size - begin) // self.nranks
        mine += order[begin + self.local_rank * rest:begin + (self.local_rank + 1) * rest]
        batches = [mine[i:i + self.batch_size] for i in range(0, len(mine), self.batch_size)]
        return iter([b for b in batches if len(b) == self.batch_size or not self.drop_last])

    def __len__(self):
        return self.num_samples // self.batch_size if self.drop_last else -(-self.num_samples // self.batch_size)

    def set_epoch(self, epoch):
        """The order of shuffling hangs on the epoch."""
        self.epoch = epoch
