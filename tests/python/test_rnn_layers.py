"""layers.rnn, its cells, and dynamic_decode with a beam: against numpy."""
import numpy as np
import pytest

import paddle.fluid as fluid

layers = fluid.layers

BATCH, STEPS, WIDTH, HIDDEN = 2, 4, 3, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_step(x, h, weights):
    gate_w, candidate_w, gate_b, candidate_b = weights
    r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ gate_w + gate_b), 2, axis=1)
    return u * h + (1 - u) * np.tanh(np.concatenate([x, r * h], 1) @ candidate_w + candidate_b)


def lstm_step(x, states, weights):
    h, c = states
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ weights[0] + weights[1], 4, axis=1)
    c = c * sigmoid(f + 1.0) + sigmoid(i) * np.tanh(j)
    return np.tanh(c) * sigmoid(o), c


def parameters(program):
    """Biases are made different from 0."""
    random = np.random.RandomState(1)
    values = []
    for parameter in program.all_parameters():
        tensor = fluid.global_scope().find_var(parameter.name).get_tensor()
        value = random.uniform(-0.5, 0.5, parameter.shape).astype('float32')
        tensor.set(value, fluid.CPUPlace())
        values.append(value)
    return values


@pytest.fixture
def sequences():
    return {'x': np.random.RandomState(2).randn(BATCH, STEPS, WIDTH).astype('float32'), 'n': np.array([STEPS, 2])}


@pytest.mark.parametrize('reverse', [False, True])
def test_a_gru_over_sequences_of_two_lengths(exe, fresh, sequences, reverse):
    x, n = fluid.data('x', [None, STEPS, WIDTH]), fluid.data('n', [None], 'int64')
    outputs, last = layers.rnn(layers.GRUCell(HIDDEN), x, sequence_length=n, is_reverse=reverse)
    assert outputs.shape[1:] == (STEPS, HIDDEN)
    exe.run(fresh[1])
    weights = parameters(fresh[0])
    found, found_last = exe.run(feed=sequences, fetch_list=[outputs, last])
    state = np.zeros((BATCH, HIDDEN))
    for t in reversed(range(STEPS)) if reverse else range(STEPS):
        new = gru_step(sequences['x'][:, t], state, weights)
        np.testing.assert_allclose(found[:, t], new, rtol=1e-4, atol=1e-6)
        state = np.where((t < sequences['n'])[:, None], new, state)
    np.testing.assert_allclose(found_last, state, rtol=1e-4, atol=1e-6)


