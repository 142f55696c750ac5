"""Layers of detectors: targets, proposals over pyramids, losses, other ways to choose boxes."""
import numpy as np

from case import L, case

ANCHORS = np.array([[x * 8 - size, y * 8 - size, x * 8 + size - 1, y * 8 + size - 1]
                    for y in range(1, 4) for x in range(1, 4) for size in (4, 7)], 'float32')
TRUTH = np.array([[3.0, 4.0, 11.0, 12.0], [9.0, 10.0, 22.0, 23.0], [17.0, 1.0, 26.0, 8.0], [5.0, 5.0, 12.0, 11.0]],
                 'float32')
INFO = np.array([[32, 30, 1.0], [36, 36, 1.5]], 'float32')
CROWD = np.array([[0], [0], [1], [0]], 'int32')
PIXELS = np.array([[2, 2, 10, 12], [3, 2, 11, 12], [14, 14, 25, 22], [1, 6, 9, 25], [14, 13, 24, 23], [20, 4, 24, 9]],
                  'float32')


def _classes(values):
    return np.array(values, 'int32').reshape(-1, 1)


@case
def yolov3_loss(c):
    boxes = np.array([[[0.3, 0.3, 0.2, 0.4], [0.7, 0.6, 0.5, 0.3], [0.9, 0.1, 0.1, 0.1]],
                      [[0.5, 0.5, 0.9, 0.8], [0, 0, 0, 0], [0, 0, 0, 0]]], 'float32')
    labels = np.array([[0, 2, 1], [1, 0, 0]], 'int32')
    return L.yolov3_loss(c.x([2, 16, 4, 4]), c.given(boxes), c.given(labels), [10, 13, 36, 30, 61, 45], [0, 1], 3,
                         0.5, 32)


@case
def yolov3_loss_scored(c):
    boxes = np.array([[[0.3, 0.3, 0.2, 0.4], [0.7, 0.6, 0.5, 0.3], [0.32, 0.31, 0.2, 0.38]],
                      [[0.5, 0.5, 0.9, 0.8], [0.1, 0.9, 0.15, 0.1], [0, 0, 0, 0]]], 'float32')
    labels = np.array([[0, 2, 1], [1, 0, 0]], 'int32')
    score = np.array([[1.0, 0.6, 0.5], [0.8, 0.9, 0.0]], 'float32')
    return L.yolov3_loss(c.x([2, 24, 4, 4], -2.0, 2.0), c.given(boxes), c.given(labels), [10, 13, 36, 30, 61, 45],
                         [0, 1, 2], 3, 0.3, 16, gt_score=c.given(score), use_label_smooth=False, scale_x_y=1.1)


@case
def sigmoid_focal_loss(c):
    label = np.array([[0], [2], [-1], [3], [1]], 'int32')
    return L.sigmoid_focal_loss(c.x([5, 3], -3.0, 3.0), c.given(label), c.given(np.array([3], 'int32'), fixed=True))


@case
def sigmoid_focal_loss_otherwise(c):
    label = np.array([[0], [2], [1]], 'int32')
    return L.sigmoid_focal_loss(c.x([3, 2], -3.0, 3.0), c.given(label), c.given(np.array([0], 'int32'), fixed=True), 1.5,
                                0.6)


@case
def rpn_target_assign(c):
    return list(L.rpn_target_assign(c.x([2, 18, 4]), c.x([2, 18, 1]), c.given(ANCHORS, fixed=True),
                                    c.x([18, 4], 0.5, 1.0, fixed=True, grad=False), c.given(TRUTH, lod=[[2, 2]]),
                                    c.given(CROWD, lod=[[2, 2]]), c.given(INFO), rpn_batch_size_per_im=8,
                                    use_random=False))


@case
def rpn_target_assign_all(c):
    return list(L.rpn_target_assign(c.x([2, 18, 4]), c.x([2, 18, 1]), c.given(ANCHORS, fixed=True),
                                    c.x([18, 4], 0.5, 1.0, fixed=True, grad=False), c.given(TRUTH, lod=[[3, 1]]),
                                    c.given(CROWD, lod=[[3, 1]]), c.given(INFO), rpn_batch_size_per_im=40,
                                    rpn_straddle_thresh=-1.0, rpn_fg_fraction=0.5, rpn_positive_overlap=0.5,
                                    rpn_negative_overlap=0.6, use_random=False))


