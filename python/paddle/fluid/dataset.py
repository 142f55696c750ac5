"""Data sets of text files: lines of "n value ... value" for each variable, made into batches.

Executor.train_from_dataset consumes them. Each file goes through a command of the user's, whose output
has the lines. QueueDataset streams; InMemoryDataset holds all samples, and so can shuffle them. Files are
read and parsed by the engine, on threads of its own (io/multi_slot.h).
"""
import random
import shlex

import _trireme as _C

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
        self.is_dense = var.lod_level == 0
        self.shape = [int(extent) for extent in var.shape]
        if self.is_dense and any(extent < 0 for extent in self.shape[1:]):
            raise ValueError(f'{var.name} has the shape {self.shape}; without LoD only the first '
                             'dimension may be unknown')

    def text(self):
        dense = ['    is_dense: true'] if self.is_dense else []
        shape = [f'    shape: {extent}' for extent in self.shape] if self.is_dense else []
        kind = 'float' if self.dtype == 'float32' else 'uint64'
        return ['  slots {', f'    name: "{self.name}"', f'    type: "{kind}"', *dense, '    is_used: true',
                *shape, '  }']


class DatasetBase:
    """What both kinds have: files, the command they go through, variables and the size of batches."""

    _feed_name = 'MultiSlotDataFeed'
    _has_id = _has_content = False

    def __init__(self):
        self._pipe_command = 'cat'
        self._download_command = ''
        self._batch_size = 1
        self._thread_num = 1
        self._filelist = None
        self._slots = []

    def set_pipe_command(self, pipe_command):
        """Every file is its input; its output has the lines of samples."""
        self._pipe_command = pipe_command

    def set_download_cmd(self, download_cmd):
        """Called with the name of a file, it gives the pipe command's input: for files that are not on this machine."""
        self._download_command = download_cmd

    def set_hdfs_config(self, fs_name, fs_ugi):
        """Files are in HDFS: `hadoop fs -cat` gives the pipe command's input."""
        self._download_command = (f'hadoop fs -D fs.default.name={shlex.quote(fs_name)} '
                                  f'-D hadoop.job.ugi={shlex.quote(fs_ugi)} -cat')

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

    def desc(self):
        """Name, size of batches, variables and command, as protobuf text."""
        slots = [line for slot in self._slots for line in slot.text()]
        return '\n'.join([f'name: "{self._feed_name}"', f'batch_size: {self._batch_size}', 'multi_slot_desc {', *slots,
                          '}', f'pipe_command: "{self._pipe_command}"']) + '\n'

    def _refuse_ranks(self, name):
        raise NotImplementedError(f'{name}: page views of search logs (logkeys, ranks, merging by search id) are not '
                                  'built yet in Trireme: group the lines before they become a dataset')

    def set_rank_offset(self, rank_offset):
        self._refuse_ranks('set_rank_offset')

    def _format(self):
        if not self._slots:
            raise RuntimeError('the dataset has no variables: call set_use_var')
        if self._filelist is None:
            raise RuntimeError('the dataset has no files: call set_filelist')
        made = _C.MultiSlotFormat()
        made.has_id, made.has_content = self._has_id, self._has_content
        for slot in self._slots:
            made.add(slot.name, slot.dtype == 'float32', slot.is_dense, slot.shape[1:] if slot.is_dense else [])
        return made

    def _source(self):
        return self._format(), self._pipe_command, self._download_command, self._filelist


class QueueDataset(DatasetBase):
    """Samples in the order of the files; `thread` files are read at a time, a batch from each in turn."""

    def local_shuffle(self):
        raise NotImplementedError('QueueDataset does not hold its samples: use InMemoryDataset to shuffle')

    def global_shuffle(self, fleet=None):
        self.local_shuffle()

    def _batch_count(self):
        return None  # known when the last file is read

    def _batches(self, thread):
        queued = _C.QueuedBatches(*self._source(), self._batch_size, thread)
        while (feed := queued.next()) is not None:
            yield feed


class InMemoryDataset(DatasetBase):
    """Holds all samples between load_into_memory() and release_memory()."""

    _feed_name = 'MultiSlotInMemoryDataFeed'

    def __init__(self):
        super().__init__()
        self._held = None
        self._loading = None
        self._merge_size = None

    def set_parse_ins_id(self, parse_ins_id):
        """Lines begin with "1 id", which set_merge_by_lineid merges by."""
        self._has_id = bool(parse_ins_id)

    def set_parse_content(self, parse_content):
        """Lines have "1 content" in front of the variables, which is read over."""
        self._has_content = bool(parse_content)

    def set_merge_by_lineid(self, merge_size=2):
        """global_shuffle() makes one sample of the merge_size ones that have an id; others are dropped."""
        self._has_id, self._merge_size = True, int(merge_size)

    def set_queue_num(self, queue_num):
        """How many queues the threads that train take from: here they take turns at one."""
        if queue_num <= 0:
            raise ValueError(f'queue_num must be positive, got {queue_num}')

    def set_fleet_send_batch_size(self, fleet_send_batch_size=1024):
        """How many samples a shuffle among several workers sends at once, which a single worker does not."""
        if fleet_send_batch_size <= 0:
            raise ValueError(f'fleet_send_batch_size must be positive, got {fleet_send_batch_size}')

    def set_fleet_send_sleep_seconds(self, fleet_send_sleep_seconds=0):
        """How long a shuffle among several workers waits between sends, which a single worker does not."""
        if fleet_send_sleep_seconds < 0:
            raise ValueError(f'fleet_send_sleep_seconds must not be negative, got {fleet_send_sleep_seconds}')

    def set_parse_logkey(self, parse_logkey):
        if parse_logkey:
            self._refuse_ranks('set_parse_logkey')

    def set_merge_by_sid(self, merge_by_sid):
        if merge_by_sid:
            self._refuse_ranks('set_merge_by_sid')

    def set_enable_pv_merge(self, enable_pv_merge):
        if enable_pv_merge:
            self._refuse_ranks('set_enable_pv_merge')

    def load_into_memory(self):
        self.preload_into_memory()
        self.wait_preload_done()

    def preload_into_memory(self, thread_num=None):
        """Begins to read; wait_preload_done() waits for the end."""
        import concurrent.futures
        source = self._source()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        self._loading = pool.submit(_C.HeldSamples, *source, max(1, thread_num or self._thread_num))
        pool.shutdown(wait=False)

    def wait_preload_done(self):
        if self._loading is None:
            raise RuntimeError('nothing is being loaded: call preload_into_memory first')
        self._held = self._loading.result()
        self._loading = None

    def local_shuffle(self):
        """In an order that Python's random numbers decide."""
        self._samples_held().shuffle(random.getrandbits(64))

    def global_shuffle(self, fleet=None, thread_num=12):
        """Among all workers; of one worker it is local_shuffle()."""
        if fleet is not None and fleet.worker_num() > 1:
            raise NotImplementedError('global_shuffle among several workers is not built yet: give each '
                                      'worker its files and call local_shuffle')
        if self._merge_size is not None:
            dropped = self._samples_held().merge_by_id(self._merge_size)
            if dropped:
                _C.warn(f'{dropped} samples are dropped: their ids do not stand {self._merge_size} times')
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

    def _batch_count(self):
        return -(-self.get_memory_data_size() // self._batch_size)

    def _batches(self, thread):
        held = self._samples_held()
        for begin in range(0, len(held), self._batch_size):
            yield held.batch(begin, self._batch_size)