def test_an_lstm_with_time_first_trains(exe, fresh, sequences):
    x = fluid.data('x', [STEPS, None, WIDTH])
    outputs, (hidden, cell) = layers.rnn(layers.LSTMCell(HIDDEN), x, time_major=True)
    loss = layers.mean(layers.square(hidden))
    fluid.optimizer.SGD(0.5).minimize(loss)
    exe.run(fresh[1])
    weights = parameters(fresh[0])
    data = sequences['x'].transpose(1, 0, 2)
    found, h, c, before = exe.run(feed={'x': data}, fetch_list=[outputs, hidden, cell, loss])
    states = np.zeros((BATCH, HIDDEN)), np.zeros((BATCH, HIDDEN))
    for t in range(STEPS):
        states = lstm_step(data[t], states, weights)
        np.testing.assert_allclose(found[t], states[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, states[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(c, states[1], rtol=1e-4, atol=1e-6)
    for _ in range(20):
        after, = exe.run(feed={'x': data}, fetch_list=[loss])
    assert after.item() < 0.5 * before.item()


VOCABULARY, BEAM, END, LONGEST = 6, 3, 1, 5


def beams_of(log_probs_of, first_state, longest):
    """The BEAM likeliest sentences of one sample, by plain search."""
    beams = [(0.0, [], first_state, False)]
    for _ in range(longest + 1):
        candidates = []
        for score, words, state, ended in beams:
            if ended:
                candidates.append((score, words + [END], state, True))
                continue
            probs, new = log_probs_of(words[-1] if words else 0, state)
            candidates += [(score + p, words + [w], new, w == END) for w, p in enumerate(probs)]
        beams = sorted(candidates, key=lambda b: -b[0])[:BEAM]
        if all(ended for _, _, _, ended in beams):
            break
    return beams


@pytest.mark.parametrize('is_test', [False, True])
def test_beam_search_finds_what_plain_search_finds(exe, fresh, tmp_path, is_test):
    start = fluid.data('start', [None, HIDDEN])
    cell = layers.GRUCell(HIDDEN)
    decoder = layers.BeamSearchDecoder(
        cell, start_token=0, end_token=END, beam_size=BEAM,
        embedding_fn=lambda ids: fluid.embedding(ids, [VOCABULARY, WIDTH], param_attr='embedding'),
        output_fn=lambda x: layers.fc(x, VOCABULARY, num_flatten_dims=len(x.shape) - 1, param_attr='fc_w',
                                      bias_attr='fc_b'))
    ids, states, lengths = layers.dynamic_decode(decoder, inits=start, max_step_num=LONGEST, is_test=is_test,
                                                 return_length=True)
    exe.run(fresh[1])
    parameters(fresh[0])
    value = {name: np.array(fluid.global_scope().find_var(name).get_tensor())
             for name in [p.name for p in fresh[0].all_parameters()]}
    gru = [value[p.name] for p in fresh[0].all_parameters() if p.name.startswith('GRUCell')]

    def log_probs_of(word, state):
        state = gru_step(value['embedding'][word][None], state, gru)
        logits = (state @ value['fc_w'] + value['fc_b'])[0]
        return logits - np.log(np.exp(logits).sum()), state

    first = 2 * np.random.RandomState(3).randn(4, HIDDEN).astype('float32')
    found, found_lengths, scores = exe.run(feed={'start': first}, fetch_list=[ids, lengths, states.log_probs])
    for sample in range(4):
        expected = beams_of(log_probs_of, first[sample:sample + 1], LONGEST)
        np.testing.assert_allclose(scores[sample], [score for score, _, _, _ in expected], rtol=1e-4)
        for beam, (_, words, _, _) in enumerate(expected):
            size = words.index(END) + 1 if END in words else len(words)
            assert found[sample, :size, beam].tolist() == words[:size]
            assert found_lengths[sample, beam] == size
    fluid.io.save_inference_model(str(tmp_path), ['start'], [ids], exe)
    with fluid.scope_guard(fluid.Scope()):
        program, names, targets = fluid.io.load_inference_model(str(tmp_path), exe)
        np.testing.assert_array_equal(exe.run(program, feed={'start': first}, fetch_list=targets)[0], found)


def test_cells_and_decoders_of_ones_own_say_what_they_lack():
    with pytest.raises(NotImplementedError, match='RNNCell must define call'):
        layers.RNNCell()(None, None)
    with pytest.raises(NotImplementedError, match='state_shape'):
        layers.RNNCell().get_initial_states(fluid.data('x', [None, 2]))
    with pytest.raises(NotImplementedError, match='Decoder must define initialize'):
        layers.dynamic_decode(layers.Decoder())


@pytest.mark.parametrize('batch_first', [True, False])
def test_basic_lstm_of_two_layers_in_both_directions(exe, fresh, sequences, batch_first):
    x, n = fluid.data('x', [None, None, WIDTH]), fluid.data('n', [None], 'int64')
    out, hidden, cell = fluid.contrib.layers.basic_lstm(
        x, None, None, HIDDEN, num_layers=2, sequence_length=n, bidirectional=True, batch_first=batch_first)
    fluid.optimizer.SGD(0.1).minimize(layers.mean(out) + layers.mean(cell))
    exe.run(fresh[1])
    values = parameters(fresh[0])
    data = sequences['x']
    fed = data if batch_first else data.transpose(1, 0, 2)
    found, found_hidden, found_cell = exe.run(feed={'x': fed, 'n': sequences['n']}, fetch_list=[out, hidden, cell])
    expected = []
    for way in range(2):  # weights: of both layers forwards, then of both backwards
        inputs = data.astype('float64')
        for layer in range(2):
            weights = values[4 * way + 2 * layer:4 * way + 2 * layer + 2]
            states, rows = (np.zeros((BATCH, HIDDEN)),) * 2, [None] * STEPS
            for t in reversed(range(STEPS)) if way else range(STEPS):
                running = (t < sequences['n'])[:, None]
                states = tuple(np.where(running, new, old)
                               for new, old in zip(lstm_step(inputs[:, t], states, weights), states))
                rows[t] = states[0]
            inputs = np.stack(rows, 1)
            np.testing.assert_allclose(found_hidden[2 * layer + way], states[0], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(found_cell[2 * layer + way], states[1], rtol=1e-4, atol=1e-6)
        expected.append(inputs)
    found = found if batch_first else found.transpose(1, 0, 2)
    np.testing.assert_allclose(found, np.concatenate(expected, 2), rtol=1e-4, atol=1e-6)


def test_basic_gru_goes_on_from_given_states_under_given_names(exe, fresh, sequences):
    x, begin = fluid.data('x', [None, STEPS, WIDTH]), fluid.data('begin', [1, None, HIDDEN])
    out, hidden = fluid.contrib.layers.basic_gru(x, begin, HIDDEN, param_attr=fluid.ParamAttr(name='gru'),
                                                 bias_attr=fluid.ParamAttr(name='gru_bias'), dropout_prob=0.0)
    assert {p.name for p in fresh[0].all_parameters()} == {
        'gru_fw_w_0_gate', 'gru_fw_w_0_candidate', 'gru_bias_fw_b_0_gate', 'gru_bias_fw_b_0_candidate'}
    exe.run(fresh[1])
    weights = parameters(fresh[0])
    first = np.random.RandomState(5).randn(1, BATCH, HIDDEN).astype('float32')
    found, found_hidden = exe.run(feed={'x': sequences['x'], 'begin': first}, fetch_list=[out, hidden])
    state = first[0]
    for t in range(STEPS):
        state = gru_step(sequences['x'][:, t], state, weights)
        np.testing.assert_allclose(found[:, t], state, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found_hidden[0], state, rtol=1e-4, atol=1e-6)
