"""Loops, branches and arrays on several devices: each device goes its own way through them."""
import numpy as np
import pytest

import paddle.fluid as fluid
import parallel_toy
from parallel_toy import value

layers = fluid.layers


def started(places, loss=None):
    return parallel_toy.started(), parallel_toy.on_places(places, loss=loss)


def test_arrays_are_joined_element_by_element():
    x = layers.data(name='x', shape=[2], dtype='float32')
    array = layers.array_write(x, layers.fill_constant([1], 'int64', 0))
    layers.array_write(x * 2.0, layers.fill_constant([1], 'int64', 1), array)
    exe, program = started(2)
    data = np.random.RandomState(0).rand(5, 2).astype('float32')
    found, = exe.run(program, feed={'x': data}, fetch_list=[array])
    assert len(found) == 2
    np.testing.assert_array_equal(found[0], data)
    np.testing.assert_array_equal(found[1], 2 * data)


def test_a_loop_turns_as_often_as_each_device_needs():
    x = layers.data(name='x', shape=[1], dtype='float32')
    total = layers.reduce_sum(x)
    i = layers.fill_constant([1], 'float32', 0)
    again = layers.less_than(i, total)
    loop = layers.While(again)
    with loop.block():
        layers.increment(i, 1.0)
        layers.less_than(i, total, cond=again)
    exe, program = started(2)
    found, = exe.run(program, feed={'x': np.array([[3], [7]], 'float32')}, fetch_list=[i])
    np.testing.assert_array_equal(found, [3, 7])


def test_each_device_takes_its_own_branch():
    x = layers.data(name='x', shape=[1], dtype='float32')
    positive = layers.greater_than(layers.reduce_sum(x), layers.fill_constant([1], 'float32', 0))
    out = layers.cond(positive, lambda: x * 2.0, lambda: x * -1.0)
    exe, program = started(2)
    found, = exe.run(program, feed={'x': np.array([[3], [-7]], 'float32')}, fetch_list=[out])
    np.testing.assert_array_equal(found, [[6], [7]])


def dynamic_rnn(places, per_word, error_clip=None):
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
            fluid.scope_guard(fluid.Scope()):
        fluid.default_startup_program().random_seed = 2
        words = layers.data(name='words', shape=[4], lod_level=1, dtype='float32')
        rnn = layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(words)
            before = rnn.memory(shape=[4], value=0.0)
            hidden = layers.fc([word, before], 4, act='tanh')
            rnn.update_memory(before, hidden)
            rnn.output(hidden)
        hidden = rnn() if per_word else layers.sequence_pool(rnn(), 'last')
        if error_clip:
            hidden.error_clip = fluid.clip.ErrorClipByValue(error_clip)
        loss = layers.mean(hidden)
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe, program = started(places, loss)
        for step in range(3):
            random = np.random.RandomState(step)
            lengths = random.randint(1, 5, 5 + step)
            data = random.rand(lengths.sum(), 4).astype('float32')
            tensor = fluid.create_lod_tensor(data, [lengths.tolist()], fluid.CPUPlace())
            exe.run(program, feed={'words': tensor}, fetch_list=[])
        return {var.name: value(var.name) for var in fluid.default_main_program().all_parameters()}


@pytest.mark.parametrize('per_word', [False, True])
def test_a_dynamic_rnn_trains_on_places_as_on_one(per_word):
    """How much the loss averages over is known only when the loop has ended."""
    expected = dynamic_rnn(1, per_word)
    for places in (2, 3):
        for name, found in dynamic_rnn(places, per_word).items():
            np.testing.assert_allclose(found, expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize('per_word', [False, True])
def test_a_clip_on_the_way_of_gradients_behind_a_loop_clips_as_on_one_device(per_word):
    """Weights are right before the gradients start, so what is clipped has its final size."""
    expected = dynamic_rnn(1, per_word, error_clip=0.01)
    unclipped = dynamic_rnn(1, per_word)
    assert any(np.abs(expected[name] - unclipped[name]).max() > 1e-4 for name in expected)
    for name, found in dynamic_rnn(2, per_word, error_clip=0.01).items():
        np.testing.assert_allclose(found, expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize('places', [2, 3])
def test_a_clip_on_the_way_of_gradients_clips_as_on_one_device(places):
    def trained(count, clip=0.02):
        with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
                fluid.scope_guard(fluid.Scope()):
            fluid.default_startup_program().random_seed = 2
            x = layers.data(name='x', shape=[4], dtype='float32')
            hidden = layers.fc(x, 5, act='tanh')
            hidden.error_clip = fluid.clip.ErrorClipByValue(clip)
            loss = layers.mean(layers.square(layers.fc(hidden, 3)))
            fluid.optimizer.SGD(1.0).minimize(loss)
            exe, program = started(count, loss)
            program.fetch_one('fc_0.w_0@GRAD')
            for n in (7, 8):
                data = np.random.RandomState(n).rand(n, 4).astype('float32')
                gradient, = exe.run(program, feed={'x': data}, fetch_list=['fc_0.w_0@GRAD'])
            return value('fc_0.w_0'), gradient
    for found, expected in zip(trained(places), trained(1)):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not np.allclose(trained(1)[1], trained(1, clip=100.0)[1], atol=1e-4)  # it does clip
