"""Shapes found by a RetinaNet: all anchors of a pyramid are learned from, and the focal loss weighs them.

    retinanet.py [--seed N]

Teaches retinanet_target_assign, sigmoid_focal_loss and retinanet_detection_output; a pyramid of two maps, whose
levels are looked at by one head: parameters shared by their names.
Data: made pictures of one to three squares, discs and triangles; 100 of them are held out.
Quality over seeds 1 to 10, the mean average precision of boxes that share half with a true one:
    precision at least 0.950 (0.970 to 0.993)
"""
import argparse
import math
import tempfile

import numpy as np
import paddle.fluid as fluid

import scenes

STEPS = 500
BATCH = 8
CLASSES = len(scenes.KINDS) - 1  # each answers for itself: there is no class for the background
LEVELS = [(4, 12.0), (8, 18.0)]  # pixels between places, the side of anchors there
RATIOS = [0.6, 1.0, 1.6]


def convolved(x, channels, stride=1):
    x = fluid.layers.conv2d(x, channels, 3, stride=stride, padding=1, bias_attr=False)
    return fluid.layers.batch_norm(x, act='relu')


def pyramid(picture):
    """A fine map that knows what the coarse one saw, and the coarse one."""
    fine = convolved(convolved(convolved(picture, 16, 2), 32, 2), 32)
    coarse = convolved(convolved(fine, 48, 2), 48)
    coarse = fluid.layers.conv2d(coarse, 32, 1)
    raised = fluid.layers.resize_nearest(coarse, scale=2.0)
    return [fluid.layers.conv2d(fine, 32, 1) + raised, coarse]


def named(name, deviation=0.03, bias=0.0):
    """Parameters that all levels share."""
    return {'param_attr': fluid.ParamAttr(name + '_w', initializer=fluid.initializer.Normal(0.0, deviation)),
            'bias_attr': fluid.ParamAttr(name + '_b', initializer=fluid.initializer.Constant(bias))}


def head(x, name, width, **first):
    """[batch, anchors of the level, width]"""
    x = fluid.layers.conv2d(x, 48, 3, padding=1, act='relu', **named(name + '_hidden'))
    x = fluid.layers.conv2d(x, len(RATIOS) * width, 3, padding=1, **named(name, **first))
    return fluid.layers.reshape(fluid.layers.transpose(x, [0, 2, 3, 1]), [0, -1, width])


def answers(picture):
    """Logits, codes and anchors of every level, and the anchors' variances."""
    logits, codes, anchors, variances = [], [], [], []
    for x, (apart, side) in zip(pyramid(picture), LEVELS):
        # Nearly all anchors are nothing: to begin with one in a hundred, not in two, is taken for an object.
        logits.append(head(x, 'kind', CLASSES, bias=-math.log(99.0)))
        codes.append(head(x, 'place', 4))
        boxes, variance = fluid.layers.anchor_generator(x, [side], RATIOS, [1.0] * 4, [float(apart)] * 2)
        anchors.append(fluid.layers.reshape(boxes, [-1, 4]))
        variances.append(fluid.layers.reshape(variance, [-1, 4]))
    return logits, codes, anchors, variances


def loss_of(picture, info):
    logits, codes, anchors, variances = answers(picture)
    boxes = fluid.data('boxes', [None, 4], 'float32', lod_level=1)
    kinds = fluid.data('kinds', [None, 1], 'int32', lod_level=1)
    crowd = fluid.data('crowd', [None, 1], 'int32', lod_level=1)
    score, place, kind, wanted, weight, objects = fluid.layers.retinanet_target_assign(
        fluid.layers.concat(codes, axis=1), fluid.layers.concat(logits, axis=1), fluid.layers.concat(anchors),
        fluid.layers.concat(variances), boxes, kinds, crowd, info, CLASSES)
    objects = fluid.layers.reduce_sum(objects)
    guess = fluid.layers.reduce_sum(fluid.layers.sigmoid_focal_loss(score, kind, objects))
    shift = fluid.layers.smooth_l1(place, wanted, inside_weight=weight, outside_weight=weight, sigma=3.0)
    return guess, fluid.layers.reduce_sum(shift) / fluid.layers.cast(objects, 'float32')


def detections(picture, info):
    logits, codes, anchors, _ = answers(picture)
    return fluid.layers.retinanet_detection_output(codes, [fluid.layers.sigmoid(each) for each in logits], anchors,
                                                   info, score_threshold=0.05, nms_top_k=100, keep_top_k=20,
                                                   nms_threshold=0.4)


def build(seed):
    main, test, startup = fluid.Program(), fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    for program in (main, test):
        # Names count from 0 in both programs: they share parameters.
        with fluid.program_guard(program, startup), fluid.unique_name.guard():
            picture = fluid.data('picture', [None, 3, scenes.SIDE, scenes.SIDE], 'float32')
            info = fluid.data('info', [None, 3], 'float32')
            if program is main:
                losses = loss_of(picture, info)
                rate = fluid.layers.cosine_decay(0.004, step_each_epoch=1, epochs=STEPS)
                clip = fluid.clip.GradientClipByGlobalNorm(5.0)
                fluid.optimizer.Adam(rate, grad_clip=clip).minimize(losses[0] + losses[1])
            else:
                found = detections(picture, info)
    return main, test.clone(for_test=True), startup, losses, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    training, held_out = scenes.make(600, seed=1), scenes.make(100, seed=2)
    program, test, startup, losses, found = build(seed)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    said = []
    for step, some in enumerate(scenes.batches(training, BATCH, STEPS, seed), 1):
        said.append([loss.item() for loss in exe.run(program, feed=scenes.truths(some), fetch_list=list(losses))])
        if step % 100 == 0:
            print('step %d: losses of kinds and places %s' % (step, np.mean(said[-100:], axis=0).round(3)))
    feed = {name: scenes.truths(held_out)[name] for name in ('picture', 'info')}
    wanted = exe.run(test, feed=feed, fetch_list=[found], return_numpy=False)
    with tempfile.TemporaryDirectory() as folder:
        result, = scenes.deploy(folder, ['picture', 'info'], [found], exe, test, feed, wanted)
    rows = scenes.by_picture(result)
    for each in rows:
        each[:, 4:] += 1  # pixels counted from 0: the last one belongs to the box
    print('held-out precision %.3f' % scenes.mean_average_precision(rows, held_out))


if __name__ == '__main__':
    main()
