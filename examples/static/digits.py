"""Handwritten digits by layers of paddle.nn.

    digits.py [--seed N]

Teaches what a program of 2.x has: data, nn.Sequential, a loss, an optimizer with a schedule, a Dataset with a
DataLoader, a metric, a saved model and paddle.inference.
Data: 1,797 real digits of 8 x 8 pixels, brought along by scikit-learn; 360 of them are held out.
Quality over seeds 1 to 10:
    accuracy at least 0.958 (0.967 to 0.981)
"""
import argparse
import tempfile

import numpy as np
import paddle
import paddle.nn as nn
from paddle import static

import common

EPOCHS = 15


class Digits(paddle.io.Dataset):
    """Samples by number: 64 pixels and which digit they are."""

    def __init__(self, pixels, digits):
        self.pixels, self.digits = pixels, digits

    def __getitem__(self, index):
        return self.pixels[index], self.digits[index]

    def __len__(self):
        return len(self.pixels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    common.begin(parser.parse_args().seed)
    training, held_out = (Digits(*part) for part in common.datasets.digits())
    loader = paddle.io.DataLoader(training, batch_size=64, shuffle=True, drop_last=True)

    pixels = static.data('pixels', [None, 64], 'float32')
    digit = static.data('digit', [None, 1], 'int64')
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    scores = net(pixels)
    loss = nn.CrossEntropyLoss()(scores, digit)
    evaluation = static.default_main_program().clone(for_test=True)
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.003, T_max=EPOCHS * len(loader))
    paddle.optimizer.Adam(schedule, weight_decay=1e-4).minimize(loss)
    exe = static.Executor()
    exe.run(static.default_startup_program())

    metric = paddle.metric.Accuracy()
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for x, y in loader:
            losses.append(exe.run(feed={'pixels': x, 'digit': y}, fetch_list=[loss])[0].item())
            schedule.step()
        metric.reset()
        for x, y in paddle.io.DataLoader(held_out, batch_size=64):
            found, = exe.run(evaluation, feed={'pixels': x, 'digit': y}, fetch_list=[scores])
            metric.update(metric.compute(found, y))
        print('epoch %2d: loss %.4f, held out %.3f' % (epoch, np.mean(losses), metric.accumulate()))

    with tempfile.TemporaryDirectory() as folder:
        feed = {'pixels': held_out.pixels, 'digit': held_out.digits}
        wanted, = exe.run(evaluation, feed=feed, fetch_list=[scores])
        found = common.deploy(folder, [pixels], scores, exe, [held_out.pixels], wanted)
    print('held-out accuracy %.3f' % (found.argmax(1) == held_out.digits[:, 0]).mean())


if __name__ == '__main__':
    main()
