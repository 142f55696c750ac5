"""StaticRNN, DynamicRNN and tensor arrays: values, training, wrong uses, saved models."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid.layers import control_flow

layers = fluid.layers
rng = np.random.RandomState(0)


def value_of(exe, *outs, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(outs), return_numpy=False)


def trains(exe, loss, feed, steps=20):
    fluid.optimizer.Adam(0.1).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert losses[-1] < 0.8 * losses[0], losses


def sequences(rows, lengths):
    return fluid.create_lod_tensor(np.asarray(rows, 'float32'), [lengths], fluid.CPUPlace())


def number(value):
    return layers.fill_constant([1], 'int64', value)


# ---- StaticRNN

def running_sum(x):
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        total = rnn.memory(shape=[-1, 3], batch_ref=word)
        new = total + word
        rnn.update_memory(total, new)
        rnn.step_output(new)
        rnn.output(new * 2.0)
    return rnn()


def test_static_rnn_walks_along_the_first_dimension(exe):
    x = fluid.data('x', [4, 2, 3])
    total, twice = running_sum(x)
    assert total.shape == (4, 2, 3)
    given = rng.rand(4, 2, 3).astype('float32')
    got = [np.array(v) for v in value_of(exe, total, twice, x=given)]
    np.testing.assert_allclose(got[0], np.cumsum(given, 0), rtol=1e-6)
    np.testing.assert_allclose(got[1], 2 * np.cumsum(given, 0), rtol=1e-6)


def static_net(x, init):
    rnn = layers.StaticRNN(name='chain')
    with rnn.step():
        word = rnn.step_input(x)
        before = rnn.memory(init=init)
        hidden = layers.fc([word, before], 5, act='tanh')
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return rnn()


def test_a_net_trains_through_static_rnn(exe):
    x = fluid.data('x', [3, 4, 2])
    start = layers.fc(fluid.data('start', [4, 2]), 5)
    out = static_net(x, start)
    assert not isinstance(out, list)
    loss = layers.mean(layers.square(out - 0.5))
    trains(exe, loss, {'x': rng.rand(3, 4, 2).astype('float32'),
                       'start': rng.rand(4, 2).astype('float32')})


def test_static_rnn_wrong_uses():
    x = fluid.data('x', [4, 2, 3])
    rnn = layers.StaticRNN()
    with pytest.raises(ValueError, match='outside of the step block'):
        rnn.step_input(x)
    with pytest.raises(ValueError, match='before its end'):
        rnn()
    with pytest.raises(ValueError, match='needs init, or shape and batch_ref'):
        with rnn.step():
            rnn.memory(shape=[-1, 2])
    late = layers.StaticRNN()
    with pytest.raises(ValueError, match='is a variable of the step; memory is made before'):
        with late.step():
            late.memory(init=layers.fill_constant([2, 3], 'float32', 0.0))
    never = layers.StaticRNN()
    with pytest.raises(ValueError, match='never updated'):
        with never.step():
            word = never.step_input(x)
            never.memory(shape=[-1, 3], batch_ref=word)
    lengths = layers.StaticRNN()
    with pytest.raises(ValueError, match='5 steps but an earlier input has 4'):
        with lengths.step():
            lengths.step_input(x)
            lengths.step_input(fluid.data('y', [5, 2, 3]))


@pytest.mark.parametrize('branches', [False, True])
def test_static_rnns_nest_and_train_as_if_written_out(exe, branches):
    """A loop in a loop, in some passes a branch: the same weights as without loops, step by step."""
    def linear(x):
        return layers.fc(x, 4, num_flatten_dims=1, act='tanh', bias_attr=False,
                         param_attr=fluid.ParamAttr('w', initializer=fluid.initializer.Constant(0.3)))

    def letter_step(letter, state, odd):
        if not branches:
            return linear(letter + state)
        if isinstance(odd, bool):
            return linear(letter + state) if odd else layers.scale(state, 0.5)
        return layers.cond(odd, lambda: linear(letter + state), lambda: layers.scale(state, 0.5))

    def looped(words, first):
        flags = layers.assign(np.array([[1], [0], [1]], 'float32'))
        outer = layers.StaticRNN()
        with outer.step():
            word, before = outer.step_input(words), outer.memory(init=first)
            inner = layers.StaticRNN()
            with inner.step():
                letter, state = inner.step_input(word), inner.memory(init=before)
                odd = layers.less_than(layers.fill_constant([1], 'float32', 0.5), inner.step_input(flags))
                new = letter_step(letter, state, odd)
                inner.update_memory(state, new)
                inner.step_output(new)
            after = layers.reduce_mean(inner(), dim=0)
            outer.update_memory(before, after)
            outer.step_output(after)
        return outer()

    def written_out(words, first):
        before, results = first, []
        for i in range(2):
            state, inner = before, []
            for j in range(3):
                letter = layers.slice(words, [0, 1], [i, j], [i + 1, j + 1])
                state = letter_step(layers.reshape(letter, [-1, 4]), state, odd=j != 1)
                inner.append(state)
            before = layers.reduce_mean(layers.stack(inner), dim=0)
            results.append(before)
        return layers.stack(results)

    weights = {}
    for build in (looped, written_out):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            words, first = fluid.data('words', [2, 3, None, 4]), fluid.data('first', [None, 4])
            loss = layers.mean(layers.square(build(words, first)))
            fluid.optimizer.SGD(0.5).minimize(loss)
            exe.run(startup)
            steps = weights[build] = []
            for rows in (5, 2, 5, 1, 2):
                draw = np.random.RandomState(rows)
                feed = {'words': draw.uniform(-1, 1, (2, 3, rows, 4)).astype('float32'),
                        'first': draw.uniform(-1, 1, (rows, 4)).astype('float32')}
                exe.run(main, feed=feed)
                steps.append(np.array(fluid.global_scope().find_var('w').get_tensor()))
    assert abs(weights[looped][0] - weights[looped][-1]).max() > 1e-3
    np.testing.assert_allclose(weights[looped], weights[written_out], rtol=2e-5, atol=2e-6)


# ---- DynamicRNN

def dynamic_net(sentence, size=4):
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        before = rnn.memory(shape=[size], value=0.0)
        hidden = layers.fc([word, before], size, act='tanh')
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return rnn()


def test_dynamic_rnn_sums_each_sequence(exe):
    x = fluid.data('x', [None, 1], lod_level=1)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        total = rnn.memory(shape=[1], value=10.0)
        new = total + word
        rnn.update_memory(ex_mem=total, new_mem=new)
        rnn.output(new, word)
    totals, words = rnn()
    got = value_of(exe, totals, words, x=sequences([[1], [2], [3], [4], [5], [6]], [1, 3, 2]))
    assert np.array(got[0]).ravel().tolist() == [11, 12, 15, 19, 15, 21]
    assert np.array(got[1]).ravel().tolist() == [1, 2, 3, 4, 5, 6]
    assert got[0].recursive_sequence_lengths() == [[1, 3, 2]]


def test_dynamic_rnn_reads_static_inputs_and_memories_in_batch_order(exe):
    x = fluid.data('x', [None, 1], lod_level=1)
    per_sequence = fluid.data('context', [None, 2])
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        context = rnn.static_input(per_sequence)
        start = rnn.memory(init=per_sequence, need_reorder=True)
        rnn.update_memory(start, start + context)
        rnn.output(layers.elementwise_mul(start, word, axis=0))
    got, = value_of(exe, rnn(), x=sequences([[1], [1], [1], [1]], [1, 3]),
                    context=np.float32([[1, 2], [3, 4]]))
    assert np.array(got).tolist() == [[1, 2], [3, 4], [6, 8], [9, 12]]


def test_a_net_trains_through_dynamic_rnn(exe):
    words = fluid.data('words', [None, 1], dtype='int64', lod_level=1)
    sentence = layers.fc(layers.embedding(words, [10, 4]), 4)
    last = layers.sequence_last_step(dynamic_net(sentence))
    label = fluid.data('label', [None, 1], dtype='int64')
    loss = layers.mean(layers.cross_entropy(layers.fc(last, 2, act='softmax'), label))
    ids = fluid.create_lod_tensor(np.array([[1], [2], [3], [4], [5], [1]], 'int64'), [[2, 3, 1]],
                                  fluid.CPUPlace())
    trains(exe, loss, {'words': ids, 'label': np.array([[0], [1], [0]])})


def test_dynamic_rnns_nest_in_two_levels(exe):
    x = fluid.data('x', [None, 1], lod_level=2)
    outer = layers.DynamicRNN()
    with outer.block():
        sentence = outer.step_input(x)
        inner = layers.DynamicRNN()
        with inner.block():
            word = inner.step_input(sentence)
            total = inner.memory(shape=[1])
            new = total + word
            inner.update_memory(total, new)
            inner.output(new)
        outer.output(layers.sequence_last_step(inner()))
    feed = fluid.create_lod_tensor(np.arange(1, 7, dtype='float32').reshape(-1, 1), [[2, 1], [1, 2, 3]],
                                   fluid.CPUPlace())
    got, = value_of(exe, outer(), x=feed)
    assert np.array(got).ravel().tolist() == [1, 5, 15]


def test_dynamic_rnn_wrong_uses():
    x = fluid.data('x', [None, 1], lod_level=1)
    rnn = layers.DynamicRNN()
    with pytest.raises(ValueError, match='outside of the block'):
        rnn.step_input(x)
    with pytest.raises(ValueError, match='neither init nor shape'):
        with rnn.block():
            rnn.memory()
    early = layers.DynamicRNN()
    with pytest.raises(RuntimeError, match='static_input is called before step_input'):
        with early.block():
            early.static_input(x)
    with pytest.raises(ValueError, match='no step input'):
        with layers.DynamicRNN().block():
            pass
    no_memory = layers.DynamicRNN()
    with pytest.raises(ValueError, match='is no memory of this DynamicRNN'):
        with no_memory.block():
            word = no_memory.step_input(x)
            no_memory.update_memory(word, word)


# ---- arrays

def test_arrays_hold_what_was_written(exe):
    x = fluid.data('x', [2])
    array = layers.create_array('float32')
    zero, one = number(0), number(1)
    assert layers.array_write(x, zero, array) is array
    layers.array_write(x * 3.0, one, array=array)
    second = layers.array_read(array, one)
    length = layers.array_length(array)
    joined, index = layers.tensor_array_to_tensor(array, axis=0)
    stacked, _ = layers.tensor_array_to_tensor(array, axis=0, use_stack=True)
    got = [np.array(v) for v in value_of(exe, second, length, joined, index, stacked,
                                         x=np.float32([1, 2]))]
    assert got[0].tolist() == [3, 6] and got[1].item() == 2
    assert got[2].tolist() == [1, 2, 3, 6] and got[3].tolist() == [2, 2]
    assert got[4].tolist() == [[1, 2], [3, 6]]


def test_gradients_flow_through_arrays_in_a_loop(exe):
    x = fluid.data('x', [3], dtype='float64')
    x.stop_gradient = False
    i, n = number(0), number(3)
    memory = layers.array_write(x, i)
    more = layers.less_than(i, n)
    with layers.While(more).block():
        before = layers.array_read(memory, i)
        layers.increment(i)
        layers.array_write(before * x, i, array=memory)
        layers.less_than(i, n, cond=more)
    loss = layers.reduce_sum(layers.array_read(memory, i))
    grad, = fluid.gradients(loss, x)
    given = np.array([1.0, 2.0, -0.5])
    np.testing.assert_allclose(np.array(value_of(exe, grad, x=given)[0]), 4 * given ** 3)


def test_gradients_go_to_the_elements_that_a_counter_stood_at(exe):
    x = fluid.data('x', [3], dtype='float64')
    x.stop_gradient = False
    i = number(0)
    array = layers.array_write(x * 2.0, i)
    i = layers.increment(i)
    layers.array_write(x * 3.0, i, array=array)
    j = number(0)
    first = layers.array_read(array, j)
    j = layers.increment(j)
    loss = layers.reduce_sum(first * 5.0 + layers.array_read(array, j) * 7.0)
    grad, = fluid.gradients(loss, x)
    assert np.array(value_of(exe, grad, x=np.ones(3))[0]).tolist() == [31, 31, 31]


def test_sequences_cut_into_steps_and_put_together_again(exe):
    x = fluid.data('x', [None, 1], lod_level=1)
    table = control_flow.lod_rank_table(x, level=0)
    longest = control_flow.max_sequence_len(table)
    steps = control_flow.lod_tensor_to_array(x, table)
    first = layers.array_read(steps, number(0))
    shrunk = control_flow.shrink_memory(first, number(1), table)
    again = control_flow.array_to_lod_tensor(steps, table)
    sorted_x = layers.reorder_lod_tensor_by_rank(x, table)
    got = value_of(exe, longest, first, shrunk, again, sorted_x,
                   x=sequences([[1], [2], [3], [4]], [1, 3]))
    values = [np.array(v).ravel().tolist() for v in got]
    assert values == [[3], [2, 1], [2], [1, 2, 3, 4], [2, 3, 4, 1]]
    assert got[3].recursive_sequence_lengths() == [[1, 3]]


def test_rows_split_by_a_mask_and_merge_again(exe):
    x = fluid.data('x', [None, 1])
    mask = x > 2.0
    large, small = control_flow.split_lod_tensor(x, mask)
    merged = control_flow.merge_lod_tensor(large * 10.0, small, x, mask)
    got = value_of(exe, large, small, merged, x=np.float32([[1], [5], [2], [3]]))
    assert [np.array(v).ravel().tolist() for v in got] == [[5, 3], [1, 2], [1, 50, 2, 30]]


def test_array_wrong_uses(exe):
    x = fluid.data('x', [2])
    with pytest.raises(TypeError, match='not a tensor array'):
        layers.array_read(x, number(0))
    with pytest.raises(TypeError, match='i'):
        layers.array_write(x, x)
    with pytest.raises(ValueError, match='one integer'):
        layers.array_write(x, layers.zeros([2], 'int64'))
    array = layers.array_write(x, number(0))
    out = layers.array_read(array, number(4))
    with pytest.raises(Exception, match='4'):
        value_of(exe, out, x=np.float32([1, 2]))


# ---- programs with steps are saved and loaded

@pytest.mark.parametrize('kind', ['static', 'dynamic'])
def test_step_networks_survive_clone_and_inference_models(exe, tmp_path, fresh, kind):
    if kind == 'static':
        x = fluid.data('x', [3, 4, 2])
        out = static_net(x, layers.fill_constant([4, 5], 'float32', 0.0))
        feed = {'x': rng.rand(3, 4, 2).astype('float32')}
    else:
        x = fluid.data('x', [None, 2], lod_level=1)
        out = dynamic_net(x)
        feed = {'x': sequences(rng.rand(6, 2), [1, 3, 2])}
    test = fresh[0].clone(for_test=True)
    fluid.optimizer.SGD(0.0).minimize(layers.mean(out))
    exe.run(fresh[1])
    expected = np.array(exe.run(feed=feed, fetch_list=[out], return_numpy=False)[0])
    got = np.array(exe.run(test, feed=feed, fetch_list=[out.name], return_numpy=False)[0])
    np.testing.assert_array_equal(got, expected)
    fluid.io.save_inference_model(str(tmp_path), ['x'], [out], exe)
    with fluid.scope_guard(fluid.Scope()):
        loaded, _, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        got = np.array(exe.run(loaded, feed=feed, fetch_list=fetches, return_numpy=False)[0])
        np.testing.assert_array_equal(got, expected)


def test_sub_blocks_lod_and_sparse_rows_together_survive(exe, tmp_path, fresh):
    """A recurrent net over words of sentences, its table updated by rows: bytes, clones, files."""
    words = fluid.data('words', [None, 1], 'int64', lod_level=2)
    table = layers.embedding(words, [9, 4], is_sparse=True, param_attr='table')
    sentences = layers.sequence_pool(table, 'sum')
    steps = layers.DynamicRNN()
    with steps.block():
        word = steps.step_input(sentences)
        state = steps.memory(shape=[4], value=0.0)
        new = layers.fc([word, state], 4, act='tanh')
        steps.update_memory(state, new)
        steps.output(new)
    out = layers.sequence_last_step(steps())
    loss = layers.mean(out)
    test = fresh[0].clone(for_test=True)
    fluid.optimizer.Adam(0.1, lazy_mode=True).minimize(loss)
    kinds = {v.type for v in fresh[0].list_vars()}
    assert {fluid.core.VarDesc.VarType.SELECTED_ROWS,
            fluid.core.VarDesc.VarType.LOD_RANK_TABLE} <= kinds
    exe.run(fresh[1])
    # Three texts; the second has an empty sentence.
    fed = fluid.create_lod_tensor(np.int64([[1], [2], [2], [3], [4], [5], [6]]),
                                  [[1, 2, 1], [2, 0, 3, 2]], fluid.CPUPlace())
    fluid.save(fresh[0], str(tmp_path / 'state'))
    losses = [exe.run(feed={'words': fed}, fetch_list=[loss])[0] for _ in range(3)]
    trained = np.array(fluid.global_scope().find_var('table').get_tensor())
    copies = [fluid.Program.parse_from_string(fresh[0].desc.serialize_to_string()),
              fresh[0].clone()]
    for copy in copies:
        fluid.load(fresh[0], str(tmp_path / 'state'))
        again = [exe.run(copy, feed={'words': fed}, fetch_list=[loss.name])[0] for _ in range(3)]
        np.testing.assert_array_equal(again, losses)
        np.testing.assert_array_equal(
            np.array(fluid.global_scope().find_var('table').get_tensor()), trained)
    expected = exe.run(test, feed={'words': fed}, fetch_list=[out.name])[0]
    fluid.io.save_inference_model(str(tmp_path / 'model'), ['words'], [out], exe)
    with fluid.scope_guard(fluid.Scope()):
        loaded, _, fetches = fluid.io.load_inference_model(str(tmp_path / 'model'), exe)
        np.testing.assert_array_equal(
            exe.run(loaded, feed={'words': fed}, fetch_list=fetches)[0], expected)


def test_static_namespace_has_static_rnn():
    assert paddle.static.nn.StaticRNN is layers.StaticRNN
