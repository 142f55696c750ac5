"""make demo: trains a convolutional net on 1,437 real handwritten digits and shows how it went.

Every batch is shared out over all GPUs that can be used here, or over two CPU devices. Prints step, loss, samples per second and the time left
while it trains, then what each device did and the accuracy on 360 digits it has not seen, and draws the
loss curve into demo_output/loss.png.
"""
import os
import random
import sys
import time

import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.viewer import draw_loss

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'fluid'))
import datasets  # noqa: E402
from recognize_digits import conv_net  # noqa: E402

BATCH_SIZE = 64
EPOCHS = 20
OUTPUT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'demo_output')


def main():
    random.seed(1)  # the order of the samples
    fluid.default_main_program().random_seed = 1
    fluid.default_startup_program().random_seed = 1
    training, held_out = datasets.digits()
    pixels = fluid.data('pixels', [None, 64], 'float32')
    digit = fluid.data('digit', [None, 1], 'int64')
    guess = conv_net(pixels)
    mean_loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, digit))
    hits = fluid.layers.accuracy(guess, digit)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(mean_loss)

    on_gpus = fluid.is_compiled_with_cuda()
    places = fluid.cuda_places() if on_gpus else fluid.cpu_places(2)
    exe = fluid.Executor(places[0])
    exe.run(fluid.default_startup_program())
    train = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(
        loss_name=mean_loss.name, places=places)
    test = fluid.CompiledProgram(test_program).with_data_parallel(share_vars_from=train, places=places)
    feeder = fluid.DataFeeder([pixels, digit], fluid.CPUPlace())
    batches = paddle.batch(paddle.reader.shuffle(lambda: zip(*training), buf_size=2000), BATCH_SIZE,
                           drop_last=True)
    steps = EPOCHS * sum(1 for _ in batches())
    print('Training on %d digits, %d steps of %d, on %d %s devices.' %
          (len(training[0]), steps, BATCH_SIZE, len(places), 'GPU' if on_gpus else 'CPU'))

    samples, device_losses = np.zeros(len(places), int), []
    losses, start = [], time.time()
    for _ in range(EPOCHS):
        for batch in batches():
            # Kept apart: what each device was given, and its loss on that.
            labels, loss = exe.run(train, feed=feeder.feed(batch), fetch_list=[digit, mean_loss],
                                   return_merged=False)
            samples += [len(piece) for piece in labels]
            device_losses.append([float(value[0]) for value in loss])
            losses.append(np.mean(device_losses[-1]))
            done = len(losses)
            if done % 44 == 0 or done == steps:
                elapsed = time.time() - start
                print('step %4d of %d   loss %.4f   %6.0f samples/s   %4.1f s left' %
                      (done, steps, np.mean(losses[-44:]), done * BATCH_SIZE / elapsed,
                       elapsed / done * (steps - done)))

    for device, last in enumerate(np.mean(device_losses[-44:], axis=0)):
        print('device %d: %d samples, mean loss of the last 44 steps %.4f' %
              (device, samples[device], last))

    accuracy, = exe.run(test.fetch_mean(hits), feed={'pixels': held_out[0], 'digit': held_out[1]},
                        fetch_list=[hits])
    os.makedirs(OUTPUT, exist_ok=True)
    path = os.path.join(OUTPUT, 'loss.png')
    draw_loss(losses, path, title='Handwritten digits, convolutional net')
    print('Accuracy on %d digits it has not seen: %.1f%%' % (len(held_out[0]), 100 * accuracy[0]))
    print('Loss curve: %s' % os.path.relpath(path))
    return 0 if accuracy[0] > 0.9 else 1


if __name__ == '__main__':
    sys.exit(main())
