"""fluid.dataloader.collate: samples made into batches."""
from ...io.loader import default_collate_fn

__all__ = ['default_collate_fn']
