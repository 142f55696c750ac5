"""Layers of detectors that learn: targets of anchors, proposals and masks, losses; and pyramids of proposals."""
import _trireme as _C

from ..framework import default_main_program
from .apply import one

__all__ = ['yolov3_loss', 'rpn_target_assign', 'retinanet_target_assign', 'generate_proposal_labels',
           'generate_mask_labels', 'collect_fpn_proposals', 'distribute_fpn_proposals', 'box_decoder_and_assign',
           'retinanet_detection_output', 'matrix_nms', 'locality_aware_nms', 'sigmoid_focal_loss']


def _fixed(found):
    """Variables that nothing is learned through."""
    for part in found:
        part.stop_gradient = True
    return found


def yolov3_loss(x, gt_box, gt_label, anchors, anchor_mask, class_num, ignore_thresh, downsample_ratio, gt_score=None,
                use_label_smooth=True, name=None, scale_x_y=1.0):
    """A YOLO's loss at one scale, of each image: of places, classes, and whether there is an object."""
    return one('yolov3_loss', {'X': x, 'GTBox': gt_box, 'GTLabel': gt_label, 'GTScore': gt_score},
               {'anchors': list(anchors), 'anchor_mask': list(anchor_mask), 'class_num': class_num,
                'ignore_thresh': float(ignore_thresh), 'downsample_ratio': downsample_ratio,
                'use_label_smooth': use_label_smooth, 'scale_x_y': float(scale_x_y)}, name, out='Loss')


def sigmoid_focal_loss(x, label, fg_num, gamma=2.0, alpha=0.25):
    """The cross entropy of every class, weighed by how wrong the answer is, divided by fg_num."""
    return one('sigmoid_focal_loss', {'X': x, 'Label': label, 'FgNum': fg_num},
               {'gamma': float(gamma), 'alpha': float(alpha)})


# ---- targets

def _targets(op, inputs, attrs, slots):
    if attrs.get('use_random'):
        attrs = dict(attrs, seed=default_main_program().random_seed)
    outs = _C.apply(op, inputs, attrs, None)
    return _fixed([outs[slot][0] for slot in slots])


def _said_of(anchors, said, width):
    """What the network says of some anchors of all images."""
    return _C.gather(_C.reshape(said, [-1, width]), anchors)


ANCHOR_SLOTS = ['LocationIndex', 'ScoreIndex', 'TargetLabel', 'TargetBBox', 'BBoxInsideWeight']


def rpn_target_assign(bbox_pred, cls_logits, anchor_box, anchor_var, gt_boxes, is_crowd, im_info,
                      rpn_batch_size_per_im=256, rpn_straddle_thresh=0.0, rpn_fg_fraction=0.5, rpn_positive_overlap=0.7,
                      rpn_negative_overlap=0.3, use_random=True):
    """Which anchors a region network learns from: scores and places that it says, and what they should be."""
    del anchor_var  # codes are not divided by variances
    places, scored, label, box, weight = _targets(
        'rpn_target_assign', {'Anchor': anchor_box, 'GtBoxes': gt_boxes, 'IsCrowd': is_crowd, 'ImInfo': im_info},
        {'rpn_batch_size_per_im': rpn_batch_size_per_im, 'rpn_straddle_thresh': float(rpn_straddle_thresh),
         'rpn_positive_overlap': float(rpn_positive_overlap), 'rpn_negative_overlap': float(rpn_negative_overlap),
         'rpn_fg_fraction': float(rpn_fg_fraction), 'use_random': use_random}, ANCHOR_SLOTS)
    return _said_of(scored, cls_logits, 1), _said_of(places, bbox_pred, 4), label, box, weight


def retinanet_target_assign(bbox_pred, cls_logits, anchor_box, anchor_var, gt_boxes, gt_labels, is_crowd, im_info,
                            num_classes=1, positive_overlap=0.5, negative_overlap=0.4):
    """As rpn_target_assign, of all anchors and with classes; last, how many objects each image has, and one more."""
    del anchor_var
    places, scored, label, box, weight, number = _targets(
        'retinanet_target_assign',
        {'Anchor': anchor_box, 'GtBoxes': gt_boxes, 'GtLabels': gt_labels, 'IsCrowd': is_crowd, 'ImInfo': im_info},
        {'positive_overlap': float(positive_overlap), 'negative_overlap': float(negative_overlap)},
        ANCHOR_SLOTS + ['ForegroundNumber'])
    return (_said_of(scored, cls_logits, num_classes), _said_of(places, bbox_pred, 4), label, box, weight, number)


