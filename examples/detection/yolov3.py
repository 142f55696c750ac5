"""Shapes found by a YOLO of two scales: every place says what is there, for three sizes of box.

    yolov3.py [--seed N]

Teaches yolov3_loss, yolo_box and multiclass_nms; maps of two scales, the finer one with what the coarser one
knows (resize_nearest, concat); truth padded with empty boxes, middles and sizes instead of corners.
Data: made pictures of one to three squares, discs and triangles; 100 of them are held out.
Quality over seeds 1 to 10, the mean average precision of boxes that share half with a true one:
    precision at least 0.840 (0.902 to 0.984)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.regularizer import L2Decay

import scenes

STEPS = 700
BATCH = 16
CLASSES = len(scenes.KINDS) - 1  # a YOLO has no class for the background: kinds count from 0
MOST = 3  # objects in a picture
ANCHORS = [13, 13, 13, 19, 19, 13, 17, 17, 17, 21, 21, 17]  # width and height of six boxes, in pixels
SCALES = [(8, [3, 4, 5]), (4, [0, 1, 2])]  # pixels between places, which anchors start there


def convolved(x, channels, stride=1, side=3):
    x = fluid.layers.conv2d(x, channels, side, stride=stride, padding=side // 2, bias_attr=False)
    x = fluid.layers.batch_norm(x, param_attr=fluid.ParamAttr(regularizer=L2Decay(0.0)))
    return fluid.layers.leaky_relu(x, alpha=0.1)


def residual(x, channels):
    return x + convolved(convolved(x, channels // 2, side=1), channels)


def said(picture):
    """What the net says at the places of both scales: [batch, anchors * (5 + CLASSES), height, width]."""
    fine = residual(convolved(convolved(picture, 16, 2), 32, 2), 32)
    coarse = residual(convolved(fine, 64, 2), 64)
    raised = fluid.layers.resize_nearest(convolved(coarse, 32, side=1), scale=2.0)
    fine = convolved(fluid.layers.concat([raised, fine], axis=1), 48)
    return [fluid.layers.conv2d(each, 3 * (5 + CLASSES), 1) for each in (coarse, fine)]


def detections(maps, size):
    """The best boxes of both scales, corners in pixels."""
    boxes, scores = zip(*[
        fluid.layers.yolo_box(each, size, [ANCHORS[2 * i + j] for i in own for j in (0, 1)], CLASSES,
                              conf_thresh=0.01, downsample_ratio=apart)
        for each, (apart, own) in zip(maps, SCALES)])
    scores = fluid.layers.transpose(fluid.layers.concat(list(scores), axis=1), [0, 2, 1])
    return fluid.layers.multiclass_nms(fluid.layers.concat(list(boxes), axis=1), scores, score_threshold=0.02,
                                       nms_top_k=100, keep_top_k=20, nms_threshold=0.45, normalized=False,
                                       background_label=-1)


def build(seed):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        picture = fluid.data('picture', [None, 3, scenes.SIDE, scenes.SIDE], 'float32')
        boxes = fluid.data('boxes', [None, MOST, 4], 'float32')
        kinds = fluid.data('kinds', [None, MOST], 'int32')
        maps = said(picture)
        test = main.clone(for_test=True)
        with fluid.program_guard(test):
            found = detections(maps, fluid.data('size', [None, 2], 'int32'))
        losses = [fluid.layers.yolov3_loss(each, boxes, kinds, ANCHORS, own, CLASSES, ignore_thresh=0.6,
                                           downsample_ratio=apart, use_label_smooth=False)
                  for each, (apart, own) in zip(maps, SCALES)]
        loss = fluid.layers.mean(fluid.layers.sums(losses))
        rate = fluid.layers.cosine_decay(0.012, step_each_epoch=1, epochs=STEPS)
        fluid.optimizer.Adam(rate, regularization=L2Decay(1e-4)).minimize(loss)
    return main, test, startup, loss, found


def feed(some):
    """Middles, widths and heights in parts of the picture; where there is no object, all four are 0."""
    boxes, kinds = np.zeros((len(some), MOST, 4), 'float32'), np.zeros((len(some), MOST), 'int32')
    for i, scene in enumerate(some):
        count = len(scene.boxes)
        boxes[i, :count, :2] = (scene.boxes[:, :2] + scene.boxes[:, 2:]) / 2 / scenes.SIDE
        boxes[i, :count, 2:] = (scene.boxes[:, 2:] - scene.boxes[:, :2]) / scenes.SIDE
        kinds[i, :count] = scene.kinds - 1
    return {'picture': scenes.pictures(some), 'boxes': boxes, 'kinds': kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    training, held_out = scenes.make(600, seed=1), scenes.make(100, seed=2)
    program, test, startup, loss, found = build(seed)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    losses = []
    for step, some in enumerate(scenes.batches(training, BATCH, STEPS, seed), 1):
        losses += exe.run(program, feed=feed(some), fetch_list=[loss])
        if step % 100 == 0:
            print('step %d: loss %.3f' % (step, np.mean(losses[-100:])))
    shown = {'picture': scenes.pictures(held_out), 'size': np.full((len(held_out), 2), scenes.SIDE, 'int32')}
    wanted = exe.run(test, feed=shown, fetch_list=[found], return_numpy=False)
    with tempfile.TemporaryDirectory() as folder:
        result, = scenes.deploy(folder, ['picture', 'size'], [found], exe, test, shown, wanted)
    rows = scenes.by_picture(result)
    for each in rows:
        each[:, 0] += 1
    print('held-out precision %.3f' % scenes.mean_average_precision(rows, held_out))


if __name__ == '__main__':
    main()
