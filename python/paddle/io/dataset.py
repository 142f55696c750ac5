"""Datasets: by number, or as a stream."""
import bisect

import numpy as np

__all__ = ['Dataset', 'IterableDataset', 'TensorDataset', 'ComposeDataset', 'ChainDataset', 'ConcatDataset', 'Subset',
           'random_split']


class Dataset:
    """Samples by number: define __getitem__ and __len__."""

    def __getitem__(self, idx):
        raise NotImplementedError(f'{type(self).__name__} does not define __getitem__')

    def __len__(self):
        raise NotImplementedError(f'{type(self).__name__} does not define __len__')


class IterableDataset(Dataset):
    """Samples as a stream: define __iter__."""

    def __iter__(self):
        raise NotImplementedError(f'{type(self).__name__} does not define __iter__')

    def __getitem__(self, idx):
        raise RuntimeError('an IterableDataset has no samples by number: iterate over it')

    def __len__(self):
        raise RuntimeError('an IterableDataset has no length')


class TensorDataset(Dataset):
    """Rows of arrays that have equally many."""

    def __init__(self, tensors):
        self.tensors = [np.asarray(tensor) for tensor in tensors]
        counts = {len(tensor) for tensor in self.tensors}
        if len(counts) != 1:
            raise ValueError(f'the arrays of a TensorDataset must have equally many rows, got {sorted(counts)}')

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self):
        return len(self.tensors[0])


def _fields(sample):
    return list(sample) if isinstance(sample, (list, tuple)) else [sample]


class ComposeDataset(Dataset):
    """Samples of several datasets side by side."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        counts = {len(dataset) for dataset in self.datasets}
        if len(counts) != 1:
            raise ValueError(f'the parts of a ComposeDataset must have equally many samples, got {sorted(counts)}')

    def __len__(self):
        return len(self.datasets[0])

    def __getitem__(self, idx):
        return tuple(field for dataset in self.datasets for field in _fields(dataset[idx]))


class ChainDataset(IterableDataset):
    """Streams one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)

    def __iter__(self):
        for dataset in self.datasets:
            yield from dataset


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets or any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise ValueError('a ConcatDataset has datasets by number, one at least: ChainDataset is for streams')
        self.cumulative_sizes = np.cumsum([len(dataset) for dataset in self.datasets]).tolist()

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if not -len(self) <= idx < len(self):
            raise ValueError(f'there are {len(self)} samples and none at {idx}')
        idx %= len(self)
        part = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[part][idx - (self.cumulative_sizes[part - 1] if part else 0)]


class Subset(Dataset):
    """Some samples of a dataset."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx):
        return self.dataset[self.indices[idx]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Subsets of these lengths, or shares, drawn without replacement."""
    if generator is not None:
        raise NotImplementedError('random_split: generator needs dynamic mode: call numpy.random.seed')
    lengths, count = list(lengths), len(dataset)
    if all(isinstance(length, float) for length in lengths) and abs(sum(lengths) - 1) < 1e-9:
        shares = lengths
        lengths = [int(count * share) for share in shares]
        for i in range(count - sum(lengths)):
            lengths[i % len(lengths)] += 1
    if sum(lengths) != count:
        raise ValueError(f'the lengths add up to {sum(lengths)}, the dataset has {count} samples')
    order, begin, parts = np.random.permutation(count).tolist(), 0, []
    for length in lengths:
        parts.append(Subset(dataset, order[begin:begin + length]))
        begin += length
    return parts
