"""fluid.dataloader.dataset: samples by number."""
from ...io import Dataset, IterableDataset

__all__ = ['Dataset', 'IterableDataset']
