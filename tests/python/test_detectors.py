"""Two small detectors learn where a square is: an SSD by its head and loss, a YOLO by its own."""
import numpy as np
import pytest

import paddle.fluid as fluid

L = fluid.layers
SIDE = 16


def pictures(count, seed):
    """Pictures with a bright square each, and its corners in parts of the picture."""
    chance = np.random.RandomState(seed)
    found = chance.uniform(-0.2, 0.2, (count, 1, SIDE, SIDE)).astype('float32')
    boxes = np.zeros((count, 4), 'float32')
    for picture, box in zip(found, boxes):
        side = chance.randint(5, 9)
        left, top = chance.randint(0, SIDE - side + 1, 2)
        picture[0, top:top + side, left:left + side] = 1
        box[:] = np.array([left, top, left + side, top + side]) / SIDE
    return found, boxes


def feature_map(picture):
    """4 x 4 places."""
    for _ in range(2):
        picture = L.batch_norm(L.conv2d(picture, 12, 3, stride=2, padding=1, bias_attr=False), act='relu')
    return L.conv2d(picture, 16, 3, padding=1, act='relu')


def ssd(picture):
    boxes = fluid.data('boxes', [None, 4], 'float32', lod_level=1)
    kinds = fluid.data('kinds', [None, 1], 'int32', lod_level=1)
    places, classes, priors, variances = L.multi_box_head([feature_map(picture)], picture, SIDE, 2, [[1.0]],
                                                          min_sizes=[6.0], kernel_size=3, pad=1)
    loss = L.mean(L.ssd_loss(places, classes, boxes, kinds, priors, variances))
    found = L.detection_output(places, classes, priors, variances, keep_top_k=1)

    def feed(some):
        lengths, place = [[1] * len(some)], fluid.CPUPlace()
        return {'boxes': fluid.create_lod_tensor(some, lengths, place),
                'kinds': fluid.create_lod_tensor(np.ones((len(some), 1), 'int32'), lengths, place)}
    return loss, found, feed, 1


def yolo(picture):
    boxes = fluid.data('boxes', [None, 1, 4], 'float32')
    kinds = fluid.data('kinds', [None, 1], 'int32')
    said = L.conv2d(feature_map(picture), 6, 1)
    how = dict(anchors=[6, 6], class_num=1, downsample_ratio=4)
    loss = L.mean(L.yolov3_loss(said, boxes, kinds, anchor_mask=[0], ignore_thresh=0.6, **how))
    size = L.fill_constant_batch_size_like(picture, [-1, 2], 'int32', SIDE)
    corners, scores = L.yolo_box(said, size, conf_thresh=0.01, **how)
    found = L.multiclass_nms(corners, L.transpose(scores, [0, 2, 1]), 0.01, 10, 1, background_label=-1)

    def feed(some):
        middles = np.concatenate([(some[:, :2] + some[:, 2:]) / 2, some[:, 2:] - some[:, :2]], axis=1)
        return {'boxes': middles[:, None], 'kinds': np.zeros((len(some), 1), 'int32')}
    return loss, found, feed, SIDE


def overlap(a, b):
    shared = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


@pytest.mark.parametrize('detector', [ssd, yolo])
def test_a_detector_finds_squares(detector):
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        picture = fluid.data('picture', [None, 1, SIDE, SIDE], 'float32')
        loss, found, feed, scale = detector(picture)
        test = main.clone(for_test=True)
        fluid.optimizer.Adam(0.01).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        losses = []
        for step in range(150):
            shown, boxes = pictures(16, seed=step)
            losses += exe.run(main, feed=dict(feed(boxes), picture=shown), fetch_list=[loss])
        shown, boxes = pictures(50, seed=1000)
        result, = exe.run(test, feed=dict(feed(boxes), picture=shown), fetch_list=[found], return_numpy=False)
    rows, ends = np.array(result), np.cumsum([0] + result.recursive_sequence_lengths()[0])
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:10])
    hits = [overlap(rows[at, 2:] / scale, box) > 0.5 for at, end, box in zip(ends, ends[1:], boxes) if end > at]
    assert sum(hits) >= 40, f'{sum(hits)} of 50 squares are found'
