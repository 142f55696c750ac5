"""paddle.reader: ways to combine readers, also when they fail or are left early."""
import os
import random
import threading
import time

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.reader import (ComposeNotAligned, buffered, cache, chain, compose, firstn, map_readers,
                           multiprocess_reader, shuffle, xmap_readers)


def numbers(count):
    return lambda: iter(range(count))


def broken():
    yield 1
    raise OSError('disk')


def wait_for_threads(count):
    """Threads that were left notice it within a moment."""
    for _ in range(100):
        if threading.active_count() <= count:
            return True
        time.sleep(0.05)
    return False


def test_batches():
    assert list(paddle.batch(numbers(7), 3)()) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(fluid.io.batch(numbers(7), 3, drop_last=True)()) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match='batch_size must be positive, got 0'):
        paddle.batch(numbers(7), 0)


def test_shuffle_keeps_samples_within_their_buffer():
    random.seed(3)
    out = list(shuffle(numbers(10), 5)())
    assert sorted(out[:5]) == list(range(5)) and sorted(out[5:]) == list(range(5, 10))
    assert out != list(range(10))


def test_cache_reads_once():
    reads = []

    def reader():
        reads.append(1)
        yield from range(3)
    held = cache(reader)
    assert list(held()) == list(held()) == [0, 1, 2] and len(reads) == 1


def test_readers_one_after_the_other_and_side_by_side():
    assert list(chain(numbers(2), numbers(3))()) == [0, 1, 0, 1, 2]
    pairs = lambda: iter([('a', 'b'), ('c', 'd')])
    assert list(compose(numbers(2), pairs)()) == [(0, 'a', 'b'), (1, 'c', 'd')]
    assert list(compose(numbers(3), numbers(1), check_alignment=False)()) == [(0, 0)]
    with pytest.raises(ComposeNotAligned):
        list(compose(numbers(3), numbers(1))())
    with pytest.raises(TypeError, match='check'):
        compose(numbers(3), check=False)
    assert list(map_readers(lambda a, b: a * b, numbers(4), numbers(4))()) == [0, 1, 4, 9]
    assert list(firstn(numbers(9), 2)()) == [0, 1]


def test_buffered_reads_ahead_and_ends_its_thread_when_left():
    assert list(buffered(numbers(7), 2)()) == list(range(7))
    with pytest.raises(OSError, match='disk'):
        list(buffered(broken, 2)())
    before = threading.active_count()
    assert list(firstn(buffered(numbers(1000), 2), 3)()) == [0, 1, 2]
    assert wait_for_threads(before)


@pytest.mark.parametrize('order', [False, True])
def test_xmap_readers(order):
    out = list(xmap_readers(lambda v: v * v, numbers(50), 4, 8, order)())
    assert (out if order else sorted(out)) == [v * v for v in range(50)]
    assert list(xmap_readers(lambda v: v, numbers(0), 4, 8, order)()) == []


def test_errors_of_xmap_readers_reach_the_consumer():
    with pytest.raises(OSError, match='disk'):
        list(xmap_readers(lambda v: v, broken, 2, 4)())
    with pytest.raises(ZeroDivisionError):
        list(xmap_readers(lambda v: 1 // v, numbers(9), 2, 4)())
    before = threading.active_count()
    assert len(list(firstn(xmap_readers(lambda v: v, numbers(1000), 3, 4), 2)())) == 2
    assert wait_for_threads(before)


@pytest.mark.parametrize('use_pipe', [True, False])
def test_multiprocess_reader(use_pipe):
    def reader(start):
        return lambda: iter([(np.full(2, i, 'float32'), os.getpid()) for i in range(start, start + 3)])
    out = list(multiprocess_reader([reader(0), reader(10)], use_pipe)())
    assert sorted(int(array[0]) for array, _ in out) == [0, 1, 2, 10, 11, 12]
    assert len({pid for _, pid in out} - {os.getpid()}) == 2  # each in a process of its own
    with pytest.raises(OSError, match='disk'):
        list(multiprocess_reader([numbers(3), broken], use_pipe)())
    with pytest.raises(ValueError, match='None'):
        list(multiprocess_reader([lambda: iter([None])], use_pipe)())
    with pytest.raises(RuntimeError, match='before its reader did'):
        list(multiprocess_reader([lambda: iter([os._exit(3)])], use_pipe)())
    with pytest.raises(ValueError, match='at least one reader'):
        multiprocess_reader([], use_pipe)


def test_fluid_io_has_them_too():
    for name in paddle.reader.__all__:
        assert getattr(fluid.io, name) is getattr(paddle.reader, name)
    assert paddle.reader.decorator.shuffle is shuffle


def test_trainers_get_batches_in_turn(monkeypatch):
    reader = fluid.contrib.reader.distributed_batch_reader
    assert list(reader(numbers(5))()) == [0, 1, 2, 3, 4]
    monkeypatch.setenv('PADDLE_TRAINERS_NUM', '2')
    assert list(reader(numbers(5))()) == [0, 2]
    monkeypatch.setenv('PADDLE_TRAINER_ID', '1')
    assert list(reader(numbers(5))()) == [1, 3]
    monkeypatch.setenv('PADDLE_TRAINER_ID', '2')
    with pytest.raises(ValueError, match='PADDLE_TRAINER_ID is 2'):
        reader(numbers(5))
