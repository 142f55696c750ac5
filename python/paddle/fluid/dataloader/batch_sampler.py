"""fluid.dataloader.batch_sampler: numbers of samples in batches."""
from ...io import BatchSampler

__all__ = ['BatchSampler']
