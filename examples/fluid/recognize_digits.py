"""Handwritten digits by a multi-layer perceptron or a convolutional net.

    recognize_digits.py [mlp|conv]
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid

import datasets

BATCH_SIZE = 64
GOAL = {'mlp': 0.93, 'conv': 0.95}


def loss_net(hidden, label):
    prediction = fluid.layers.fc(input=hidden, size=10, act='softmax')
    loss = fluid.layers.cross_entropy(input=prediction, label=label)
    avg_loss = fluid.layers.mean(loss)
    acc = fluid.layers.accuracy(input=prediction, label=label)
    return prediction, avg_loss, acc


def mlp(img, label):
    hidden = fluid.layers.fc(input=img, size=100, act='tanh')
    hidden = fluid.layers.fc(input=hidden, size=50, act='tanh')
    return loss_net(hidden, label)


def conv_net(img, label):
    image = fluid.layers.reshape(img, shape=[-1, 1, 8, 8])
    conv_pool_1 = fluid.nets.simple_img_conv_pool(
        input=image, filter_size=3, num_filters=16, pool_size=2, pool_stride=2, conv_padding=1, act='relu')
    conv_pool_1 = fluid.layers.batch_norm(conv_pool_1)
    conv_pool_2 = fluid.nets.simple_img_conv_pool(
        input=conv_pool_1, filter_size=3, num_filters=32, pool_size=2, pool_stride=2, conv_padding=1,
        act='relu')
    return loss_net(conv_pool_2, label)


def train(nn_type, save_dirname, epochs=15):
    img = fluid.layers.data(name='img', shape=[64], dtype='float32')
    label = fluid.layers.data(name='label', shape=[1], dtype='int64')
    prediction, avg_loss, acc = (mlp if nn_type == 'mlp' else conv_net)(img, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(avg_loss)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(feed_list=[img, label], place=place)
    train_reader = paddle.batch(
        paddle.reader.shuffle(datasets.digits(train=True), buf_size=2000), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(datasets.digits(train=False), batch_size=BATCH_SIZE)

    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        for data in train_reader():
            loss, = exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[avg_loss])
        accs, weights = [], []
        for data in test_reader():
            value, = exe.run(test_program, feed=feeder.feed(data), fetch_list=[acc])
            accs.append(value[0])
            weights.append(len(data))
        test_acc = np.average(accs, weights=weights)
        if epoch % 5 == 4:
            print('epoch %d: loss %.4f, test accuracy %.3f' % (epoch + 1, loss[0], test_acc))
    fluid.io.save_inference_model(save_dirname, ['img'], [prediction], exe, model_filename='model',
                                  params_filename='params')
    sample = np.array([row[0] for row in datasets.digits(train=False)()][:16])
    expected, = exe.run(test_program, feed={'img': sample, 'label': np.zeros((16, 1), 'int64')},
                        fetch_list=[prediction])
    return test_acc, sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feed_names, fetch_targets = fluid.io.load_inference_model(
            save_dirname, exe, model_filename='model', params_filename='params')
        result, = exe.run(program, feed={feed_names[0]: sample}, fetch_list=fetch_targets)
    return result


def main(nn_type):
    fluid.default_main_program().random_seed = 1
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as save_dirname:
        acc, sample, expected = train(nn_type, save_dirname)
        assert np.array_equal(infer(save_dirname, sample), expected), 'the loaded model differs'
    print('%s: test accuracy %.3f (goal %.2f); the loaded model predicts the same' %
          (nn_type, acc, GOAL[nn_type]))
    return 0 if acc >= GOAL[nn_type] else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'mlp'))
