"""Shapes found by an SSD: boxes at every place of two maps, each with its class and its shift.

    ssd.py [--seed N]

Teaches multi_box_head, ssd_loss, detection_output and the metric DetectionMAP, which counts inside the program
and over batches; boxes in parts of the picture, one sequence for each picture.
Data: made pictures of one to three squares, discs and triangles; 100 of them are held out.
Quality over seeds 1 to 10, the mean average precision of boxes that share half with a true one:
    precision at least 0.900 (0.941 to 0.989)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import scenes

STEPS = 200
BATCH = 16


def convolved(x, channels, stride):
    x = fluid.layers.conv2d(x, channels, 3, stride=stride, padding=1, bias_attr=False)
    return fluid.layers.batch_norm(x, act='relu')


def maps(picture):
    """12 x 12 places for the smaller boxes, 6 x 6 for the larger ones."""
    fine = convolved(convolved(convolved(picture, 16, 2), 32, 2), 32, 1)
    return [fine, convolved(convolved(fine, 48, 2), 48, 1)]


def build(seed):
    """The training program with its loss; the test program with what is found and its metric; the startup program."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        picture = fluid.data('picture', [None, 3, scenes.SIDE, scenes.SIDE], 'float32')
        boxes = fluid.data('boxes', [None, 4], 'float32', lod_level=1)
        kinds = fluid.data('kinds', [None, 1], 'int32', lod_level=1)
        places, classes, priors, variances = fluid.layers.multi_box_head(
            maps(picture), picture, scenes.SIDE, len(scenes.KINDS), aspect_ratios=[[1.5], [1.5]],
            min_sizes=[12.0, 17.0], max_sizes=[17.0, 23.0], kernel_size=3, pad=1)
        loss = fluid.layers.mean(fluid.layers.ssd_loss(places, classes, boxes, kinds, priors, variances))
        test = main.clone(for_test=True)
        with fluid.program_guard(test):
            found = fluid.layers.detection_output(places, classes, priors, variances, nms_threshold=0.45,
                                                  keep_top_k=20, score_threshold=0.05)
            metric = fluid.metrics.DetectionMAP(found, kinds, boxes, class_num=len(scenes.KINDS))
        rate = fluid.layers.piecewise_decay([STEPS * 3 // 4], [0.004, 0.0008])
        fluid.optimizer.Adam(rate).minimize(loss)
    return main, test, startup, loss, found, metric


def feed(some):
    return {'picture': scenes.pictures(some),
            'boxes': scenes.sequences([scene.boxes / scenes.SIDE for scene in some]),
            'kinds': scenes.sequences([np.int32(scene.kinds)[:, None] for scene in some])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    training, held_out = scenes.make(600, seed=1), scenes.make(100, seed=2)
    program, test, startup, loss, found, metric = build(seed)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    losses = []
    for step, some in enumerate(scenes.batches(training, BATCH, STEPS, seed), 1):
        losses += exe.run(program, feed=feed(some), fetch_list=[loss])
        if step % 100 == 0:
            print('step %d: loss %.3f' % (step, np.mean(losses[-100:])))
    metric.reset(exe)
    for at in range(0, len(held_out), 20):  # the metric goes on from batch to batch
        _, precision = exe.run(test, feed=feed(held_out[at:at + 20]), fetch_list=list(metric.get_map_var()))
    wanted = exe.run(test, feed=feed(held_out), fetch_list=[found], return_numpy=False)
    with tempfile.TemporaryDirectory() as folder:
        scenes.deploy(folder, ['picture'], [found], exe, test, feed(held_out), wanted)
    print('held-out precision %.3f' % precision.item())


if __name__ == '__main__':
    main()
