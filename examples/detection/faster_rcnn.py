"""Shapes found in two stages: a net proposes regions, another looks into each of them.

    faster_rcnn.py [--seed N]

Teaches anchor_generator, rpn_target_assign, generate_proposals, generate_proposal_labels, roi_align, box_coder
with classes, box_clip and multiclass_nms: both stages are trained together, by four losses.
Data: made pictures of one to three squares, discs and triangles; 100 of them are held out.
Quality over seeds 1 to 10, the mean average precision of boxes that share half with a true one:
    precision at least 0.800 (0.877 to 0.967)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import scenes

STEPS = 400
BATCH = 4
CLASSES = len(scenes.KINDS)
APART = 4  # pixels between places of the map
WEIGHTS = [0.1, 0.1, 0.2, 0.2]  # what codes of regions are divided by


def convolved(x, channels, stride=1):
    x = fluid.layers.conv2d(x, channels, 3, stride=stride, padding=1, bias_attr=False)
    return fluid.layers.batch_norm(x, act='relu')


def small(deviation=0.01):
    """The first values of a layer that begins close to saying nothing."""
    return fluid.ParamAttr(initializer=fluid.initializer.Normal(0.0, deviation))


class Proposals:
    """The first stage: for each anchor whether it is an object, and where that is."""

    def __init__(self, trunk, info):
        self.info = info
        self.anchors, self.variances = fluid.layers.anchor_generator(
            trunk, anchor_sizes=[13.0, 19.0], aspect_ratios=[0.7, 1.0, 1.4], variance=[1.0] * 4, stride=[APART] * 2)
        hidden = fluid.layers.conv2d(trunk, 48, 3, padding=1, act='relu', param_attr=small(0.03))
        self.scores = fluid.layers.conv2d(hidden, 6, 1, param_attr=small())
        self.codes = fluid.layers.conv2d(hidden, 24, 1, param_attr=small())

    def regions(self, count):
        """The best `count` of each picture."""
        regions, _ = fluid.layers.generate_proposals(
            fluid.layers.sigmoid(self.scores), self.codes, self.info, self.anchors, self.variances,
            pre_nms_top_n=200, post_nms_top_n=count, nms_thresh=0.7, min_size=4.0)
        return regions

    def losses(self, boxes, crowd):
        """Of whether there is an object, and of where it is."""
        scores = fluid.layers.reshape(fluid.layers.transpose(self.scores, [0, 2, 3, 1]), [0, -1, 1])
        codes = fluid.layers.reshape(fluid.layers.transpose(self.codes, [0, 2, 3, 1]), [0, -1, 4])
        score, place, wanted, wanted_place, weight = fluid.layers.rpn_target_assign(
            codes, scores, fluid.layers.reshape(self.anchors, [-1, 4]),
            fluid.layers.reshape(self.variances, [-1, 4]), boxes, crowd, self.info, rpn_batch_size_per_im=64,
            rpn_straddle_thresh=-1.0, rpn_positive_overlap=0.6)
        wanted = fluid.layers.cast(wanted, 'float32')
        wanted.stop_gradient = True
        guess = fluid.layers.sigmoid_cross_entropy_with_logits(score, wanted)
        shift = fluid.layers.smooth_l1(place, wanted_place, inside_weight=weight, outside_weight=weight, sigma=3.0)
        return fluid.layers.mean(guess), fluid.layers.mean(shift)


def classified(trunk, regions):
    """The second stage: classes of regions, and for each class where its object is."""
    seen = fluid.layers.roi_align(trunk, regions, 6, 6, spatial_scale=1.0 / APART, sampling_ratio=2)
    hidden = fluid.layers.fc(fluid.layers.fc(seen, 96, act='relu'), 96, act='relu')
    return fluid.layers.fc(hidden, CLASSES, param_attr=small()), fluid.layers.fc(hidden, 4 * CLASSES, param_attr=small())


def trunk_of(picture):
    return convolved(convolved(convolved(picture, 16, 2), 32, 2), 48)


def inputs():
    return (fluid.data('picture', [None, 3, scenes.SIDE, scenes.SIDE], 'float32'),
            fluid.data('info', [None, 3], 'float32'),
            fluid.data('boxes', [None, 4], 'float32', lod_level=1),
            fluid.data('kinds', [None, 1], 'int32', lod_level=1),
            fluid.data('crowd', [None, 1], 'int32', lod_level=1))


def training_losses(trunk, proposals, boxes, kinds, crowd):
    """The losses of both stages; the regions that the second one learns from, and their kinds."""
    chosen, kind, wanted_place, inner, outer = fluid.layers.generate_proposal_labels(
        proposals.regions(30), kinds, crowd, boxes, proposals.info, batch_size_per_im=24, fg_fraction=0.4,
        fg_thresh=0.5, bg_thresh_hi=0.5, bg_thresh_lo=0.0, bbox_reg_weights=WEIGHTS, class_nums=CLASSES)
    scores, codes = classified(trunk, chosen)
    label = fluid.layers.cast(kind, 'int64')
    label.stop_gradient = True
    guess = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, label))
    shift = fluid.layers.mean(fluid.layers.smooth_l1(codes, wanted_place, inner, outer, sigma=1.0))
    return list(proposals.losses(boxes, crowd)) + [guess, shift], chosen, kind


def detections(trunk, proposals):
    """The best boxes of every class: what the second stage makes of 30 regions of each picture."""
    regions = proposals.regions(30)
    scores, codes = classified(trunk, regions)
    codes = fluid.layers.reshape(codes, [-1, CLASSES, 4])
    boxes = fluid.layers.box_coder(regions, WEIGHTS, codes, 'decode_center_size', box_normalized=False, axis=1)
    boxes = fluid.layers.box_clip(boxes, proposals.info)
    return fluid.layers.multiclass_nms(boxes, fluid.layers.softmax(scores), score_threshold=0.05, nms_top_k=-1,
                                       keep_top_k=20, nms_threshold=0.4, normalized=False)


def build(seed):
    programs = []
    startup = fluid.Program()
    startup.random_seed = seed
    for training in (True, False):
        program = fluid.Program()
        program.random_seed = seed
        # Names count from 0 in both programs: they share parameters.
        with fluid.program_guard(program, startup), fluid.unique_name.guard():
            picture, info, boxes, kinds, crowd = inputs()
            trunk = trunk_of(picture)
            proposals = Proposals(trunk, info)
            if training:
                losses, _, _ = training_losses(trunk, proposals, boxes, kinds, crowd)
                loss = fluid.layers.sums(losses)
                rate = fluid.layers.cosine_decay(0.003, step_each_epoch=1, epochs=STEPS)
                fluid.optimizer.Adam(rate).minimize(loss)
                programs += [program, losses]
            else:
                found = detections(trunk, proposals)
                programs += [program.clone(for_test=True), found]
    return startup, programs


def train(exe, program, losses, seed, steps=STEPS):
    said = []
    for step, some in enumerate(scenes.batches(scenes.make(600, seed=1), BATCH, steps, seed), 1):
        said.append([loss.item() for loss in exe.run(program, feed=scenes.truths(some), fetch_list=losses)])
        if step % 100 == 0:
            print('step %d: losses %s' % (step, np.mean(said[-100:], axis=0).round(3)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    startup, (program, losses, test, found) = build(seed)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    train(exe, program, losses, seed)
    held_out = scenes.make(100, seed=2)
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
