"""Shapes found and cut out: a third stage says of every pixel of a found box whether it belongs to the object.

    mask_rcnn.py [--seed N]

Teaches generate_mask_labels, outlines in three levels of sequences, conv2d_transpose, and masks that are learned
for the object's own class only (ignore_index). The first two stages are those of faster_rcnn.py.
Data: made pictures of one to three squares, discs and triangles; 100 of them are held out.
Quality over seeds 1 to 10: how much of an object and of its mask the two share, 0 for an object not found:
    overlap at least 0.842 (0.852 to 0.864)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import faster_rcnn
import scenes

STEPS = 400
RESOLUTION = 14  # of a mask
CLASSES = faster_rcnn.CLASSES


def masks_of(trunk, regions):
    """Logits [regions, CLASSES, RESOLUTION, RESOLUTION]"""
    seen = fluid.layers.roi_align(trunk, regions, RESOLUTION // 2, RESOLUTION // 2,
                                  spatial_scale=1.0 / faster_rcnn.APART, sampling_ratio=2)
    seen = fluid.layers.conv2d(seen, 32, 3, padding=1, act='relu')
    seen = fluid.layers.conv2d_transpose(seen, 32, filter_size=2, stride=2, act='relu')
    return fluid.layers.conv2d(seen, CLASSES, 1)


def mask_loss(trunk, info, kinds, crowd, regions, region_kinds):
    outlines = fluid.data('outlines', [None, 2], 'float32', lod_level=3)
    chosen, _, wanted = fluid.layers.generate_mask_labels(info, kinds, crowd, outlines, regions, region_kinds,
                                                          CLASSES, RESOLUTION)
    said = fluid.layers.reshape(masks_of(trunk, chosen), [-1, CLASSES * RESOLUTION * RESOLUTION])
    wanted = fluid.layers.cast(wanted, 'float32')
    wanted.stop_gradient = True
    loss = fluid.layers.sigmoid_cross_entropy_with_logits(said, wanted, ignore_index=-1, normalize=True)
    return fluid.layers.reduce_sum(loss)


def build(seed):
    startup = fluid.Program()
    startup.random_seed = seed
    programs = []
    for training in (True, False):
        program = fluid.Program()
        program.random_seed = seed
        # Names count from 0 in both programs: they share parameters.
        with fluid.program_guard(program, startup), fluid.unique_name.guard():
            picture, info, boxes, kinds, crowd = faster_rcnn.inputs()
            trunk = faster_rcnn.trunk_of(picture)
            proposals = faster_rcnn.Proposals(trunk, info)
            if training:
                losses, regions, region_kinds = faster_rcnn.training_losses(trunk, proposals, boxes, kinds, crowd)
                with fluid.unique_name.guard('mask_'):
                    losses.append(mask_loss(trunk, info, kinds, crowd, regions, region_kinds))
                rate = fluid.layers.cosine_decay(0.003, step_each_epoch=1, epochs=STEPS)
                fluid.optimizer.Adam(rate).minimize(fluid.layers.sums(losses))
                programs += [program, losses]
            else:
                found = faster_rcnn.detections(trunk, proposals)
                corners = fluid.layers.slice(found, axes=[1], starts=[2], ends=[6])
                with fluid.unique_name.guard('mask_'):
                    masks = fluid.layers.sigmoid(masks_of(trunk, corners))
                programs += [program.clone(for_test=True), [found, masks]]
    return startup, programs


def truths(some):
    """Each object of a picture has one outline, each outline its points."""
    points = np.concatenate([outline for scene in some for outline in scene.outlines])
    lengths = [[len(scene.outlines) for scene in some],
               [1 for scene in some for _ in scene.outlines],
               [len(outline) for scene in some for outline in scene.outlines]]
    return dict(scenes.truths(some), outlines=fluid.create_lod_tensor(points, lengths, fluid.CPUPlace()))


def painted(box, mask):
    """Which pixels of the picture a mask says belong to the object: each asks the cell of the mask it lies in."""
    size = np.maximum(box[2:] - box[:2], 1e-3)
    y, x = np.mgrid[:scenes.SIDE, :scenes.SIDE] + 0.5
    column = np.floor((x - box[0]) / size[0] * RESOLUTION).astype(int)
    row = np.floor((y - box[1]) / size[1] * RESOLUTION).astype(int)
    within = (column >= 0) & (column < RESOLUTION) & (row >= 0) & (row < RESOLUTION)
    return within & (mask[row.clip(0, RESOLUTION - 1), column.clip(0, RESOLUTION - 1)] > 0.5)


def mean_overlap(rows, masks, some):
    """Of every true object with the mask of the surest box of its kind that covers half of it."""
    shares = []
    masks = np.split(masks, np.cumsum([len(each) for each in rows])[:-1])
    for each, own, scene in zip(rows, masks, some):
        for box, kind, outline in zip(scene.boxes, scene.kinds, scene.outlines):
            near = np.flatnonzero((each[:, 0] == kind) & (scenes.overlaps(each[:, 2:], box[None])[:, 0] > 0.5))
            if not len(near):
                shares.append(0.0)
                continue
            best = near[each[near, 1].argmax()]
            said, true = painted(each[best, 2:], own[best, kind]), scenes.inside(outline)
            shares.append((said & true).sum() / (said | true).sum())
    return np.mean(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    training, held_out = scenes.make(600, seed=1), scenes.make(100, seed=2)
    startup, (program, losses, test, fetches) = build(seed)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    said = []
    for step, some in enumerate(scenes.batches(training, faster_rcnn.BATCH, STEPS, seed), 1):
        said.append([loss.item() for loss in exe.run(program, feed=truths(some), fetch_list=losses)])
        if step % 100 == 0:
            print('step %d: losses %s' % (step, np.mean(said[-100:], axis=0).round(3)))
    feed = {name: scenes.truths(held_out)[name] for name in ('picture', 'info')}
    wanted = exe.run(test, feed=feed, fetch_list=fetches, return_numpy=False)
    with tempfile.TemporaryDirectory() as folder:
        rows, masks = scenes.deploy(folder, ['picture', 'info'], fetches, exe, test, feed, wanted)
    rows = scenes.by_picture(rows)
    for each in rows:
        each[:, 4:] += 1  # pixels counted from 0: the last one belongs to the box
    print('held-out overlap %.3f' % mean_overlap(rows, np.array(masks), held_out))


if __name__ == '__main__':
    main()
