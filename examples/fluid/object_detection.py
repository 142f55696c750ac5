"""Squares, discs and crosses found in noisy pictures: where they are, and what they are.

    object_detection.py [ssd|yolo] [--seed N]

Teaches two kinds of detectors. An SSD gives every place of its maps boxes of some sizes and learns the
class of each and how it is off; a YOLO lets the cell that an object's middle lies in say its place, size and
class. Both use boxes of any number for a picture: as sequences, or padded with empty boxes.
Data: 1,200 pictures of 3 x 32 x 32 made by rules, one to three shapes in each; 200 are held out.
F1 counts a shape as found where a box of its kind overlaps it by half, and each box once.
Quality over seeds 1 to 10:
    ssd: F1 at least 0.1 (0.2 to 0.4)
    yolo: F1 at least 0.1 (0.2 to 0.4)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import made_sets

EPOCHS = 12
BATCH = 20
KINDS = len(made_sets.SHAPES)
ANCHORS = [9, 9, 14, 14]  # width and height in pixels
MOST_SHAPES = 3


def features(picture):
    """Maps of 8 x 8 and of 4 x 4 places."""
    maps = []
    for channels in (16, 32, 48):
        picture = fluid.layers.conv2d(picture, channels, 3, stride=2, padding=1, bias_attr=False)
        picture = fluid.layers.batch_norm(picture, act='relu')
        picture = fluid.layers.conv2d(picture, channels, 3, padding=1, bias_attr=False)
        picture = fluid.layers.batch_norm(picture, act='relu')
        maps.append(picture)
    return maps[1:]


def ssd(picture):
    """(loss, what was found, how the truth is fed). Class 0 is the background."""
    boxes = fluid.data('boxes', [None, 4], 'float32', lod_level=1)
    kinds = fluid.data('kinds', [None, 1], 'int32', lod_level=1)
    places, classes, priors, variances = fluid.layers.multi_box_head(
        features(picture), picture, base_size=32, num_classes=KINDS + 1, aspect_ratios=[[1.0], [1.0]],
        min_sizes=[8.0, 13.0], max_sizes=[13.0, 18.0], kernel_size=3, pad=1)
    loss = fluid.layers.mean(fluid.layers.ssd_loss(places, classes, boxes, kinds, priors, variances))
    found = fluid.layers.detection_output(places, classes, priors, variances, nms_threshold=0.4,
                                          score_threshold=0.4)

    def feed(some_boxes, some_kinds):
        lengths = [[len(one) for one in some_boxes]]
        place = fluid.CPUPlace()
        return {'boxes': fluid.create_lod_tensor(np.concatenate(some_boxes), lengths, place),
                'kinds': fluid.create_lod_tensor(1 + np.concatenate(some_kinds)[:, None], lengths, place)}
    return loss, found, feed


def yolo(picture):
    """(loss, what was found, how the truth is fed)."""
    boxes = fluid.data('boxes', [None, MOST_SHAPES, 4], 'float32')
    kinds = fluid.data('kinds', [None, MOST_SHAPES], 'int32')
    said = fluid.layers.conv2d(features(picture)[1], len(ANCHORS) // 2 * (5 + KINDS), 1)
    how = dict(anchors=ANCHORS, class_num=KINDS, downsample_ratio=8)
    loss = fluid.layers.mean(fluid.layers.yolov3_loss(said, boxes, kinds, anchor_mask=[0, 1], ignore_thresh=0.6,
                                                      use_label_smooth=False, **how))
    size = fluid.layers.fill_constant_batch_size_like(picture, [-1, 2], 'int32', 32)
    corners, scores = fluid.layers.yolo_box(said, size, conf_thresh=0.1, **how)
    # The class of a box that a cell gives is one of KINDS: none of them is a background.
    found = fluid.layers.multiclass_nms(corners, fluid.layers.transpose(scores, [0, 2, 1]), score_threshold=0.3,
                                        nms_top_k=20, keep_top_k=10, nms_threshold=0.4, background_label=-1)

    def feed(some_boxes, some_kinds):
        padded = np.zeros((len(some_boxes), MOST_SHAPES, 4), 'float32')
        names = np.zeros((len(some_boxes), MOST_SHAPES), 'int32')
        for i, (box, kind) in enumerate(zip(some_boxes, some_kinds)):
            padded[i, :len(box)] = np.concatenate([(box[:, :2] + box[:, 2:]) / 2, box[:, 2:] - box[:, :2]], axis=1)
            names[i, :len(kind)] = kind
        return {'boxes': padded, 'kinds': names}
    return loss, found, feed


def overlap(a, b):
    shared = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def quality(found, boxes, kinds):
    """F1 of rows [kind, score, left, top, right, bottom] for each picture."""
    right = 0
    for rows, true_boxes, true_kinds in zip(found, boxes, kinds):
        left = set(range(len(true_boxes)))
        for row in sorted(rows, key=lambda row: -row[1]):
            fits = [i for i in left if true_kinds[i] == row[0] and overlap(row[2:], true_boxes[i]) >= 0.5]
            if fits:
                right += 1
                left.remove(max(fits, key=lambda i: overlap(row[2:], true_boxes[i])))
    return 2 * right / (sum(map(len, found)) + sum(map(len, boxes)))


def by_picture(result, way):
    """What a net found, a list of rows for each picture; kinds from 0, corners in parts of the picture."""
    rows = np.array(result)
    ends = np.cumsum([0] + result.recursive_sequence_lengths()[0])
    if rows.shape[1] == 1:  # a single -1: nothing was found in any of them
        return [[]] * (len(ends) - 1)
    rows = rows - [1, 0, 0, 0, 0, 0] if way == 'ssd' else rows / [1, 1, 32, 32, 32, 32]
    return [rows[begin:end] for begin, end in zip(ends, ends[1:])]


def train(way, folder, training, held_out, seed):
    """Trains a detector and saves it; returns what it found in the held-out pictures."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = seed
    pictures, boxes, kinds = training
    steps = len(pictures) // BATCH
    with fluid.program_guard(main, startup):
        picture = fluid.data('picture', [None, 3, 32, 32], 'float32')
        loss, found, feed = {'ssd': ssd, 'yolo': yolo}[way](picture)
        test = main.clone(for_test=True)
        fluid.optimizer.Adam(fluid.layers.cosine_decay(0.004, steps, EPOCHS)).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    chance = np.random.RandomState(seed)
    for epoch in range(1, EPOCHS + 1):
        losses, order = [], chance.permutation(len(pictures))
        for step in range(steps):
            rows = order[step * BATCH:(step + 1) * BATCH]
            truth = feed([boxes[i] for i in rows], [kinds[i] for i in rows])
            losses += exe.run(main, feed=dict(truth, picture=pictures[rows]), fetch_list=[loss])
        print('epoch %2d: loss %.4f' % (epoch, np.mean(losses)))
    fluid.io.save_inference_model(folder, ['picture'], [found], exe, main_program=test)
    result, = exe.run(test, feed=dict(feed(held_out[1], held_out[2]), picture=held_out[0]), fetch_list=[found],
                      return_numpy=False)
    return result


def predict(folder, pictures):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return exe.run(model, feed={feeds[0]: pictures}, fetch_list=fetches, return_numpy=False)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('way', nargs='?', choices=['ssd', 'yolo'], default='ssd')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    training, held_out = made_sets.pictures_of_shapes(1000, seed=1), made_sets.pictures_of_shapes(200, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        trained = train(args.way, folder, training, held_out, args.seed)
        result = predict(folder, held_out[0])
    assert np.array_equal(np.array(result), np.array(trained))
    print('the loaded model answers as the trained one')
    found = by_picture(result, args.way)
    for row in found[0]:
        print('a %s at %s, score %.2f' % (made_sets.SHAPES[int(row[0])], np.round(row[2:] * 32).astype(int), row[1]))
    print('held-out F1 %.3f' % quality(found, *held_out[1:]))


if __name__ == '__main__':
    main()