def generate_proposal_labels(rpn_rois, gt_classes, is_crowd, gt_boxes, im_info, batch_size_per_im=256, fg_fraction=0.25,
                             fg_thresh=0.25, bg_thresh_hi=0.5, bg_thresh_lo=0.0, bbox_reg_weights=[0.1, 0.1, 0.2, 0.2],
                             class_nums=None, use_random=True, is_cls_agnostic=False, is_cascade_rcnn=False):
    """Which proposals a detector learns from: boxes, classes, codes of the true boxes, and two weights for them."""
    if class_nums is None:
        raise ValueError('generate_proposal_labels needs class_nums')
    return tuple(_targets(
        'generate_proposal_labels',
        {'RpnRois': rpn_rois, 'GtClasses': gt_classes, 'IsCrowd': is_crowd, 'GtBoxes': gt_boxes, 'ImInfo': im_info},
        {'batch_size_per_im': batch_size_per_im, 'fg_fraction': float(fg_fraction), 'fg_thresh': float(fg_thresh),
         'bg_thresh_hi': float(bg_thresh_hi), 'bg_thresh_lo': float(bg_thresh_lo),
         'bbox_reg_weights': [float(weight) for weight in bbox_reg_weights], 'class_nums': class_nums,
         'use_random': use_random, 'is_cls_agnostic': is_cls_agnostic, 'is_cascade_rcnn': is_cascade_rcnn},
        ['Rois', 'LabelsInt32', 'BboxTargets', 'BboxInsideWeights', 'BboxOutsideWeights']))


def generate_mask_labels(im_info, gt_classes, is_crowd, gt_segms, rois, labels_int32, num_classes, resolution):
    """What masks are to learn: the boxes that are objects, which of an image's boxes they are, and the masks."""
    return tuple(_targets(
        'generate_mask_labels',
        {'ImInfo': im_info, 'GtClasses': gt_classes, 'IsCrowd': is_crowd, 'GtSegms': gt_segms, 'Rois': rois,
         'LabelsInt32': labels_int32},
        {'num_classes': num_classes, 'resolution': resolution}, ['MaskRois', 'RoiHasMaskInt32', 'MaskInt32']))


# ---- pyramids

def collect_fpn_proposals(multi_rois, multi_scores, min_level, max_level, post_nms_top_n, name=None):
    """The best boxes of levels min_level to max_level."""
    count = max_level - min_level + 1
    if len(multi_rois) < count or len(multi_scores) < count:
        raise ValueError(f'there are {count} levels but boxes of {len(multi_rois)} and scores of {len(multi_scores)}')
    found = one('collect_fpn_proposals', {'MultiLevelRois': list(multi_rois[:count]),
                                          'MultiLevelScores': list(multi_scores[:count])},
                {'post_nms_topN': post_nms_top_n}, name, out='FpnRois')
    return _fixed([found])[0]


def distribute_fpn_proposals(fpn_rois, min_level, max_level, refer_level, refer_scale, name=None):
    """The boxes of every level, by their size; and where each box of fpn_rois stands in those, one after another."""
    outs = _C.apply('distribute_fpn_proposals', {'FpnRois': fpn_rois},
                    {'min_level': min_level, 'max_level': max_level, 'refer_level': refer_level,
                     'refer_scale': refer_scale}, name, out_counts={'MultiFpnRois': max_level - min_level + 1})
    return _fixed(outs['MultiFpnRois']), outs['RestoreIndex'][0]


def box_decoder_and_assign(prior_box, prior_box_var, target_box, box_score, box_clip, name=None):
    """Boxes of every class from their codes, and the one of the likeliest class."""
    outs = _C.apply('box_decoder_and_assign', {'PriorBox': prior_box, 'PriorBoxVar': prior_box_var,
                                               'TargetBox': target_box, 'BoxScore': box_score},
                    {'box_clip': float(box_clip)}, name)
    return outs['DecodeBox'][0], outs['OutputAssignBox'][0]


# ---- other choices of the best

def _best(score_threshold, nms_top_k, keep_top_k, **more):
    return dict(more, score_threshold=float(score_threshold), nms_top_k=nms_top_k, keep_top_k=keep_top_k)


def retinanet_detection_output(bboxes, scores, anchors, im_info, score_threshold=0.05, nms_top_k=1000, keep_top_k=100,
                               nms_threshold=0.3, nms_eta=1.0):
    """What a RetinaNet found: class, score and corners of each box."""
    found = one('retinanet_detection_output',
                {'BBoxes': list(bboxes), 'Scores': list(scores), 'Anchors': list(anchors), 'ImInfo': im_info},
                _best(score_threshold, nms_top_k, keep_top_k, nms_threshold=float(nms_threshold),
                      nms_eta=float(nms_eta)))
    return _fixed([found])[0]


def matrix_nms(bboxes, scores, score_threshold, post_threshold, nms_top_k, keep_top_k, use_gaussian=False,
               gaussian_sigma=2.0, background_label=0, normalized=True, return_index=False, name=None):
    """The best boxes, whose scores decay where better ones cover them; with return_index also which they are."""
    outs = _C.apply('matrix_nms', {'BBoxes': bboxes, 'Scores': scores},
                    _best(score_threshold, nms_top_k, keep_top_k, post_threshold=float(post_threshold),
                          use_gaussian=use_gaussian, gaussian_sigma=float(gaussian_sigma),
                          background_label=background_label, normalized=normalized), name)
    found, index = _fixed([outs['Out'][0], outs['Index'][0]])
    return (found, index) if return_index else found


def locality_aware_nms(bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold=0.3, normalized=True,
                       nms_eta=1.0, background_label=-1, name=None):
    """The best boxes, after neighbours that overlap were merged."""
    found = one('locality_aware_nms', {'BBoxes': bboxes, 'Scores': scores},
                _best(score_threshold, nms_top_k, keep_top_k, nms_threshold=float(nms_threshold),
                      nms_eta=float(nms_eta), background_label=background_label, normalized=normalized), name)
    return _fixed([found])[0]
