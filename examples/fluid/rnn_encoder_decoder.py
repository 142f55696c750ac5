"""The next word of a translation: LSTMs in both directions encode, an LSTM written out decodes.

    rnn_encoder_decoder.py
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.layers import (concat, cross_entropy, data, dynamic_lstm, elementwise_mul, embedding, fc,
                                 fill_constant_batch_size_like, mean, sequence_first_step,
                                 sequence_last_step, sigmoid, sums, tanh)

import made_sets

EMBEDDING_DIM = 32
ENCODER_SIZE = 32
DECODER_SIZE = 64
BATCH_SIZE = 32
GOAL = 0.1  # cross entropy per word; guessing evenly gives 3.2


def bi_lstm_encoder(input_seq, hidden_size):
    input_forward_proj = fc(input=input_seq, size=hidden_size * 4, bias_attr=True)
    forward, _ = dynamic_lstm(input=input_forward_proj, size=hidden_size * 4, use_peepholes=False)
    input_backward_proj = fc(input=input_seq, size=hidden_size * 4, bias_attr=True)
    backward, _ = dynamic_lstm(input=input_backward_proj, size=hidden_size * 4, is_reverse=True,
                               use_peepholes=False)
    return sequence_last_step(input=forward), sequence_first_step(input=backward)


def lstm_step(x_t, hidden_t_prev, cell_t_prev, size):
    def linear(inputs):
        return fc(input=inputs, size=size, bias_attr=True)

    forget_gate = sigmoid(x=linear([hidden_t_prev, x_t]))
    input_gate = sigmoid(x=linear([hidden_t_prev, x_t]))
    output_gate = sigmoid(x=linear([hidden_t_prev, x_t]))
    cell_tilde = tanh(x=linear([hidden_t_prev, x_t]))
    cell_t = sums(input=[elementwise_mul(x=forget_gate, y=cell_t_prev),
                         elementwise_mul(x=input_gate, y=cell_tilde)])
    hidden_t = elementwise_mul(x=output_gate, y=tanh(x=cell_t))
    return hidden_t, cell_t


def lstm_decoder_without_attention(target_embedding, decoder_boot, context, decoder_size, target_size):
    rnn = fluid.layers.DynamicRNN()
    cell_init = fill_constant_batch_size_like(input=decoder_boot, value=0.0, shape=[-1, decoder_size],
                                              dtype='float32')
    cell_init.stop_gradient = False
    with rnn.block():
        current_word = rnn.step_input(target_embedding)
        context = rnn.static_input(context)
        hidden_mem = rnn.memory(init=decoder_boot, need_reorder=True)
        cell_mem = rnn.memory(init=cell_init)
        decoder_inputs = concat(input=[context, current_word], axis=1)
        h, c = lstm_step(decoder_inputs, hidden_mem, cell_mem, decoder_size)
        rnn.update_memory(hidden_mem, h)
        rnn.update_memory(cell_mem, c)
        rnn.output(fc(input=h, size=target_size, bias_attr=True, act='softmax'))
    return rnn()


def seq_to_seq_net(source_size, target_size):
    src_word_idx = data(name='source_sequence', shape=[1], dtype='int64', lod_level=1)
    src_embedding = embedding(input=src_word_idx, size=[source_size, EMBEDDING_DIM], dtype='float32')
    src_forward_last, src_backward_first = bi_lstm_encoder(src_embedding, ENCODER_SIZE)
    encoded_vector = concat(input=[src_forward_last, src_backward_first], axis=1)
    decoder_boot = fc(input=src_backward_first, size=DECODER_SIZE, bias_attr=False, act='tanh')

    trg_word_idx = data(name='target_sequence', shape=[1], dtype='int64', lod_level=1)
    trg_embedding = embedding(input=trg_word_idx, size=[target_size, EMBEDDING_DIM], dtype='float32')
    prediction = lstm_decoder_without_attention(trg_embedding, decoder_boot, encoded_vector,
                                                DECODER_SIZE, target_size)
    label = data(name='label_sequence', shape=[1], dtype='int64', lod_level=1)
    return mean(cross_entropy(input=prediction, label=label)), prediction


FEED_ORDER = ['source_sequence', 'target_sequence', 'label_sequence']


def train(sizes, save_dirname, epochs):
    avg_cost, prediction = seq_to_seq_net(*sizes)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.005).minimize(avg_cost)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    exe.run(fluid.default_startup_program())
    block = fluid.default_main_program().global_block()
    feeder = fluid.DataFeeder([block.var(name) for name in FEED_ORDER], place)
    train_data = paddle.batch(
        paddle.reader.shuffle(paddle.dataset.wmt14.train(sizes[0]), buf_size=2000), batch_size=BATCH_SIZE)
    test_data = paddle.batch(paddle.dataset.wmt14.test(sizes[0]), batch_size=BATCH_SIZE)
    for epoch in range(epochs):
        for batch in train_data():
            cost, = exe.run(feed=feeder.feed(batch), fetch_list=[avg_cost])
        test_cost = np.mean([exe.run(test_program, feed=feeder.feed(batch), fetch_list=[avg_cost])[0][0]
                             for batch in test_data()])
        print('epoch %d: cost %.3f, test cost %.3f' % (epoch + 1, cost[0], test_cost))
    fluid.io.save_inference_model(save_dirname, FEED_ORDER[:-1], [prediction], exe)
    sample = feeder.feed(next(test_data())[:4])
    expected, = exe.run(test_program, feed=sample, fetch_list=[prediction], return_numpy=False)
    del sample['label_sequence']
    return test_cost, sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feed_names, fetch_targets = fluid.io.load_inference_model(save_dirname, exe)
        assert feed_names == FEED_ORDER[:-1]
        result, = exe.run(program, feed=sample, fetch_list=fetch_targets, return_numpy=False)
    return result


def main():
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as save_dirname:
        sizes = made_sets.wmt14(home)
        cost, sample, expected = train(sizes, save_dirname, epochs=4)
        result = infer(save_dirname, sample)
        assert np.array_equal(np.array(result), np.array(expected)), 'the loaded model differs'
        assert result.lod() == expected.lod()
    print('test cost %.3f (goal %.2f); the loaded model predicts the same' % (cost, GOAL))
    return 0 if cost < GOAL else 1


if __name__ == '__main__':
    sys.exit(main())
