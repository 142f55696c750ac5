"""Recurrences as users of paddle.fluid write them: one training step. One JSON line.

fluid_recurrence.py NAME [--threads N] [--reps N] [--secs S]
"""

import json
import sys
from pathlib import Path

import numpy
import paddle.fluid as fluid
from paddle.fluid import layers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000  # bench/peers/torch_recurrence.py has the same
RANDOM = numpy.random.RandomState(0)


def floats(*shape):
    return RANDOM.randn(*shape).astype('float32')


def sequence():
    return fluid.data('x', [STEPS, BATCH, WIDTH]), {'x': floats(STEPS, BATCH, WIDTH)}


def lod_sequences(width):
    rows = fluid.create_lod_tensor(floats(STEPS * BATCH, width), [[STEPS] * BATCH], fluid.CPUPlace())
    return fluid.data('x', [None, width], lod_level=1), {'x': rows}


def lstm_cell(word, hidden, cell):
    gates = layers.split(layers.fc([word, hidden], 4 * WIDTH), 4, dim=1)
    enter, forget, leave = (layers.sigmoid(gate) for gate in gates[:3])
    cell = forget * cell + enter * layers.tanh(gates[3])
    return leave * layers.tanh(cell), cell


def static_rnn():
    x, feed = sequence()
    rnn = layers.StaticRNN()
    with rnn.step():
        word = rnn.step_input(x)
        states = [rnn.memory(shape=[-1, WIDTH], batch_ref=word) for _ in range(2)]
        for before, after in zip(states, lstm_cell(word, *states)):
            rnn.update_memory(before, after)
            rnn.step_output(after)
    return rnn()[0], feed


def dynamic_rnn():
    x, feed = lod_sequences(WIDTH)
    rnn = layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(x)
        states = [rnn.memory(shape=[WIDTH], value=0.0) for _ in range(2)]
        for before, after in zip(states, lstm_cell(word, *states)):
            rnn.update_memory(before, after)
            rnn.output(after)
    return rnn()[0], feed


def while_loop():
    x, feed = fluid.data('x', [BATCH, WIDTH]), {'x': floats(BATCH, WIDTH)}
    state, i = layers.scale(x), layers.fill_constant([1], 'int64', 0)
    end = layers.fill_constant([1], 'int64', STEPS)
    more = layers.less_than(i, end)
    loop = layers.While(more)
    with loop.block():
        layers.assign(layers.fc(state, WIDTH, act='tanh'), state)
        layers.increment(i)
        layers.less_than(i, end, cond=more)
    return state, feed


def gru_cells():
    x = fluid.data('x', [BATCH, STEPS, WIDTH])
    return layers.rnn(layers.GRUCell(WIDTH), x)[0], {'x': floats(BATCH, STEPS, WIDTH)}


def dynamic_gru():
    x, feed = lod_sequences(WIDTH)
    return layers.dynamic_gru(layers.fc(x, 3 * WIDTH), WIDTH), feed


def lstm_layers():
    x, feed = sequence()
    first = [layers.fill_constant([2, BATCH, WIDTH], 'float32', 0.0) for _ in range(2)]
    return layers.lstm(x, *first, STEPS, WIDTH, 2)[0], feed


def attention():
    """A decoder that looks at an encoder's states in every step."""
    x, feed = sequence()
    states = fluid.data('states', [BATCH, STEPS, WIDTH])
    feed['states'] = floats(BATCH, STEPS, WIDTH)
    keys = layers.fc(states, WIDTH, num_flatten_dims=2, bias_attr=False)
    boot = layers.fill_constant([BATCH, WIDTH], 'float32', 0.0)
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


def words():
    """A language model whose words and classes are inside the loop."""
    ids = fluid.data('ids', [STEPS, BATCH, 1], dtype='int64')
    label = fluid.data('label', [STEPS, BATCH, 1], dtype='int64')
    boot = layers.fill_constant([BATCH, WIDTH], 'float32', 0.0)
    rnn = layers.StaticRNN()
    with rnn.step():
        word, before = layers.embedding(rnn.step_input(ids), [WORDS, WIDTH]), rnn.memory(init=boot)
        after = layers.fc([word, before], WIDTH, act='tanh')
        rnn.update_memory(before, after)
        classes = layers.fc(after, WORDS, act='softmax')
        rnn.step_output(layers.cross_entropy(classes, rnn.step_input(label)))
    return rnn(), {name: RANDOM.randint(0, WORDS, (STEPS, BATCH, 1)) for name in ('ids', 'label')}


def main():
    args = clock.arguments().parse_args()
    out, feed = globals()[args.name]()
    loss = layers.mean(out)
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program()

    def step():
        exe.run(program, feed=feed, fetch_list=[loss])

    for _ in range(3):
        step()
    print(json.dumps(clock.measure(step, args)))


main()