@case
def rpn_target_assign_fake(c):
    return list(L.rpn_target_assign(c.x([1, 18, 4]), c.x([1, 18, 1]), c.given(ANCHORS, fixed=True),
                                    c.x([18, 4], 0.5, 1.0, fixed=True, grad=False), c.given(TRUTH[2:3], lod=[[1]]),
                                    c.given(CROWD[:1], lod=[[1]]), c.given(INFO[:1]), rpn_batch_size_per_im=100,
                                    rpn_straddle_thresh=-1.0, rpn_positive_overlap=0.9, rpn_negative_overlap=0.95,
                                    use_random=False))


@case
def retinanet_target_assign(c):
    return list(L.retinanet_target_assign(c.x([2, 18, 4]), c.x([2, 18, 3]), c.given(ANCHORS, fixed=True),
                                          c.x([18, 4], 0.5, 1.0, fixed=True, grad=False), c.given(TRUTH, lod=[[2, 2]]),
                                          c.given(_classes([1, 3, 2, 2]), lod=[[2, 2]]),
                                          c.given(CROWD, lod=[[2, 2]]), c.given(INFO), num_classes=3))


@case
def retinanet_target_assign_wide(c):
    return list(L.retinanet_target_assign(c.x([1, 18, 4]), c.x([1, 18, 3]), c.given(ANCHORS, fixed=True),
                                          c.x([18, 4], 0.5, 1.0, fixed=True, grad=False), c.given(TRUTH[:3], lod=[[3]]),
                                          c.given(_classes([1, 3, 2]), lod=[[3]]), c.given(CROWD[:3], lod=[[3]]),
                                          c.given(INFO[:1]), 3, 0.9, 0.9))


@case
def retinanet_detection_output(c):
    boxes = [c.x([2, 9, 4], -0.3, 0.3), c.x([2, 9, 4], -0.3, 0.3)]
    scores = [c.x([2, 9, 3], 0.0, 1.0), c.x([2, 9, 3], 0.0, 1.0)]
    anchors = [c.given(ANCHORS[::2], fixed=True), c.given(ANCHORS[1::2], fixed=True)]
    return L.retinanet_detection_output(boxes, scores, anchors, c.given(INFO), score_threshold=0.5, nms_top_k=8,
                                        keep_top_k=7, nms_threshold=0.4)


@case
def generate_proposal_labels(c):
    return list(L.generate_proposal_labels(c.given(PIXELS, lod=[[4, 2]]), c.given(_classes([1, 3, 2, 2]), lod=[[2, 2]]),
                                           c.given(CROWD, lod=[[2, 2]]), c.given(TRUTH, lod=[[2, 2]]), c.given(INFO),
                                           batch_size_per_im=6, fg_fraction=0.5, fg_thresh=0.4, bg_thresh_hi=0.4,
                                           bg_thresh_lo=0.0, class_nums=4, use_random=False))


@case
def generate_proposal_labels_agnostic(c):
    return list(L.generate_proposal_labels(c.given(PIXELS, lod=[[4, 2]]), c.given(_classes([1, 3, 2, 2]), lod=[[2, 2]]),
                                           c.given(CROWD, lod=[[2, 2]]), c.given(TRUTH, lod=[[2, 2]]), c.given(INFO),
                                           batch_size_per_im=5, fg_fraction=0.25, fg_thresh=0.5, bg_thresh_hi=0.5,
                                           bg_thresh_lo=0.1, bbox_reg_weights=[0.1, 0.2, 0.3, 0.4], class_nums=2,
                                           use_random=False, is_cls_agnostic=True))


