"""Data sets of text files: lines of "n value ... value" for each variable, made into batches.

Executor.train_from_dataset consumes them. Each file goes through a command of the user's, whose output
has the lines. QueueDataset streams; InMemoryDataset holds all samples, and so can shuffle them.
"""
import concurrent.futures
import random
import shlex
import subprocess

import numpy as np

from . import core
from .data_feeder import convert_dtype

__all__ = ['DatasetFactory', 'InMemoryDataset', 'QueueDataset']


class DatasetFactory:
    """create_dataset('QueueDataset') or create_dataset('InMemoryDataset')"""

    def create_dataset(self, datafeed_class='QueueDataset'):
        kinds = {'QueueDataset': QueueDataset, 'InMemoryDataset': InMemoryDataset}
        if datafeed_class not in kinds:
            raise ValueError(f'datafeed class {datafeed_class} does not exist: use one of {sorted(kinds)}')
        return kinds[datafeed_class]()


class _Slot:
    """A variable and how its values stand in a line."""

    def __init__(self, var):
        self.name = var.name
        self.dtype = convert_dtype(var.dtype)
        if self.dtype not in ('float32', 'int64'):
            raise ValueError(f'{var.name} is {self.dtype}; the variables of a dataset are float32 or int64')
        self.read = float if self.dtype == 'float32' else int
        self.is_dense = var.lod_level == 0
        self.shape = [int(extent) for extent in var.shape[1:]]
        if self.is_dense and any(extent < 0 for extent in self.shape):
            raise ValueError(f'{var.name} has the shape {list(var.shape)}; without LoD only the first '
                             'dimension may be unknown')

    def tensor(self, rows):
        values = np.array([value for row in rows for value in row], self.dtype)
        tensor = core.LoDTensor()
        tensor.set(values.reshape([len(rows)] + self.shape if self.is_dense else [-1, 1]), core.CPUPlace())
        if not self.is_dense:
            tensor.set_recursive_sequence_lengths([[len(row) for row in rows]])
        return tensor


class DatasetBase:
    """What both kinds have: files, the command they go through, variables and the size of batches."""

    def __init__(self):
        self._pipe_command = 'cat'
        self._batch_size = 1
        self._thread_num = 1
        self._filelist = []
        self._slots = []

    def set_pipe_command(self, pipe_command):
        """Every file is its input; its output has the lines of samples."""
        self._pipe_command = pipe_command

    def set_batch_size(self, batch_size):
        if batch_size <= 0:
            raise ValueError(f'batch_size must be positive, got {batch_size}')
        self._batch_size = int(batch_size)

    def set_thread(self, thread_num):
        """How many files are read at a time."""
        self._thread_num = int(thread_num)

    def set_filelist(self, filelist):
        self._filelist = list(filelist)

    def set_use_var(self, var_list):
        """The variables whose values a line holds, in this order."""
        self._slots = [_Slot(var) for var in var_list]

    def set_hdfs_config(self, fs_name, fs_ugi):
        raise NotImplementedError('files of a dataset are read from this machine: mount or copy them')

    def _sample(self, line, file):
        words, at, values = line.split(), 0, []
        try:
            for slot in self._slots:
                count = int(words[at])
                row = [slot.read(word) for word in words[at + 1:at + 1 + count]]
                if count <= 0 or len(row) != count:
                    raise ValueError(f'{slot.name} has {len(row)} values where {count} are announced; '
                                     'an empty one must be padded')
                if slot.is_dense and count != int(np.prod(slot.shape)):
                    raise ValueError(f'{slot.name} has {count} values for the shape {slot.shape}')
                values.append(row)
                at += 1 + count
            if at != len(words):
                raise ValueError(f'{len(words) - at} words are left over')
        except (ValueError, IndexError) as error:
            raise ValueError(f'{file}: the line {line.strip()!r} is not a sample of '
                             f'{[slot.name for slot in self._slots]}: {error}') from error
        return values

    def _samples(self, file):
        """The samples of one file."""
        with open(file, 'rb') as source, subprocess.Popen(
                self._pipe_command, shell=True, stdin=source, stdout=subprocess.PIPE, text=True) as process:
            try:
                for line in process.stdout:
                    if line.strip():
                        yield self._sample(line, file)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            raise RuntimeError(f'the pipe command {shlex.quote(self._pipe_command)} ended with '
                               f'{process.returncode} for {file}')

    def _check(self):
        if not self._slots:
            raise RuntimeError('the dataset has no variables: call set_use_var')
        if not self._filelist:
            raise RuntimeError('the dataset has no files: call set_filelist')

    def _in_batches(self, samples):
        held = []
        for sample in samples:
            held.append(sample)
            if len(held) == self._batch_size:
                yield self._feed(held)
                held = []
        if held:
            yield self._feed(held)

    def _feed(self, samples):
        return {slot.name: slot.tensor([sample[i] for sample in samples]) for i, slot in enumerate(self._slots)}


class QueueDataset(DatasetBase):
    """Samples in the order of the files; `thread` files are read at a time, a batch from each in turn."""

    def local_shuffle(self):
        raise NotImplementedError('QueueDataset does not hold its samples: use InMemoryDataset to shuffle')

    def global_shuffle(self, fleet=None):
        self.local_shuffle()

    def _batches(self, thread):
        self._check()
        count = max(1, min(thread, len(self._filelist)))
        streams = [self._in_batches(sample for file in self._filelist[i::count] for sample in self._samples(file))
                   for i in range(count)]
        while streams:
            for stream in list(streams):
                batch = next(stream, None)
                if batch is None:
                    streams.remove(stream)
                else:
                    yield batch


class InMemoryDataset(DatasetBase):
    """Holds all samples between load_into_memory() and release_memory()."""

    def __init__(self):
        super().__init__()
        self._held = None
        self._loading = None

    def load_into_memory(self):
        self.preload_into_memory()
        self.wait_preload_done()

    def preload_into_memory(self, thread_num=None):
        """Begins to read; wait_preload_done() waits for the end."""
        self._check()
        pool = concurrent.futures.ThreadPoolExecutor(max(1, thread_num or self._thread_num))
        self._loading = [pool.submit(lambda file: list(self._samples(file)), file) for file in self._filelist]
        pool.shutdown(wait=False)

    def wait_preload_done(self):
        if self._loading is None:
            raise RuntimeError('nothing is being loaded: call preload_into_memory first')
        self._held = [sample for future in self._loading for sample in future.result()]
        self._loading = None

    def local_shuffle(self):
        random.shuffle(self._samples_held())

    def global_shuffle(self, fleet=None, thread_num=12):
        """Among all workers; of one worker it is local_shuffle()."""
        if fleet is not None and fleet.worker_num() > 1:
            raise NotImplementedError('global_shuffle among several workers is not built yet: give each '
                                      'worker its files and call local_shuffle')
        self.local_shuffle()

    def release_memory(self):
        self._held = None

    def get_memory_data_size(self, fleet=None):
        return len(self._samples_held())

    def get_shuffle_data_size(self, fleet=None):
        return len(self._samples_held())

    def _samples_held(self):
        if self._held is None:
            raise RuntimeError('the dataset holds no samples: call load_into_memory first')
        return self._held

    def _batches(self, thread):
        yield from self._in_batches(self._samples_held())
