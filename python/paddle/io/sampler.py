"""Samplers: in which order samples are taken."""
import numpy as np

__all__ = ['Sampler', 'SequenceSampler', 'RandomSampler', 'WeightedRandomSampler', 'SubsetRandomSampler']


class Sampler:
    """Iterates over numbers of samples: define __iter__."""

    def __init__(self, data_source=None):
        self.data_source = data_source

    def __iter__(self):
        raise NotImplementedError(f'{type(self).__name__} does not define __iter__')


class SequenceSampler(Sampler):
    """0, 1, 2, ..."""

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """In no order; with replacement, num_samples draws."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        super().__init__(data_source)
        if not isinstance(replacement, bool):
            raise TypeError(f'replacement must be a bool, got {replacement!r}')
        if num_samples is not None and not (isinstance(num_samples, int) and num_samples > 0):
            raise ValueError(f'num_samples must be a number above 0, got {num_samples!r}')
        if num_samples is not None and not replacement and num_samples > len(data_source):
            raise ValueError(f'{num_samples} of {len(data_source)} samples cannot be drawn without replacement')
        self.replacement, self._num_samples, self.generator = replacement, num_samples, generator

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        count = len(self.data_source)
        if self.generator is not None:
            return (next(self.generator) for _ in range(self.num_samples))
        return iter(np.random.choice(count, self.num_samples, replace=self.replacement).tolist())

    def __len__(self):
        return self.num_samples


class WeightedRandomSampler(Sampler):
    """Drawn by weights."""

    def __init__(self, weights, num_samples, replacement=True):
        super().__init__()
        self.weights = np.asarray(weights, 'float64')
        if self.weights.ndim != 1 or (self.weights < 0).any() or not self.weights.sum() > 0:
            raise ValueError('weights must be a list of numbers, none below 0 and one above')
        if not replacement and num_samples > (self.weights > 0).sum():
            raise ValueError(f'{num_samples} samples cannot be drawn without replacement: fewer have a weight')
        self.num_samples, self.replacement = num_samples, replacement

    def __iter__(self):
        share = self.weights / self.weights.sum()
        return iter(np.random.choice(len(share), self.num_samples, self.replacement, share).tolist())

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Some samples, in no order."""

    def __init__(self, indices):
        if not len(indices):
            raise ValueError('SubsetRandomSampler has no samples to draw from')
        self.indices = indices

    def __iter__(self):
        return (self.indices[i] for i in np.random.permutation(len(self.indices)))

    def __len__(self):
        return len(self.indices)
