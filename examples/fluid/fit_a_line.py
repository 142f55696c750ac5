"""Linear regression on the diabetes data: train, save, load, predict."""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid

import datasets

BATCH_SIZE = 20
GOAL = 0.60  # mean squared error on unseen patients; always guessing the mean gives about 1


def train(save_dirname, epochs=30):
    x = fluid.layers.data(name='x', shape=[10], dtype='float32')
    y = fluid.layers.data(name='y', shape=[1], dtype='float32')
    y_predict = fluid.layers.fc(input=x, size=1, act=None)
    cost = fluid.layers.square_error_cost(input=y_predict, label=y)
    avg_cost = fluid.layers.mean(cost)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(learning_rate=0.01).minimize(avg_cost)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(place=place, feed_list=[x, y])
    train_reader = paddle.batch(
        paddle.reader.shuffle(datasets.diabetes(train=True), buf_size=500), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(datasets.diabetes(train=False), batch_size=BATCH_SIZE)

    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        for data in train_reader():
            loss, = exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[avg_cost])
        losses = [
            exe.run(test_program, feed=feeder.feed(data), fetch_list=[avg_cost])[0][0]
            for data in test_reader()
        ]
        if epoch % 10 == 9:
            print('epoch %d: train loss %.4f, test loss %.4f' % (epoch + 1, loss[0], np.mean(losses)))
    fluid.io.save_inference_model(save_dirname, ['x'], [y_predict], exe)
    sample = np.array([row[0] for row in datasets.diabetes(train=False)()][:10])
    expected, = exe.run(test_program, feed={'x': sample, 'y': np.zeros((10, 1), 'float32')},
                        fetch_list=[y_predict])
    return np.mean(losses), sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, feed_names, fetch_targets = fluid.io.load_inference_model(save_dirname, exe)
        result, = exe.run(program, feed={feed_names[0]: sample}, fetch_list=fetch_targets)
    return result


def main():
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as save_dirname:
        loss, sample, expected = train(save_dirname)
        assert np.array_equal(infer(save_dirname, sample), expected), 'the loaded model differs'
    print('test loss %.4f (goal %.2f); the loaded model predicts the same' % (loss, GOAL))
    return 0 if loss < GOAL else 1


if __name__ == '__main__':
    sys.exit(main())
