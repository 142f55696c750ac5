"""make demo: trains a convolutional net on 1,797 real handwritten digits and shows how it went.

Prints step, loss, samples per second and the time left while it trains, then the accuracy on digits
it has not seen, and draws the loss curve into demo_output/loss.png.
"""
import os
import random
import sys
import time

import numpy as np
import paddle
import paddle.fluid as fluid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fluid'))
import datasets  # noqa: E402
from recognize_digits import conv_net  # noqa: E402

BATCH_SIZE = 64
EPOCHS = 20
OUTPUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'demo_output')


def draw(losses, path):
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    pyplot.figure(figsize=(7, 4))
    pyplot.plot(losses, linewidth=1)
    pyplot.yscale('log')
    pyplot.xlabel('step')
    pyplot.ylabel('loss')
    pyplot.title('Handwritten digits, convolutional net')
    pyplot.grid(True, which='both', alpha=0.3)
    pyplot.tight_layout()
    pyplot.savefig(path, dpi=120)


def main():
    random.seed(1)  # the order of the samples
    fluid.default_main_program().random_seed = 1
    fluid.default_startup_program().random_seed = 1
    img = fluid.layers.data(name='img', shape=[64], dtype='float32')
    label = fluid.layers.data(name='label', shape=[1], dtype='int64')
    _, avg_loss, acc = conv_net(img, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(avg_loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feeder = fluid.DataFeeder(feed_list=[img, label], place=fluid.CPUPlace())
    batches = paddle.batch(
        paddle.reader.shuffle(datasets.digits(train=True), buf_size=2000), BATCH_SIZE, drop_last=True)
    steps = EPOCHS * sum(1 for _ in batches())
    print('Training on %d digits, %d steps of %d.' % (1437, steps, BATCH_SIZE))

    losses, start = [], time.time()
    for _ in range(EPOCHS):
        for batch in batches():
            loss, = exe.run(fluid.default_main_program(), feed=feeder.feed(batch), fetch_list=[avg_loss])
            losses.append(float(loss[0]))
            done = len(losses)
            if done % 44 == 0 or done == steps:
                elapsed = time.time() - start
                print('step %4d of %d   loss %.4f   %6.0f samples/s   %4.1f s left' %
                      (done, steps, np.mean(losses[-44:]), done * BATCH_SIZE / elapsed,
                       elapsed / done * (steps - done)))

    test = list(datasets.digits(train=False)())
    accuracy, = exe.run(test_program, feed=feeder.feed(test), fetch_list=[acc])
    os.makedirs(OUTPUT, exist_ok=True)
    path = os.path.join(OUTPUT, 'loss.png')
    draw(losses, path)
    print('Accuracy on %d digits it has not seen: %.1f%%' % (len(test), 100 * accuracy[0]))
    print('Loss curve: %s' % os.path.relpath(path))
    return 0 if accuracy[0] > 0.9 else 1


if __name__ == '__main__':
    sys.exit(main())
