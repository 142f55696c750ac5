"""Recurrences as users of paddle.fluid write them: what comes out and what to feed, for
fluid_step.py. Python 2.7 and 3, names of fluid 1.8.
"""

import numpy
import paddle.fluid as fluid
from paddle.fluid import layers

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000  # as in bench/peers/*_recurrences.py
RANDOM = numpy.random.RandomState(0)


def floats(*shape):
    return RANDOM.randn(*shape).astype('float32')


def whole(count, *shape):
    return RANDOM.randint(0, count, shape).astype('int64')


def sequence(rows):
    return fluid.data('x', [STEPS, rows, WIDTH]), {'x': floats(STEPS, rows, WIDTH)}


def lod_sequences(rows):
    steps = fluid.create_lod_tensor(floats(STEPS * rows, WIDTH), [[STEPS] * rows], fluid.CPUPlace())
    return fluid.data('x', [None, WIDTH], lod_level=1), {'x': steps}


def zeros(*shape):
    return layers.fill_constant(list(shape), 'float32', 0.0)


def lstm_cell(word, hidden, cell):
    gates = layers.split(layers.fc([word, hidden], 4 * WIDTH), 4, dim=1)
    enter, forget, leave = (layers.sigmoid(gate) for gate in gates[:3])
    cell = forget * cell + enter * layers.tanh(gates[3])
    return leave * layers.tanh(cell), cell


def static_rnn(rows):
    x, feed = sequence(rows)
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        states = [rnn.memory(shape=[-1, WIDTH], batch_ref=word) for _ in range(2)]
        for before, after in zip(states, lstm_cell(word, *states)):
            rnn.update_memory(before, after)
            rnn.step_output(after)
    return rnn()[0], feed


def dynamic_rnn(rows):
    x, feed = lod_sequences(rows)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        states = [rnn.memory(shape=[WIDTH], value=0.0) for _ in range(2)]
        for before, after in zip(states, lstm_cell(word, *states)):
            rnn.update_memory(before, after)
            rnn.output(after)
    return rnn()[0], feed


def while_loop(rows):
    x, feed = fluid.data('x', [rows, WIDTH]), {'x': floats(rows, WIDTH)}
    state, i = layers.scale(x), layers.fill_constant([1], 'int64', 0)
    end = layers.fill_constant([1], 'int64', STEPS)
    more = layers.less_than(i, end)
    loop = layers.While(more)
    with loop.block():
        layers.assign(layers.fc(state, WIDTH, act='tanh'), state)
        layers.increment(i)
        layers.less_than(i, end, cond=more)
    return state, feed


def gru_cells(rows):
    x = fluid.data('x', [rows, STEPS, WIDTH])
    return layers.rnn(layers.GRUCell(WIDTH), x)[0], {'x': floats(rows, STEPS, WIDTH)}


def dynamic_gru(rows):
    x, feed = lod_sequences(rows)
    return layers.dynamic_gru(layers.fc(x, 3 * WIDTH), WIDTH), feed


def lstm_layers(rows):
    x, feed = sequence(rows)
    return layers.lstm(x, zeros(2, rows, WIDTH), zeros(2, rows, WIDTH), STEPS, WIDTH, 2)[0], feed


def attention(rows):
    """A decoder that looks at an encoder's states in every step."""
    x, feed = sequence(rows)
    states = fluid.data('states', [rows, STEPS, WIDTH])
    feed['states'] = floats(rows, STEPS, WIDTH)
    keys = layers.fc(states, WIDTH, num_flatten_dims=2, bias_attr=False)
    boot = zeros(rows, WIDTH)
    rnn = layers.StaticRNN()
    with rnn.step():
        word, before = rnn.step_input(x), rnn.memory(init=boot)
        query = layers.unsqueeze(layers.fc(before, WIDTH, bias_attr=False), [1])
        shares = layers.softmax(layers.matmul(query, keys, transpose_y=True))
        seen = layers.squeeze(layers.matmul(shares, states), [1])
        after = layers.fc([word, seen, before], WIDTH, act='tanh')
        rnn.update_memory(before, after)
        rnn.step_output(after)
    return rnn(), feed


def words(rows):
    """A language model whose words and classes are inside the loop."""
    ids = fluid.data('ids', [STEPS, rows, 1], dtype='int64')
    label = fluid.data('label', [STEPS, rows, 1], dtype='int64')
    boot = zeros(rows, WIDTH)
    rnn = layers.StaticRNN()
    with rnn.step():
        word, before = layers.embedding(rnn.step_input(ids), [WORDS, WIDTH]), rnn.memory(init=boot)
        after = layers.fc([word, before], WIDTH, act='tanh')
        rnn.update_memory(before, after)
        classes = layers.fc(after, WORDS, act='softmax')
        rnn.step_output(layers.cross_entropy(classes, rnn.step_input(label)))
    return rnn(), dict((name, whole(WORDS, STEPS, rows, 1)) for name in ('ids', 'label'))


MODELS = dict((model.__name__, model) for model in (
    static_rnn, dynamic_rnn, while_loop, gru_cells, dynamic_gru, lstm_layers, attention, words))
