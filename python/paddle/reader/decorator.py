"""Readers: functions that return iterators over samples, and ways to combine them."""
import itertools
import queue
import random
import threading

__all__ = ['cache', 'map_readers', 'buffered', 'compose', 'chain', 'shuffle',
           'ComposeNotAligned', 'firstn', 'xmap_readers', 'multiprocess_reader']


class ComposeNotAligned(ValueError):
    """Readers that were composed have different lengths."""


def cache(reader):
    """Keeps all samples in memory."""
    held = tuple(reader())

    def cached():
        yield from held
    return cached


def map_readers(func, *readers):
    """func of one sample of each."""
    def mapped():
        yield from map(func, *[reader() for reader in readers])
    return mapped


def shuffle(reader, buf_size):
    """Samples in random order within buffers of buf_size."""
    def shuffled():
        samples = iter(reader())
        while True:
            held = list(itertools.islice(samples, buf_size))
            if not held:
                return
            random.shuffle(held)
            yield from held
    return shuffled


def chain(*readers):
    """One reader after the other."""
    def chained():
        yield from itertools.chain(*[reader() for reader in readers])
    return chained


def compose(*readers, check_alignment=True, **kwargs):
    """Samples of all readers side by side, as one tuple."""
    if kwargs:
        raise TypeError(f'compose takes no argument {next(iter(kwargs))!r}')

    def as_tuple(sample):
        return sample if isinstance(sample, tuple) else (sample,)

    def composed():
        missing = object()
        for samples in itertools.zip_longest(*[reader() for reader in readers], fillvalue=missing):
            if any(sample is missing for sample in samples):
                if check_alignment:
                    raise ComposeNotAligned('the readers that are composed have different lengths')
                return
            yield sum(map(as_tuple, samples), ())
    return composed


def firstn(reader, n):
    """The first n samples."""
    def first():
        yield from itertools.islice(reader(), n)
    return first


class _End:
    """Marks the end of a queue, with the error that ended it."""

    def __init__(self, error=None):
        self.error = error


def _drain(waiting, ends):
    while ends:
        item = waiting.get()
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            ends -= 1
        else:
            yield item


def buffered(reader, size):
    """Reads up to size samples ahead in a thread."""
    def ahead():
        waiting = queue.Queue(maxsize=size)

        def fill():
            try:
                for sample in reader():
                    waiting.put(sample)
                waiting.put(_End())
            except Exception as error:  # the consumer raises it
                waiting.put(_End(error))
        threading.Thread(target=fill, daemon=True).start()
        yield from _drain(waiting, 1)
    return ahead


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """mapper of every sample, in process_num threads; order keeps the reader's order."""
    def mapped():
        todo, done = queue.Queue(buffer_size), queue.Queue(buffer_size)

        def fill():
            try:
                for item in enumerate(reader()):
                    todo.put(item)
                error = None
            except Exception as problem:
                error = problem
            for _ in range(process_num):
                todo.put(_End(error))

        def work():
            while True:
                item = todo.get()
                if isinstance(item, _End):
                    done.put(item)
                    return
                try:
                    done.put((item[0], mapper(item[1])))
                except Exception as error:
                    done.put(_End(error))
                    return
        for target in [fill] + [work] * process_num:
            threading.Thread(target=target, daemon=True).start()
        results = _drain(done, process_num)
        if not order:
            yield from (value for _, value in results)
            return
        early, wanted = {}, 0
        for index, value in results:
            early[index] = value
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1
    return mapped


def multiprocess_reader(readers, use_pipe=True, queue_size=1000):
    """Samples of several readers as they come; each reader runs in a thread of its own."""
    def merged():
        waiting = queue.Queue(queue_size)

        def fill(reader):
            try:
                for sample in reader():
                    waiting.put(sample)
                waiting.put(_End())
            except Exception as error:
                waiting.put(_End(error))
        for reader in readers:
            threading.Thread(target=fill, args=(reader,), daemon=True).start()
        yield from _drain(waiting, len(readers))
    return merged
