"""Recurrent cells, stacks of them, and decoding with beams."""
import numpy as np
import pytest

import paddle
import paddle.fluid as fluid

layers = fluid.layers
rng = np.random.RandomState(3)


def value_of(exe, *outs, **feed):
    exe.run(fluid.default_startup_program())
    return exe.run(feed=feed, fetch_list=list(outs))


def weight(name):
    return np.array(fluid.global_scope().find_var(name).get_tensor())


def trains(exe, loss, feed, steps=15):
    fluid.optimizer.Adam(0.05).minimize(loss)
    exe.run(fluid.default_startup_program())
    losses = [exe.run(feed=feed, fetch_list=[loss])[0].item() for _ in range(steps)]
    assert losses[-1] < 0.9 * losses[0], losses


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, h, c, w, b, forget_bias=1.0):
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ w + b, 4, axis=1)
    c = c * sigmoid(f + forget_bias) + sigmoid(i) * np.tanh(j)
    return np.tanh(c) * sigmoid(o), c


def gru_step(x, h, wg, bg, wc, bc):
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ wg + bg), 2, axis=1)
    c = np.tanh(np.concatenate([x, r * h], 1) @ wc + bc)
    return u * h + (1 - u) * c


def random_weights(names):
    for name in names:
        var = fluid.global_scope().find_var(name).get_tensor()
        var.set(rng.uniform(-0.5, 0.5, var.shape()).astype('float32'), fluid.CPUPlace())


def test_an_lstm_cell_walks_along_time(exe, fresh):
    x = fluid.data('x', [None, 4, 3])
    out, (h, c) = layers.rnn(layers.LSTMCell(5, name='cell'), x)
    exe.run(fresh[1])
    names = ['cell/BasicLSTMUnit_0.w_0', 'cell/BasicLSTMUnit_0.b_0']
    assert [p.name for p in fresh[0].all_parameters()] == names
    random_weights(names)
    given = rng.rand(2, 4, 3).astype('float32')
    got = exe.run(feed={'x': given}, fetch_list=[out, h, c])
    hidden, cell = np.zeros((2, 5), 'float32'), np.zeros((2, 5), 'float32')
    for t in range(4):
        hidden, cell = lstm_step(given[:, t], hidden, cell, *map(weight, names))
        np.testing.assert_allclose(got[0][:, t], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[2], cell, rtol=1e-5, atol=1e-6)


def test_a_gru_cell_stops_at_the_lengths(exe, fresh):
    x = fluid.data('x', [4, None, 3])
    lengths = fluid.data('lengths', [None], dtype='int64')
    out, last = layers.rnn(layers.GRUCell(2), x, sequence_length=lengths, time_major=True,
                           is_reverse=True)
    exe.run(fresh[1])
    names = sorted(p.name for p in fresh[0].all_parameters())
    assert len(names) == 4
    random_weights(names)
    given = rng.rand(4, 2, 3).astype('float32')
    got = exe.run(feed={'x': given, 'lengths': np.array([4, 2])}, fetch_list=[out, last])
    biases = [n for n in names if '.b_' in n]
    weights = [n for n in names if '.w_' in n]
    h = np.zeros((2, 2), 'float32')
    for t in reversed(range(4)):
        alive = np.array([[1.0], [1.0 if t < 2 else 0.0]])
        new = gru_step(given[t], h, weight(weights[0]), weight(biases[0]), weight(weights[1]),
                       weight(biases[1]))
        h = alive * new + (1 - alive) * h
    np.testing.assert_allclose(got[1], h, rtol=1e-5, atol=1e-6)
    assert got[0].shape == (4, 2, 2)


class TwoSums(layers.RNNCell):
    """A cell of a program's own, with nested states."""

    def call(self, inputs, states):
        first, rest = states
        first = first + inputs
        return {'both': first + rest['more'], 'first': first}, [first, {'more': rest['more'] * 2.0}]

    @property
    def state_shape(self):
        return [[3], {'more': [3]}]


def test_cells_of_a_programs_own_nest_states_and_outputs(exe):
    x = fluid.data('x', [None, 2, 3])
    cell = TwoSums()
    start = cell.get_initial_states(x, init_value=1)
    outs, states = layers.rnn(cell, x, initial_states=start)
    got = value_of(exe, outs['both'], outs['first'], states[1]['more'],
                   x=np.ones((1, 2, 3), 'float32'))
    assert got[0][0, :, 0].tolist() == [3, 5] and got[1][0, :, 0].tolist() == [2, 3]
    assert got[2][0].tolist() == [4, 4, 4]


