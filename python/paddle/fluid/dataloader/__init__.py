"""fluid.dataloader: datasets by number, under their former address; paddle.io has them."""
from ...io import BatchSampler, Dataset, IterableDataset
from . import batch_sampler, collate, dataset
