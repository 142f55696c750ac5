"""What makes one reader of others: in another order, side by side, read ahead, in threads or processes."""
import itertools
import multiprocessing
import multiprocessing.connection
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
    """Marks the end of a stream, with the error that ended it."""

    def __init__(self, error=None):
        self.error = error


class Channel:
    """A bounded queue whose consumer may leave: then what would be put is dropped."""

    def __init__(self, size):
        self._waiting = queue.Queue(size)
        self._left = threading.Event()

    def put(self, item):
        """Whether anybody still wants it."""
        while not self._left.is_set():
            try:
                self._waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def get(self):
        """The next item; None once the consumer has left."""
        while not self._left.is_set():
            try:
                return self._waiting.get(timeout=0.1)
            except queue.Empty:
                pass
        return None

    def size(self):
        """How many items wait."""
        return self._waiting.qsize()

    def leave(self):
        self._left.set()

    def put_all(self, samples):
        """Everything samples() yields, and how it ended."""
        end = _End()
        try:
            for sample in samples():
                if not self.put(sample):
                    return
        except Exception as error:  # the consumer raises it
            end = _End(error)
        self.put(end)

    def drain(self, ends):
        """What is put, until so many ends have come; leaves when the iterator is closed."""
        try:
            while ends:
                item = self._waiting.get()
                if not isinstance(item, _End):
                    yield item
                    continue
                if item.error is not None:
                    raise item.error
                ends -= 1
        finally:
            self.leave()


def _in_thread(function, *args):
    threading.Thread(target=function, args=args, daemon=True).start()


def buffered(reader, size):
    """Reads up to size samples ahead in a thread."""
    def ahead():
        channel = Channel(size)
        _in_thread(channel.put_all, reader)
        yield from channel.drain(1)
    return ahead


def xmap_readers(mapper, reader, process_num, buffer_size, order=False):
    """mapper of every sample, in process_num threads; order keeps the reader's order."""
    def mapped():
        todo, done = Channel(buffer_size), Channel(buffer_size)

        def work():
            # Every worker meets the one end and leaves it for the next.
            while (item := todo.get()) is not None:
                if isinstance(item, _End):
                    todo.put(item)
                    done.put(item)
                    return
                try:
                    result = item[0], mapper(item[1])
                except Exception as error:
                    done.put(_End(error))
                    return
                done.put(result)

        _in_thread(todo.put_all, lambda: enumerate(reader()))
        for _ in range(process_num):
            _in_thread(work)
        try:
            early, wanted = {}, 0
            for index, value in done.drain(process_num):
                if not order:
                    yield value
                    continue
                early[index] = value
                while wanted in early:
                    yield early.pop(wanted)
                    wanted += 1
        finally:
            todo.leave()
    return mapped


def _send_samples(reader, send):
    """The life of a process of multiprocess_reader."""
    try:
        for sample in reader():
            if sample is None:
                raise ValueError('a sample of multiprocess_reader is None')
            send(sample)
        end = _End()
    except Exception as error:
        end = _End(error)
    try:
        send(end)
    except Exception:  # an error that does not travel; its text does
        send(_End(RuntimeError(f'{type(end.error).__name__}: {end.error}')))


class _Processes:
    """One process for each reader. They are ended with the iteration."""

    def __init__(self, readers, senders):
        context = multiprocessing.get_context('fork')  # readers are closures: they do not travel
        self._all = [context.Process(target=_send_samples, args=pair, daemon=True)
                     for pair in zip(readers, senders)]
        for process in self._all:
            process.start()

    def check_alive(self):
        for process in self._all:
            if process.exitcode:
                raise RuntimeError(f'a process of multiprocess_reader ended with {process.exitcode} '
                                   'before its reader did')

    def end(self):
        for process in self._all:
            process.terminate()
            process.join()


def _through_queue(readers, queue_size):
    waiting = multiprocessing.get_context('fork').Queue(queue_size)
    processes = _Processes(readers, [waiting.put] * len(readers))
    ends = 0
    try:
        while ends < len(readers):
            try:
                item = waiting.get(timeout=1)
            except queue.Empty:
                processes.check_alive()
                continue
            if not isinstance(item, _End):
                yield item
                continue
            if item.error is not None:
                raise item.error
            ends += 1
    finally:
        processes.end()


def _through_pipes(readers):
    pipes = [multiprocessing.Pipe(duplex=False) for _ in readers]
    processes = _Processes(readers, [sender.send for _, sender in pipes])
    for _, sender in pipes:
        sender.close()
    waiting = [receiver for receiver, _ in pipes]
    try:
        while waiting:
            for receiver in multiprocessing.connection.wait(waiting, timeout=1):
                try:
                    item = receiver.recv()
                except EOFError:
                    raise RuntimeError('a process of multiprocess_reader ended before its reader did') from None
                if not isinstance(item, _End):
                    yield item
                    continue
                if item.error is not None:
                    raise item.error
                waiting.remove(receiver)
            processes.check_alive()
    finally:
        processes.end()
        for receiver, _ in pipes:
            receiver.close()


def multiprocess_reader(readers, use_pipe=True, queue_size=1000):
    """Samples of several readers as they come; each reader runs in a process of its own.

    Samples travel through a pipe per process, or through one queue of queue_size.
    """
    readers = list(readers)
    if not readers:
        raise ValueError('multiprocess_reader needs at least one reader')

    def merged():
        yield from _through_pipes(readers) if use_pipe else _through_queue(readers, queue_size)
    return merged
