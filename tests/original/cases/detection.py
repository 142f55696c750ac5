"""Layers of detectors."""
import numpy as np

from case import L, case

BOXES = np.array([[0.1, 0.1, 0.4, 0.5], [0.15, 0.12, 0.42, 0.5], [0.5, 0.5, 0.9, 0.8], [0.0, 0.2, 0.3, 0.9],
                  [0.52, 0.48, 0.88, 0.83]], 'float32')
TRUTH = np.array([[0.12, 0.1, 0.42, 0.52], [0.5, 0.5, 0.85, 0.8], [0.0, 0.3, 0.3, 0.8]], 'float32')


@case
def prior_box(c):
    return L.prior_box(c.x([1, 2, 3, 4], fixed=True), c.x([1, 3, 30, 36], fixed=True), [4.0, 8.0], [6.0, 12.0],
                       [2.0, 3.0], flip=True, clip=True)


@case
def prior_box_largest_second(c):
    return L.prior_box(c.x([1, 2, 2, 2], fixed=True), c.x([1, 3, 30, 36], fixed=True), [4.0], [6.0], [1.0, 2.0],
                       steps=[12.0, 14.0], offset=0.3, min_max_aspect_ratios_order=True)


@case
def density_prior_box(c):
    return L.density_prior_box(c.x([1, 2, 2, 3], fixed=True), c.x([1, 3, 30, 36], fixed=True), [2, 1], [4.0, 8.0],
                               [1.0, 2.0])


@case
def density_prior_box_flat(c):
    return L.density_prior_box(c.x([1, 2, 2, 3], fixed=True), c.x([1, 3, 30, 36], fixed=True), [3], [8.0], [1.0],
                               clip=True, steps=[10.0, 11.0], flatten_to_2d=True)


@case
def anchor_generator(c):
    return L.anchor_generator(c.x([1, 2, 2, 3], fixed=True), [32.0, 64.0], [0.5, 1.0, 2.0], stride=[16.0, 8.0])


@case
def multi_box_head(c):
    maps = [c.x([2, 2, size, size]) for size in (4, 2, 1)]
    return list(L.multi_box_head(maps, c.x([2, 3, 32, 32]), 32, 3, [[2.0], [2.0, 3.0], [2.0]], min_ratio=20,
                                 max_ratio=90))


@case
def iou_similarity(c):
    return [L.iou_similarity(c.given(TRUTH, lod=[[2, 1]]), c.given(BOXES, fixed=True)),
            L.iou_similarity(c.given(np.round(TRUTH * 20)), c.given(np.round(BOXES * 20)), box_normalized=False)]


@case
def box_coder_encode(c):
    prior, target = c.given(BOXES, fixed=True), c.given(TRUTH)
    return [L.box_coder(prior, [0.1, 0.1, 0.2, 0.2], target), L.box_coder(prior, c.x([5, 4], 0.1, 0.3, fixed=True), target)]


@case
def box_coder_decode(c):
    prior = c.given(BOXES * 20, fixed=True)
    variance = c.x([5, 4], 0.1, 0.3, fixed=True)
    return [L.box_coder(prior, variance, c.x([2, 5, 4]), 'decode_center_size', False),
            L.box_coder(prior, [0.1, 0.1, 0.2, 0.2], c.x([5, 2, 4], fixed=True), 'decode_center_size', True, axis=1)]


@case
def box_clip(c):
    return L.box_clip(c.given(BOXES * 40 - 3, lod=[[3, 2]]), c.given(np.array([[40, 30, 2], [20, 24, 1]], 'float32')))


@case
def yolo_box(c):
    return list(L.yolo_box(c.x([2, 14, 3, 3], -3.0, 3.0), c.given(np.array([[90, 96], [48, 60]], 'int32')),
                           [10, 13, 16, 30], 2, 0.3, 32))


@case
def yolo_box_scaled(c):
    return list(L.yolo_box(c.x([1, 14, 3, 3], -3.0, 3.0), c.given(np.array([[90, 96]], 'int32')), [10, 13, 16, 30], 2,
                           0.3, 32, clip_bbox=False, scale_x_y=1.2))


@case
def bipartite_match(c):
    distances = c.x([5, 4], 0.0, 1.0, lod=[[2, 3]], grad=False)
    return list(L.bipartite_match(distances)) + list(L.bipartite_match(distances, 'per_prediction', 0.4))


@case
def target_assign(c):
    x = c.x([3, 1, 1], lod=[[1, 2]], grad=False)
    match = c.given(np.array([[-1, 0, -1, 0], [1, -1, 0, -1]], 'int32'))
    negative = c.given(np.array([[0], [1], [3]], 'int32'), lod=[[1, 2]])
    return list(L.target_assign(x, match, mismatch_value=5)) + list(L.target_assign(x, match, negative, 7))


@case
def ssd_loss(c):
    return L.ssd_loss(c.x([2, 5, 4]), c.x([2, 5, 3]), c.given(TRUTH, lod=[[2, 1]]),
                      c.given(np.array([[1], [2], [1]], 'int32'), lod=[[2, 1]]), c.given(BOXES, fixed=True),
                      c.x([5, 4], 0.1, 0.3, fixed=True, grad=False))


@case
def multiclass_nms(c):
    boxes = c.given(np.stack([BOXES, BOXES[::-1]]))
    scores = c.x([2, 3, 5], 0.0, 1.0, grad=False)
    return [L.multiclass_nms(boxes, scores, 0.1, 4, 5), L.multiclass_nms(boxes, scores, 0.3, -1, -1, 0.6, nms_eta=0.9)]


@case
def multiclass_nms_in_pixels(c):
    boxes = c.given(np.round(np.stack([BOXES, BOXES[::-1]]) * 20))
    return L.multiclass_nms(boxes, c.x([2, 3, 5], 0.0, 1.0, grad=False), 0.1, 4, 5, normalized=False,
                            background_label=-1)


@case
def detection_output(c):
    return L.detection_output(c.x([2, 5, 4], -0.5, 0.5), c.x([2, 5, 3]), c.given(BOXES, fixed=True),
                              c.x([5, 4], 0.1, 0.3, fixed=True), score_threshold=0.2)


@case
def detection_output_with_index(c):
    return list(L.detection_output(c.x([2, 5, 4], -0.5, 0.5), c.x([2, 5, 3]), c.given(BOXES, fixed=True),
                                   c.x([5, 4], 0.1, 0.3, fixed=True), score_threshold=0.2, return_index=True))


@case
def generate_proposals(c):
    anchors = np.array([[x * 8 - size, y * 8 - size, x * 8 + size, y * 8 + size]
                        for y in range(3) for x in range(3) for size in (6, 12)], 'float32').reshape(3, 3, 2, 4)
    return list(L.generate_proposals(c.x([2, 2, 3, 3], 0.0, 1.0), c.x([2, 8, 3, 3], -0.5, 0.5),
                                     c.given(np.array([[30, 28, 1.5], [24, 24, 1]], 'float32')),
                                     c.given(anchors, fixed=True),
                                     c.x([3, 3, 2, 4], 0.5, 1.0, fixed=True), pre_nms_top_n=12, post_nms_top_n=6,
                                     nms_thresh=0.6, min_size=3.0, return_rois_num=True))
