"""paddle.io: datasets, samplers and the DataLoader, with and without processes."""
import os

import numpy as np
import pytest

import paddle
from paddle import fluid, io, static


class Squares(io.Dataset):
    """Rows [i, i * i], and i."""

    def __init__(self, count=10):
        self.count = count

    def __getitem__(self, index):
        return np.array([index, index * index], 'float32'), index

    def __len__(self):
        return self.count


class Stream(io.IterableDataset):
    """The numbers below 10; each process has its own share of them."""

    def __iter__(self):
        info = io.get_worker_info()
        low, high = (0, 10) if info is None else (info.id * 5, info.id * 5 + 5)
        for i in range(low, high):
            yield np.array([i], 'int64')


def firsts(loader):
    return [batch[1].tolist() for batch in loader]


@pytest.mark.parametrize('workers', [0, 1, 3])
def test_batches_come_in_order_whoever_reads(workers):
    loader = io.DataLoader(Squares(), batch_size=4, num_workers=workers)
    assert len(loader) == 3
    for _ in range(2):  # a pass can be repeated
        batches = list(loader)
        assert [list(batch[1]) for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert batches[1][0].dtype == np.float32 and batches[1][1].dtype == np.int64
        np.testing.assert_array_equal(batches[2][0], [[8, 64], [9, 81]])


def test_shuffling_takes_every_sample_once():
    drawn = [i for batch in firsts(io.DataLoader(Squares(50), batch_size=8, shuffle=True)) for i in batch]
    assert sorted(drawn) == list(range(50)) and drawn != list(range(50))


def test_drop_last():
    assert firsts(io.DataLoader(Squares(), batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize('drop_last', [False, True])
def test_streams(drop_last):
    def taken(workers):
        return [batch.ravel().tolist() for batch in io.DataLoader(Stream(), batch_size=2, num_workers=workers,
                                                                  drop_last=drop_last)]
    assert taken(0) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert taken(2) == [[0, 1], [5, 6], [2, 3], [7, 8]] + ([] if drop_last else [[4], [9]])
    with pytest.raises(ValueError, match='has no length'):
        len(io.DataLoader(Stream()))


def test_a_loader_feeds_a_program():
    x = static.data('x', [None, 2], 'float32')
    y = static.data('y', [None], 'int64')
    total = paddle.sum(x) + paddle.cast(paddle.sum(y), 'float32')
    exe, sums = static.Executor(), []
    for (feed,) in io.DataLoader(Squares(), feed_list=[x, y], batch_size=5, return_list=False):
        sums += [exe.run(feed=feed, fetch_list=[total])[0].item()]
    assert sums == [2 * 10 + 30, 2 * 35 + 255]


def test_a_loader_of_fluid_gives_what_feed_takes():
    x, y = static.data('x', [None, 2], 'float32'), static.data('y', [None], 'int64')
    loader = fluid.io.DataLoader(dataset=Squares(), feed_list=[x, y], batch_size=5)
    assert [sorted(feed) for feed, in loader] == [['x', 'y']] * 2
    assert [feed['y'].tolist() for feed, in loader][1] == [5, 6, 7, 8, 9]
    ordered = fluid.io.BatchSampler(Squares(), batch_size=5)
    lists = fluid.io.DataLoader(Squares(), batch_sampler=ordered, return_list=True)
    assert [batch[1].tolist() for batch in lists][0] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match='feed_list names the variables'):
        fluid.io.DataLoader(Squares())


def test_what_a_process_raises_comes_out():
    class Broken(Squares):
        def __getitem__(self, index):
            if index == 5:
                raise KeyError('sample 5 is torn')
            return super().__getitem__(index)
    with pytest.raises(RuntimeError, match='sample 5 is torn'):
        list(io.DataLoader(Broken(), batch_size=2, num_workers=2))
    with pytest.raises(KeyError, match='sample 5 is torn'):
        list(io.DataLoader(Broken(), batch_size=2))


def test_a_process_that_dies_is_told():
    class Deadly(Squares):
        def __getitem__(self, index):
            os._exit(3)
    with pytest.raises(RuntimeError, match='has ended'):
        list(io.DataLoader(Deadly(), batch_size=2, num_workers=1))


def test_processes_know_who_they_are():
    class Who(Squares):
        def __getitem__(self, index):
            return np.array([io.get_worker_info().id, io.get_worker_info().num_workers, os.environ['WHO'] == 'set'])

    def init(worker):
        os.environ['WHO'] = 'set'
    rows = np.concatenate(list(io.DataLoader(Who(4), num_workers=2, worker_init_fn=init)))
    assert rows.tolist() == [[0, 2, 1], [1, 2, 1], [0, 2, 1], [1, 2, 1]]
    assert io.get_worker_info() is None and 'WHO' not in os.environ


def test_collating_keeps_the_form():
    batch = io.loader.default_collate_fn([{'a': (1.0, [2]), 'b': 'x'}, {'a': (3.0, [4]), 'b': 'y'}])
    assert batch['b'] == ['x', 'y'] and batch['a'][0].tolist() == [1.0, 3.0] and batch['a'][1][0].tolist() == [2, 4]
    assert batch['a'][0].dtype == np.float32
    with pytest.raises(TypeError, match='collate_fn'):
        io.loader.default_collate_fn([object()])


def test_datasets_made_of_datasets():
    one, two = Squares(3), Squares(4)
    joined = io.ConcatDataset([one, two])
    assert len(joined) == 7 and joined[4][1] == 1 and joined[-1][1] == 3
    assert [int(row[0]) for row in io.ChainDataset([Stream(), Stream()])] == list(range(10)) * 2
    assert len(io.ComposeDataset([one, one])[1]) == 4
    assert io.Subset(two, [3, 1])[0][1] == 3
    rows = io.TensorDataset([np.arange(6).reshape(3, 2), np.arange(3)])
    assert len(rows) == 3 and rows[1][0].tolist() == [2, 3]
    parts = io.random_split(Squares(10), [0.7, 0.3])
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(part[i][1] for part in parts for i in range(len(part))) == list(range(10))


def test_samplers():
    assert list(io.WeightedRandomSampler([0, 1, 0], 4)) == [1] * 4
    assert sorted(io.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    assert sorted(io.RandomSampler(range(5))) == list(range(5))
    assert len(list(io.RandomSampler(range(5), replacement=True, num_samples=9))) == 9
    shares = [sorted(i for batch in io.DistributedBatchSampler(range(8), 2, 2, rank, shuffle=True) for i in batch)
              for rank in (0, 1)]
    assert sorted(shares[0] + shares[1]) == list(range(8))


@pytest.mark.parametrize('wrong, message', [
    (lambda: io.DataLoader(Squares(), return_list=False), 'feed_list'),
    (lambda: io.DataLoader(Stream(), shuffle=True), 'order of its own'),
    (lambda: io.DataLoader(Squares(), batch_sampler=io.BatchSampler(Squares()), shuffle=True), 'batch_sampler says'),
    (lambda: io.BatchSampler(Squares(), batch_size=0), 'batch_size must be'),
    (lambda: io.BatchSampler(), 'dataset or sampler'),
    (lambda: io.TensorDataset([np.ones(2), np.ones(3)]), 'equally many rows'),
    (lambda: io.random_split(Squares(10), [3, 3]), 'add up to 6'),
    (lambda: io.RandomSampler(range(3), num_samples=5), 'without replacement'),
    (lambda: io.DataLoader(Squares(), num_workers=-1), 'num_workers'),
])
def test_wrong_uses_say_what_is_wrong(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        wrong()