def test_activations_of_the_callers(exe, fresh):
    x = fluid.data('x', [None, 1, 2])
    cell = layers.LSTMCell(2, gate_activation=layers.relu, activation=layers.relu, forget_bias=0.0,
                           param_attr=fluid.initializer.Constant(1.0))
    _, (h, c) = layers.rnn(cell, x)
    got = value_of(exe, h, c, x=np.ones((1, 1, 2), 'float32'))
    assert got[1].tolist() == [[4, 4]] and got[0].tolist() == [[8, 8]]


@pytest.mark.parametrize('both_ways', [False, True])
def test_basic_lstm_stacks_cells(exe, fresh, both_ways):
    x = fluid.data('x', [None, 5, 3])
    lengths = fluid.data('lengths', [None], dtype='int64')
    ways = 2 if both_ways else 1
    start = [layers.fill_constant_batch_size_like(x, [2 * ways, -1, 4], 'float32', 0.1,
                                                  output_dim_idx=1) for _ in range(2)]
    out, h, c = fluid.contrib.layers.basic_lstm(
        x, start[0], start[1], 4, num_layers=2, sequence_length=lengths, bidirectional=both_ways,
        param_attr=fluid.ParamAttr(name='w'), bias_attr=fluid.ParamAttr(name='b'))
    names = {p.name: p.shape for p in fresh[0].all_parameters()}
    assert names['w_fw_w_0'] == (7, 16) and names['w_fw_w_1'] == (8, 16)
    assert ('w_bw_w_1' in names) == both_ways
    exe.run(fresh[1])
    random_weights(names)
    given = rng.rand(2, 5, 3).astype('float32')
    got = exe.run(feed={'x': given, 'lengths': np.array([5, 3])}, fetch_list=[out, h, c])
    assert got[0].shape == (2, 5, 4 * ways) and got[1].shape == (2 * ways, 2, 4)
    # The first sequence has all its steps: two layers, by hand.
    states = [(np.full((1, 4), 0.1), np.full((1, 4), 0.1)) for _ in range(2)]
    for t in range(5):
        below = given[:1, t]
        for i in range(2):
            states[i] = lstm_step(below, *states[i], weight(f'w_fw_w_{i}'), weight(f'b_fw_b_{i}'))
            below = states[i][0]
        np.testing.assert_allclose(got[0][0, t, :4], below[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1][0, 0], states[0][0][0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[2][ways, 0], states[1][1][0], rtol=1e-4, atol=1e-6)


def test_basic_gru_trains(exe):
    x = fluid.data('x', [None, 4, 3])
    out, last = fluid.contrib.layers.basic_gru(x, None, 6, num_layers=2, dropout_prob=0.1,
                                               bidirectional=True)
    assert out.shape[1:] == (4, 12) and last.shape[0] == 4
    loss = layers.mean(layers.square(layers.fc(last[0], 1) - 1.0))
    trains(exe, loss, {'x': rng.rand(3, 4, 3).astype('float32')})


def test_lstm_is_the_fused_stack(exe, fresh):
    x = fluid.data('x', [4, 2, 3])
    h0, c0 = (layers.fill_constant([1, 2, 5], 'float32', 0.0) for _ in range(2))
    out, h, c = layers.lstm(x, h0, c0, 4, 5, 1)
    assert out.shape == (4, 2, 5)
    got = value_of(exe, out, h, c, x=rng.rand(4, 2, 3).astype('float32'))
    np.testing.assert_allclose(got[0][-1], got[1][0], rtol=1e-6)
    loss = layers.mean(layers.square(out - 0.3))
    trains(exe, loss, {'x': rng.rand(4, 2, 3).astype('float32')})


# ---- decoding

def brute_force(step, start, end, beam, steps):
    """The likeliest sentences by trying the beam_size best of every step."""
    beams = [(0.0, [], start, False)]
    for _ in range(steps):
        found = []
        for score, words, state, ended in beams:
            if ended:
                found.append((score, words + [end], state, True))
                continue
            log_probs, state2 = step(words[-1] if words else 0, state)
            found += [(score + p, words + [w], state2, w == end) for w, p in enumerate(log_probs)]
        beams = sorted(found, key=lambda b: -b[0])[:beam]
        if all(b[3] for b in beams):
            break
    return beams


@pytest.mark.parametrize('is_test', [True, False])
def test_beams_are_the_likeliest_sentences(exe, fresh, is_test):
    vocab, size, beam, end, steps = 7, 4, 3, 1, 5
    state = fluid.data('state', [None, size])
    cell = layers.GRUCell(size, name='decoder')

    def embed(ids):
        return fluid.embedding(ids, [vocab, size], param_attr='embed')

    def words(hidden):
        return layers.fc(hidden, vocab, num_flatten_dims=len(hidden.shape) - 1, param_attr='out_w',
                         bias_attr=False)
    decoder = layers.BeamSearchDecoder(cell, 0, end, beam, embedding_fn=embed, output_fn=words)
    outs, states, lengths = layers.dynamic_decode(decoder, state, max_step_num=steps - 1,
                                                  is_test=is_test, return_length=True)
    exe.run(fresh[1])
    names = sorted(p.name for p in fresh[0].all_parameters())
    for name in names:
        var = fluid.global_scope().find_var(name).get_tensor()
        var.set(rng.uniform(-2, 2, var.shape()).astype('float32'), fluid.CPUPlace())
    given = rng.uniform(-1, 1, (2, size)).astype('float32')
    ids, log_probs, found = exe.run(feed={'state': given},
                                    fetch_list=[outs, states.log_probs, lengths])
    gates = [weight(n) for n in names if 'decoder' in n and '.w_' in n]
    biases = [weight(n) for n in names if 'decoder' in n and '.b_' in n]

    def step(word, hidden):
        hidden = gru_step(weight('embed')[word][None], hidden, gates[0], biases[0], gates[1],
                          biases[1])
        logits = (hidden @ weight('out_w'))[0]
        return logits - np.log(np.exp(logits).sum()), hidden

    for sample in range(2):
        best = brute_force(step, given[sample:sample + 1], end, beam, steps)
        for k, (score, sentence, _, _) in enumerate(best):
            got = ids[sample, :len(sentence), k].tolist()
            assert got == sentence
            np.testing.assert_allclose(log_probs[sample, k], score, rtol=1e-4)
            ended = sentence.index(end) + 1 if end in sentence else len(sentence)
            assert found[sample, k] == ended


def test_decoders_of_a_programs_own(exe):
    class Count(layers.Decoder):
        def initialize(self, inits):
            return inits, inits, layers.fill_constant_batch_size_like(inits, [-1], 'bool', False)

        def step(self, time, inputs, states):
            new = states + 1.0
            ended = layers.reshape(layers.greater_equal(new, layers.fill_constant(
                [1], 'float32', 3.0)), [-1])
            return new, new, inputs, ended

    start = fluid.data('start', [None, 1])
    outs, states, lengths = layers.dynamic_decode(Count(), start, impute_finished=True,
                                                  return_length=True)
    got = value_of(exe, outs, states, lengths, start=np.float32([[0], [2]]))
    assert got[0].shape == (2, 3, 1)
    assert got[1].ravel().tolist() == [3, 3] and got[2].tolist() == [3, 1]


def test_tiles_repeat_every_row(exe):
    x = fluid.data('x', [None, 2])
    tiled = layers.BeamSearchDecoder.tile_beam_merge_with_batch(x, 2)
    got, = value_of(exe, tiled, x=np.float32([[1, 2], [3, 4]]))
    assert got.tolist() == [[1, 2], [1, 2], [3, 4], [3, 4]]


def test_tiles_repeat_sequences_of_an_open_length(exe):
    x = fluid.data('x', [None, None, 3])
    tiled = layers.BeamSearchDecoder.tile_beam_merge_with_batch(x, 2)
    assert tiled.shape == (-1, -1, 3)
    for steps in (1, 4):
        given = rng.randn(2, steps, 3).astype('float32')
        got, = value_of(exe, tiled, x=given)
        np.testing.assert_array_equal(got, np.repeat(given, 2, axis=0))


def test_wrong_uses():
    x = fluid.data('x', [None, 4, 3])
    with pytest.raises(NotImplementedError, match='call'):
        layers.RNNCell()(x, x)
    with pytest.raises(NotImplementedError, match='state_shape'):
        layers.rnn(layers.RNNCell(), x)
    with pytest.raises(ValueError, match='hidden_size is 0'):
        layers.GRUCell(0)
    with pytest.raises(ValueError, match='num_layers is 0'):
        fluid.contrib.layers.basic_lstm(x, None, None, 4, num_layers=0)
    with pytest.raises(ValueError, match='go together'):
        fluid.contrib.layers.basic_lstm(x, x, None, 4)


# ---- layers of later releases, and those that talk to other processes

def test_fused_bn_add_act_is_norm_sum_and_relu(exe):
    x, y = fluid.data('x', [4, 2, 3]), fluid.data('y', [4, 2, 3])
    fused = fluid.contrib.layers.fused_bn_add_act(x, y, act='relu')
    plain = layers.relu(layers.batch_norm(x, data_layout='NHWC') + y)
    feed = {n: rng.randn(4, 2, 3).astype('float32') for n in 'xy'}
    a, b = value_of(exe, fused, plain, **feed)
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    loss = layers.mean(layers.square(fused - 1.0))
    trains(exe, loss, feed, steps=30)
    with pytest.raises(ValueError, match='act is'):
        fluid.contrib.layers.fused_bn_add_act(x, y)


def test_inplace_abn_and_data_norm(exe, fresh):
    x = fluid.data('x', [6, 3])
    scaled = x * 1.0
    abn = layers.inplace_abn(scaled, act='leaky_relu', act_alpha=0.5)
    norm = layers.data_norm(x, name='dn', param_attr={'batch_size': 10.0, 'batch_square': 40.0})
    given = rng.randn(6, 3).astype('float32')
    a, b = value_of(exe, abn, norm, x=given)
    z = (given - given.mean(0)) / np.sqrt(given.var(0) + 1e-5)
    np.testing.assert_allclose(a, np.where(z > 0, z, z / 2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(b, given / 2, rtol=1e-5)
    with pytest.raises(ValueError, match='cannot be undone'):
        layers.inplace_abn(x, act='relu')


def test_sparse_embedding_has_a_sparse_gradient(exe, fresh):
    ids = fluid.data('ids', [None, 1], dtype='int64')
    rows = fluid.contrib.layers.sparse_embedding(ids, [10, 3], param_attr='table')
    loss = layers.mean(rows)
    fluid.optimizer.SGD(1.0).minimize(loss)
    assert fresh[0].global_block().var('table@GRAD').type == fluid.core.VarDesc.VarType.SELECTED_ROWS
    assert value_of(exe, rows, ids=np.array([[1], [2]]))[0].shape == (2, 3)
    with pytest.raises(NotImplementedError, match='entry'):
        fluid.contrib.layers.sparse_embedding(ids, [10, 3], entry=object())


def test_unique_consecutive(exe):
    x = fluid.data('x', [None], dtype='int64')
    out, index, counts = paddle.unique_consecutive(x, return_inverse=True, return_counts=True)
    alone = paddle.unique_consecutive(x)
    got = value_of(exe, out, index, counts, alone, x=np.array([1, 1, 2, 2, 3, 1]))
    assert [g.tolist() for g in got] == [[1, 2, 3, 1], [0, 0, 1, 1, 2, 3], [2, 2, 1, 1], [1, 2, 3, 1]]


def test_programs_that_send_and_serve_are_built(exe, fresh):
    x = fluid.data('x', [2, 2])
    serve = layers.ListenAndServ('127.0.0.1:6174', [x], fan_in=2)
    with serve.do():
        layers.scale(x, scale=10.0)
    layers.Send('127.0.0.1:6174', [x])
    received = layers.Recv('127.0.0.1:6174', [x])
    assert received == [x]
    summed = layers._allreduce(x, reduce_type='max')
    types = [op.type for op in fresh[0].global_block().ops]
    assert types == ['listen_and_serv', 'send', 'send_barrier', 'recv', 'fetch_barrier', 'allreduce']
    assert fresh[0].global_block().ops[0].attr('Fanin') == 2
    assert summed.op.attr('reduce_type') == 2
    with pytest.raises(ValueError, match='1 endpoints for 2 variables'):
        layers.Send('127.0.0.1:6174', [x, x])
    with pytest.raises(TypeError, match='reduce_type is "mean"'):
        layers._allreduce(x, reduce_type='mean')
    with pytest.raises(ValueError, match='listen_and_serv is not the only op of its program'):
        exe.run(feed={'x': np.zeros((2, 2), 'float32')}, fetch_list=[summed])
