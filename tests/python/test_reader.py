"""Loaders that the program reads from: py_reader, DataLoader and PyReader with iterable=False."""
import threading

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers


def samples(count):
    def reader():
        for i in range(count):
            yield np.full(2, i, 'float32'), i
    return reader


def run_pass(exe, program, fetch):
    seen = []
    while True:
        try:
            seen.append(exe.run(program, fetch_list=[fetch])[0].tolist())
        except fluid.core.EOFException:
            return seen


@pytest.mark.parametrize('make', [fluid.io.DataLoader.from_generator, fluid.io.PyReader])
def test_a_loader_that_is_not_iterable_feeds_the_program(exe, fresh, make):
    x, y = fluid.data('x', [None, 2]), fluid.data('y', [None, 1], 'int64')
    loader = make(feed_list=[x, y], capacity=2, iterable=False)
    out = layers.reduce_sum(x, dim=1)
    setter = getattr(loader, 'set_sample_list_generator', None) or loader.decorate_sample_list_generator
    setter(paddle.batch(samples(5), 2))
    exe.run(fresh[1])
    for _ in range(2):
        loader.start()
        assert run_pass(exe, fresh[0], out) == [[0, 2], [4, 6], [8]]
        loader.reset()


def test_py_reader_and_read_file(exe, fresh):
    reader = layers.py_reader(4, [[-1, 2], [-1, 1]], ['float32', 'int64'])
    x, y = layers.read_file(layers.double_buffer(reader))
    assert x.shape == (-1, 2) and [op.type for op in fresh[0].global_block().ops] == ['read']
    assert 'create_py_reader' in [op.type for op in fresh[1].global_block().ops]
    out = layers.reduce_sum(layers.cast(y, 'float32') + x)
    reader.decorate_paddle_reader(paddle.batch(samples(4), 2))
    exe.run(fresh[1])
    reader.start()
    assert run_pass(exe, fresh[0], out) == [[4], [20]]
    with pytest.raises(fluid.core.EOFException):  # until reset
        exe.run(fresh[0], fetch_list=[out])
    reader.reset()
    reader.decorate_tensor_provider(lambda: iter([(np.ones((1, 2), 'float32'), np.ones((1, 1), 'int64'))]))
    reader.start()
    assert run_pass(exe, fresh[0], out) == [[4]]


def test_the_end_of_the_data_changes_nothing(exe, fresh):
    x = fluid.data('x', [None, 2])
    loader = fluid.io.DataLoader.from_generator([x], capacity=1, iterable=False)
    loss = layers.mean(layers.fc(x, 1, param_attr='w', bias_attr=False))
    fluid.optimizer.SGD(0.1).minimize(loss)
    loader.set_batch_generator(lambda: iter([[np.ones((1, 2), 'float32')]]))
    exe.run(fresh[1])
    loader.start()
    exe.run(fresh[0])
    before = np.array(fluid.global_scope().find_var('w').get_tensor())
    with pytest.raises(fluid.core.EOFException):
        exe.run(fresh[0])
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var('w').get_tensor()), before)


def test_a_clone_for_test_reads_from_the_same_loader_and_may_be_fed(exe, fresh):
    x = fluid.data('x', [None, 2])
    loader = fluid.io.DataLoader.from_generator([x], capacity=1, iterable=False)
    out = layers.reduce_sum(x)
    test = fresh[0].clone(for_test=True)
    loader.set_batch_generator(lambda: iter([[np.ones((1, 2), 'float32')]]))
    loader.start()
    assert run_pass(exe, test, out) == [[2]]
    loader.reset()
    assert exe.run(test, feed={'x': np.full((1, 2), 3, 'float32')}, fetch_list=[out])[0].tolist() == [6]


def test_several_devices_take_a_batch_each(exe, fresh):
    x = fluid.data('x', [None, 2])
    loader = fluid.io.DataLoader.from_generator([x], capacity=4, iterable=False)
    loss = layers.mean(layers.fc(x, 1))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe.run(fresh[1])
    loader.set_batch_generator(lambda: iter([[np.full((2, 2), i, 'float32')] for i in range(5)]))
    compiled = fluid.CompiledProgram(fresh[0]).with_data_parallel(loss.name, places=[fluid.CPUPlace()] * 2)
    loader.start()
    assert [len(losses) for losses in run_pass(exe, compiled, loss)] == [2, 2]


def test_what_the_generator_raises_comes_out_of_run(exe, fresh):
    problem = ValueError('bad sample')

    def generator():
        yield [np.ones((1, 2), 'float32')]
        raise problem

    x = fluid.data('x', [None, 2])
    loader = fluid.io.DataLoader.from_generator([x], capacity=1, iterable=False)
    out = layers.reduce_sum(x)
    loader.set_batch_generator(generator)
    loader.start()
    exe.run(fetch_list=[out])
    with pytest.raises(ValueError) as raised:
        exe.run(fetch_list=[out])
    assert raised.value is problem


def test_the_queue_is_bounded_and_reset_ends_its_thread(exe, fresh):
    made = []

    def endless():
        while True:
            made.append(1)
            yield [np.ones((1, 2), 'float32')]

    x = fluid.data('x', [None, 2])
    loader = fluid.io.DataLoader.from_generator([x], capacity=3, iterable=False)
    out = layers.reduce_sum(x)
    loader.set_batch_generator(endless)
    before = threading.active_count()
    loader.start()
    with pytest.raises(RuntimeError, match='started already'):
        loader.start()
    for _ in range(4):
        exe.run(fetch_list=[out])
    assert len(made) <= 4 + 3 + 1
    loader.reset()
    assert threading.active_count() == before


def test_misuse_is_explained(exe, fresh):
    x = fluid.data('x', [None, 2])
    with pytest.raises(ValueError, match='feed_list'):
        fluid.io.DataLoader.from_generator(capacity=1, iterable=False)
    loader = fluid.io.DataLoader.from_generator([x], capacity=1, iterable=False)
    out = layers.reduce_sum(x)
    with pytest.raises(RuntimeError, match='was not started'):
        exe.run(fetch_list=[out])
    with pytest.raises(RuntimeError, match='iterable=False'):
        iter(loader).__next__()
    iterable = fluid.io.DataLoader.from_generator([x], capacity=1)
    with pytest.raises(RuntimeError, match='iterable=False'):
        iterable.start()
