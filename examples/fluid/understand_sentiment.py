"""Good or bad reviews, words of any number: convolution, stacked LSTMs, or an LSTM written out.

    understand_sentiment.py [conv|stacked_lstm|dynamic_rnn]
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid

import datasets

CLASS_DIM = 2
EMB_DIM = 32
HID_DIM = 32
STACKED_NUM = 3
BATCH_SIZE = 32
GOAL = 0.9


def convolution_net(data, input_dim):
    emb = fluid.layers.embedding(input=data, size=[input_dim, EMB_DIM], is_sparse=True)
    conv_3 = fluid.nets.sequence_conv_pool(
        input=emb, num_filters=HID_DIM, filter_size=3, act='tanh', pool_type='sqrt')
    conv_4 = fluid.nets.sequence_conv_pool(
        input=emb, num_filters=HID_DIM, filter_size=4, act='tanh', pool_type='sqrt')
    return fluid.layers.fc(input=[conv_3, conv_4], size=CLASS_DIM, act='softmax')


def stacked_lstm_net(data, input_dim):
    emb = fluid.layers.embedding(input=data, size=[input_dim, EMB_DIM], is_sparse=True)
    fc1 = fluid.layers.fc(input=emb, size=HID_DIM * 4)
    lstm1, _ = fluid.layers.dynamic_lstm(input=fc1, size=HID_DIM * 4)
    inputs = [fc1, lstm1]
    for i in range(2, STACKED_NUM + 1):
        fc = fluid.layers.fc(input=inputs, size=HID_DIM * 4)
        lstm, _ = fluid.layers.dynamic_lstm(input=fc, size=HID_DIM * 4, is_reverse=(i % 2) == 0)
        inputs = [fc, lstm]
    fc_last = fluid.layers.sequence_pool(input=inputs[0], pool_type='max')
    lstm_last = fluid.layers.sequence_pool(input=inputs[1], pool_type='max')
    return fluid.layers.fc(input=[fc_last, lstm_last], size=CLASS_DIM, act='softmax')


def dynamic_rnn_lstm(data, input_dim):
    emb = fluid.layers.embedding(input=data, size=[input_dim, EMB_DIM], is_sparse=True)
    sentence = fluid.layers.fc(input=emb, size=HID_DIM, act='tanh')

    rnn = fluid.layers.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(sentence)
        prev_hidden = rnn.memory(value=0.0, shape=[HID_DIM])
        prev_cell = rnn.memory(value=0.0, shape=[HID_DIM])

        def gate_common(ipt, hidden, size):
            gate0 = fluid.layers.fc(input=ipt, size=size, bias_attr=True)
            gate1 = fluid.layers.fc(input=hidden, size=size, bias_attr=False)
            return gate0 + gate1

        forget_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID_DIM))
        input_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID_DIM))
        output_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID_DIM))
        cell_gate = fluid.layers.sigmoid(x=gate_common(word, prev_hidden, HID_DIM))

        cell = forget_gate * prev_cell + input_gate * cell_gate
        hidden = output_gate * fluid.layers.tanh(x=cell)
        rnn.update_memory(prev_cell, cell)
        rnn.update_memory(prev_hidden, hidden)
        rnn.output(hidden)

    last = fluid.layers.sequence_last_step(rnn())
    return fluid.layers.fc(input=last, size=CLASS_DIM, act='softmax')


NETS = {'conv': convolution_net, 'stacked_lstm': stacked_lstm_net, 'dynamic_rnn': dynamic_rnn_lstm}


def train(net, save_dirname, epochs):
    dictionary = datasets.review_dict()
    data = fluid.layers.data(name='words', shape=[1], dtype='int64', lod_level=1)
    label = fluid.layers.data(name='label', shape=[1], dtype='int64')
    prediction = net(data, len(dictionary))
    avg_cost = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
    acc = fluid.layers.accuracy(input=prediction, label=label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.005).minimize(avg_cost)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(feed_list=[data, label], place=place)
    train_reader = paddle.batch(
        paddle.reader.shuffle(datasets.reviews(dictionary), buf_size=1200), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(datasets.reviews(dictionary, train=False), batch_size=BATCH_SIZE)

    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        for batch in train_reader():
            cost, = exe.run(fluid.default_main_program(), feed=feeder.feed(batch), fetch_list=[avg_cost])
        accs, weights = [], []
        for batch in test_reader():
            value, = exe.run(test_program, feed=feeder.feed(batch), fetch_list=[acc])
            accs.append(value[0])
            weights.append(len(batch))
        test_acc = np.average(accs, weights=weights)
        print('epoch %d: cost %.4f, test accuracy %.3f' % (epoch + 1, cost[0], test_acc))
    fluid.io.save_inference_model(save_dirname, ['words'], [prediction], exe)

    # Three reviews of different lengths, as one LoD tensor.
    words = fluid.create_lod_tensor(
        np.array([[1], [2], [9], [20], [3], [17], [18], [4]], 'int64'), [[3, 4, 1]], place)
    expected, = exe.run(test_program, feed={'words': words, 'label': np.zeros((3, 1), 'int64')},
                        fetch_list=[prediction])
    return test_acc, words, expected


def infer(save_dirname, words):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feed_names, fetch_targets = fluid.io.load_inference_model(save_dirname, exe)
        result, = exe.run(program, feed={feed_names[0]: words}, fetch_list=fetch_targets)
    return result


def main(kind):
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as save_dirname:
        acc, words, expected = train(NETS[kind], save_dirname, epochs=6)
        assert np.array_equal(infer(save_dirname, words), expected), 'the loaded model differs'
    print('%s: test accuracy %.3f (goal %.2f); the loaded model predicts the same' % (kind, acc, GOAL))
    return 0 if acc >= GOAL else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'conv'))
