"""paddle.io: datasets, samplers, and the DataLoader that reads ahead of a static program."""
from .batch_sampler import *
from .dataset import *
from .loader import DataLoader, default_collate_fn, get_worker_info
from .sampler import *
