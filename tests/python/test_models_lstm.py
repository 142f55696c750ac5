"""Stacked dynamic LSTMs over sentences of different lengths: as ops, and built step by step."""
import numpy as np
import pytest

import paddle.fluid as fluid
from model_checks import check_model

layers = fluid.layers

WORDS, EMBEDDING, HIDDEN = 50, 16, 16


def stacked_ops(sentence):
    """dynamic_lstm, every other one backwards."""
    inputs = [layers.fc(input=sentence, size=HIDDEN * 4)]
    inputs.append(layers.dynamic_lstm(input=inputs[0], size=HIDDEN * 4)[0])
    for i in range(2, 4):
        fc = layers.fc(input=inputs, size=HIDDEN * 4)
        lstm, _ = layers.dynamic_lstm(input=fc, size=HIDDEN * 4, is_reverse=(i % 2) == 0)
        inputs = [fc, lstm]
    return layers.concat([layers.sequence_pool(input=x, pool_type='max') for x in inputs], axis=1)


def stacked_steps(sentence):
    """Two LSTMs whose steps are written out in a DynamicRNN."""
    for _ in range(2):
        sentence = layers.fc(input=sentence, size=HIDDEN, act='tanh')
        rnn = layers.DynamicRNN()
        with rnn.block():
            word = rnn.step_input(sentence)
            prev_hidden = rnn.memory(value=0.0, shape=[HIDDEN])
            prev_cell = rnn.memory(value=0.0, shape=[HIDDEN])

            def gate_common(ipt, hidden, size):
                gate0 = layers.fc(input=ipt, size=size, bias_attr=True)
                gate1 = layers.fc(input=hidden, size=size, bias_attr=False)
                return layers.sums(input=[gate0, gate1])

            forget_gate = layers.sigmoid(x=gate_common(word, prev_hidden, HIDDEN))
            input_gate = layers.sigmoid(x=gate_common(word, prev_hidden, HIDDEN))
            output_gate = layers.sigmoid(x=gate_common(word, prev_hidden, HIDDEN))
            cell_gate = layers.tanh(x=gate_common(word, prev_hidden, HIDDEN))
            cell = layers.sums(input=[layers.elementwise_mul(x=forget_gate, y=prev_cell),
                                      layers.elementwise_mul(x=input_gate, y=cell_gate)])
            hidden = layers.elementwise_mul(x=output_gate, y=layers.tanh(x=cell))
            rnn.update_memory(prev_cell, cell)
            rnn.update_memory(prev_hidden, hidden)
            rnn.output(hidden)
        sentence = rnn()
    return layers.sequence_pool(sentence, 'last')


def lstm_net(net):
    data = layers.data(name='words', shape=[1], lod_level=1, dtype='int64')
    label = layers.data(name='label', shape=[1], dtype='int64')
    sentence = layers.embedding(input=data, size=[WORDS, EMBEDDING], is_sparse=True)
    prediction = layers.fc(input=net(sentence), size=2, act='softmax')
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))
    return loss, prediction, fluid.optimizer.Adam(learning_rate=0.02).minimize


def sentences(count=2, size=16):
    """1 when the last word is one of the second half of the words."""
    random = np.random.RandomState(3)
    for _ in range(count):
        rows = [random.randint(0, WORDS, random.randint(1, 9)) for _ in range(size)]
        words = fluid.create_lod_tensor(np.concatenate(rows).reshape(-1, 1), [[len(r) for r in rows]],
                                        fluid.CPUPlace())
        yield {'words': words, 'label': np.array([[int(r[-1] >= WORDS // 2)] for r in rows])}


@pytest.mark.parametrize('net', [stacked_ops, stacked_steps])
def test_stacked_dynamic_lstm(tmp_path, net):
    check_model(lambda: lstm_net(net), list(sentences()), ['words'], tmp_path, falls_to=0.7,
                same_on_two=True)