@case
def generate_proposal_labels_cascade(c):
    return list(L.generate_proposal_labels(c.given(PIXELS, lod=[[4, 2]]), c.given(_classes([1, 3, 2, 2]), lod=[[2, 2]]),
                                           c.given(CROWD, lod=[[2, 2]]), c.given(TRUTH, lod=[[2, 2]]), c.given(INFO),
                                           batch_size_per_im=5, fg_thresh=0.5, class_nums=4, use_random=False,
                                           is_cascade_rcnn=True))


@case
def generate_mask_labels(c):
    points = np.array([[3, 4], [11, 4], [11, 12], [3, 12],
                       [9, 10], [22, 11], [20, 23],
                       [12, 20], [16, 18], [15, 23], [10, 22],
                       [17, 1], [26, 2], [25, 8], [20, 5],
                       [5, 5], [12, 6], [9, 11]], 'float32')
    rois = np.array([[2, 3, 10, 12], [9, 9, 23, 24], [1, 1, 9, 9], [4, 5, 13, 12]], 'float32')
    return list(L.generate_mask_labels(c.given(INFO), c.given(_classes([1, 2, 1, 2]), lod=[[2, 2]]),
                                       c.given(CROWD, lod=[[2, 2]]),
                                       c.given(points, lod=[[2, 2], [1, 2, 1, 1], [4, 3, 4, 4, 3]]),
                                       c.given(rois, lod=[[3, 1]]), c.given(_classes([1, 2, 0, 2]), lod=[[3, 1]]), 3, 8))


@case
def collect_fpn_proposals(c):
    rois = [c.given(PIXELS[:4], lod=[[3, 1]]), c.given(PIXELS[4:], lod=[[1, 1]])]
    return L.collect_fpn_proposals(rois, [c.x([4, 1], 0.0, 1.0, lod=[[3, 1]], grad=False),
                                          c.x([2, 1], 0.0, 1.0, lod=[[1, 1]], grad=False)], 2, 3, 4)


@case
def distribute_fpn_proposals(c):
    rois = np.array([[0, 0, 10, 10], [0, 0, 100, 120], [5, 5, 300, 280], [3, 3, 500, 600], [1, 1, 60, 50],
                     [9, 9, 190, 200]], 'float32')
    levels, restore = L.distribute_fpn_proposals(c.given(rois, lod=[[2, 4]]), 2, 5, 4, 224)
    return list(levels) + [restore]


@case
def box_decoder_and_assign(c):
    return list(L.box_decoder_and_assign(c.given(PIXELS, lod=[[4, 2]]), c.given(np.array([0.1, 0.1, 0.2, 0.2], 'float32'), fixed=True),
                                         c.x([6, 12], -1.0, 1.0), c.x([6, 3], 0.0, 1.0), 0.1))


def _batch_of_boxes():
    return np.stack([PIXELS, PIXELS[::-1]]) / 32


@case
def matrix_nms(c):
    return list(L.matrix_nms(c.given(_batch_of_boxes()), c.x([2, 3, 6], 0.0, 1.0, grad=False), 0.1, 0.2, 5, 6,
                             return_index=True))


@case
def matrix_nms_gaussian(c):
    return L.matrix_nms(c.given(_batch_of_boxes() * 32), c.x([2, 3, 6], 0.0, 1.0, grad=False), 0.2, 0.0, -1, -1,
                        use_gaussian=True, gaussian_sigma=1.5, background_label=-1, normalized=False)


@case
def locality_aware_nms(c):
    return L.locality_aware_nms(c.given(_batch_of_boxes()[:1]), c.x([1, 1, 6], 0.0, 1.0, grad=False), 0.1, 6, 5, 0.3)


@case
def locality_aware_nms_in_pixels(c):
    return L.locality_aware_nms(c.given(_batch_of_boxes()[:1] * 32), c.x([1, 1, 6], 0.0, 1.0, grad=False), 0.3, -1, -1,
                                0.6, normalized=False, nms_eta=0.9)


@case
def locality_aware_nms_quads(c):
    corners = PIXELS[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(1, 6, 8)
    return L.locality_aware_nms(c.given(corners), c.x([1, 1, 6], 0.0, 1.0, grad=False), 0.1, -1, -1, 0.4,
                                normalized=False)
