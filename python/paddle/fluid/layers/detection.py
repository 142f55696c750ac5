"""Layers of detectors: boxes to start from, codes, matches, losses and the choice of the best."""
import math

import _trireme as _C

from .apply import one
from .elementwise import elementwise_add, elementwise_div, elementwise_mul
from .reduction import reduce_sum

__all__ = ['prior_box', 'density_prior_box', 'anchor_generator', 'multi_box_head', 'iou_similarity', 'box_coder',
           'box_clip', 'yolo_box', 'bipartite_match', 'target_assign', 'ssd_loss', 'multiclass_nms',
           'detection_output', 'generate_proposals']


def _numbers(value):
    """A list of floats, from one number or several."""
    return [float(one) for one in (value if isinstance(value, (list, tuple)) else [value])]


def _pair(first, second):
    first.stop_gradient = second.stop_gradient = True
    return first, second


# ---- boxes to start from

def prior_box(input, image, min_sizes, max_sizes=None, aspect_ratios=[1.], variance=[0.1, 0.1, 0.2, 0.2],
              flip=False, clip=False, steps=[0.0, 0.0], offset=0.5, name=None,
              min_max_aspect_ratios_order=False):
    """Boxes of some sizes and ratios at every place of input, as parts of image; and variances for them."""
    attrs = {'min_sizes': _numbers(min_sizes), 'aspect_ratios': _numbers(aspect_ratios),
             'variances': _numbers(variance), 'flip': flip, 'clip': clip, 'step_w': float(steps[0]),
             'step_h': float(steps[1]), 'offset': float(offset),
             'min_max_aspect_ratios_order': min_max_aspect_ratios_order}
    if max_sizes is not None and _numbers(max_sizes) and _numbers(max_sizes)[0] > 0:
        attrs['max_sizes'] = _numbers(max_sizes)
    outs = _C.apply('prior_box', {'Input': input, 'Image': image}, attrs, name)
    return _pair(outs['Boxes'][0], outs['Variances'][0])


def density_prior_box(input, image, densities=None, fixed_sizes=None, fixed_ratios=None,
                      variance=[0.1, 0.1, 0.2, 0.2], clip=False, steps=[0.0, 0.0], offset=0.5,
                      flatten_to_2d=False, name=None):
    """Squares of boxes of fixed sizes at every place of input, as parts of image; and variances for them."""
    attrs = {'densities': list(densities or []), 'fixed_sizes': _numbers(fixed_sizes or []),
             'fixed_ratios': _numbers(fixed_ratios or []), 'variances': _numbers(variance), 'clip': clip,
             'step_w': float(steps[0]), 'step_h': float(steps[1]), 'offset': float(offset),
             'flatten_to_2d': flatten_to_2d}
    outs = _C.apply('density_prior_box', {'Input': input, 'Image': image}, attrs, name)
    return _pair(outs['Boxes'][0], outs['Variances'][0])


def anchor_generator(input, anchor_sizes=None, aspect_ratios=None, variance=[0.1, 0.1, 0.2, 0.2], stride=None,
                     offset=0.5, name=None):
    """Boxes of some sizes and ratios at every place of input, in pixels; and variances for them."""
    attrs = {'anchor_sizes': _numbers(anchor_sizes), 'aspect_ratios': _numbers(aspect_ratios),
             'variances': _numbers(variance), 'stride': _numbers(stride), 'offset': float(offset)}
    outs = _C.apply('anchor_generator', {'Input': input}, attrs, name)
    return _pair(outs['Anchors'][0], outs['Variances'][0])


def _sizes_by_ratio(count, base_size, min_ratio, max_ratio):
    """Sizes of the maps of an SSD: the first is fixed, the others go evenly from one ratio to the other."""
    if min_ratio is None or max_ratio is None or count < 3:
        raise ValueError('multi_box_head needs min_sizes and max_sizes, or with three inputs or more '
                         'min_ratio and max_ratio')
    step = int(math.floor((max_ratio - min_ratio) / (count - 2)))
    ratios = range(min_ratio, max_ratio + 1, step)
    least = [base_size * 0.10] + [base_size * ratio / 100.0 for ratio in ratios]
    most = [base_size * 0.20] + [base_size * (ratio + step) / 100.0 for ratio in ratios]
    return least, most


def multi_box_head(inputs, image, base_size, num_classes, aspect_ratios, min_ratio=None, max_ratio=None,
                   min_sizes=None, max_sizes=None, steps=None, step_w=None, step_h=None, offset=0.5,
                   variance=[0.1, 0.1, 0.2, 0.2], flip=True, clip=False, kernel_size=1, pad=0, stride=1,
                   name=None, min_max_aspect_ratios_order=False):
    """An SSD's head over several maps: places of boxes, their classes, the boxes and their variances."""
    count = len(inputs)
    if min_sizes is None and count > 2:
        min_sizes, max_sizes = _sizes_by_ratio(count, base_size, min_ratio, max_ratio)
    for what, given in (('min_sizes', min_sizes), ('max_sizes', max_sizes), ('aspect_ratios', aspect_ratios),
                        ('steps', steps), ('step_w', step_w), ('step_h', step_h)):
        if given is None and what in ('steps', 'step_w', 'step_h', 'max_sizes'):
            continue
        if given is None or len(given) != count:
            raise ValueError(f'{what} is {given}: give one for each of the {count} inputs')
    places, classes, boxes, variances = [], [], [], []
    for i, input in enumerate(inputs):
        if steps is not None:
            apart = [steps[i], steps[i]]
        else:
            apart = [step_w[i] if step_w else 0.0, step_h[i] if step_h else 0.0]
        box, its_variance = prior_box(input, image, min_sizes[i], max_sizes[i] if max_sizes else None,
                                      aspect_ratios[i], variance, flip, clip, apart, offset, None,
                                      min_max_aspect_ratios_order)
        kinds = box.shape[2]
        for found, width in ((places, 4), (classes, num_classes)):
            said = _C.conv2d(input, num_filters=kinds * width, filter_size=kernel_size, padding=pad,
                             stride=stride)
            found.append(_C.flatten(_C.transpose(said, [0, 2, 3, 1]), axis=1))
        boxes.append(box)
        variances.append(its_variance)
    joined = [_C.concat([_C.flatten(part, axis=3) for part in parts]) for parts in (boxes, variances)]
    for part in joined:
        part.stop_gradient = True
    return (_C.reshape(_C.concat(places, axis=1), [0, -1, 4]),
            _C.reshape(_C.concat(classes, axis=1), [0, -1, num_classes]), joined[0], joined[1])


# ---- boxes compared and coded

def iou_similarity(x, y, box_normalized=True, name=None):
    """How much every box of x overlaps every box of y."""
    return one('iou_similarity', {'X': x, 'Y': y}, {'box_normalized': box_normalized}, name)


def box_coder(prior_box, prior_box_var, target_box, code_type='encode_center_size', box_normalized=True,
              name=None, axis=0):
    """Boxes as differences from prior_box, or back; prior_box_var: a variable, four numbers, or None."""
    inputs = {'PriorBox': prior_box, 'TargetBox': target_box}
    attrs = {'code_type': code_type, 'box_normalized': box_normalized, 'axis': axis}
    if isinstance(prior_box_var, _C.Variable):
        inputs['PriorBoxVar'] = prior_box_var
    elif prior_box_var is not None:
        attrs['variance'] = _numbers(prior_box_var)
    return one('box_coder', inputs, attrs, name, out='OutputBox')


def box_clip(input, im_info, name=None):
    """Boxes cut to their images."""
    return one('box_clip', {'Input': input, 'ImInfo': im_info}, name=name, out='Output')


def yolo_box(x, img_size, anchors, class_num, conf_thresh, downsample_ratio, clip_bbox=True, name=None,
             scale_x_y=1.0):
    """Boxes and scores from what a YOLO network says at every place of its map."""
    outs = _C.apply('yolo_box', {'X': x, 'ImgSize': img_size},
                    {'anchors': list(anchors), 'class_num': class_num, 'conf_thresh': float(conf_thresh),
                     'downsample_ratio': downsample_ratio, 'clip_bbox': clip_bbox,
                     'scale_x_y': float(scale_x_y)}, name)
    return outs['Boxes'][0], outs['Scores'][0]


# ---- matches and losses

def bipartite_match(dist_matrix, match_type=None, dist_threshold=None, name=None):
    """Rows and columns paired, nearest first: for every column the row, and the distance to it."""
    attrs = {'match_type': match_type, 'dist_threshold': dist_threshold}
    outs = _C.apply('bipartite_match', {'DistMat': dist_matrix},
                    {key: value for key, value in attrs.items() if value is not None}, name)
    return outs['ColToRowMatchIndices'][0], outs['ColToRowMatchDist'][0]


def target_assign(input, matched_indices, negative_indices=None, mismatch_value=None, name=None):
    """For every column the row of input that it was matched with, and its weight."""
    outs = _C.apply('target_assign', {'X': input, 'MatchIndices': matched_indices,
                                      'NegIndices': negative_indices},
                    {'mismatch_value': mismatch_value or 0}, name)
    return outs['Out'][0], outs['OutWeight'][0]


def _rows(x):
    """All dimensions but the last as one."""
    return _C.flatten(x, axis=2)


def _class_loss(confidence, targets):
    return _C.softmax_with_cross_entropy(_rows(confidence), _C.cast(_rows(targets), 'int64'))


def ssd_loss(location, confidence, gt_box, gt_label, prior_box, prior_box_var=None, background_label=0,
             overlap_threshold=0.5, neg_pos_ratio=3.0, neg_overlap=0.5, loc_loss_weight=1.0,
             conf_loss_weight=1.0, match_type='per_prediction', mining_type='max_negative', normalize=True,
             sample_size=None):
    """An SSD's loss, [images, 1]: of the classes of boxes, the hardest of the unmatched included, and places."""
    if mining_type != 'max_negative':
        raise ValueError(f"mining_type is {mining_type!r}: ssd_loss has 'max_negative' only")
    per_image = _C.slice(_C.shape(confidence), axes=[0], starts=[0], ends=[2])
    # A head over batches of any size does not know how many boxes it says; there are as many priors.
    columns = confidence.shape[1] if confidence.shape[1] >= 0 else prior_box.shape[0]

    def by_image(losses):
        return _C.reshape(losses, [-1, columns], actual_shape=per_image)

    matched, distance = bipartite_match(iou_similarity(gt_box, prior_box), match_type, overlap_threshold)
    labels = _C.reshape(gt_label, [0, -1, 1])
    labels.stop_gradient = True
    first, _ = target_assign(labels, matched, mismatch_value=background_label)
    guess = by_image(_class_loss(confidence, first))
    mined = _C.apply('mine_hard_examples', {'ClsLoss': guess, 'MatchIndices': matched, 'MatchDist': distance},
                     {'neg_pos_ratio': float(neg_pos_ratio), 'neg_dist_threshold': float(neg_overlap),
                      'mining_type': mining_type, 'sample_size': sample_size or 0}, None, 'ssd_loss')
    negatives, matched = mined['NegIndices'][0], mined['UpdatedMatchIndices'][0]
    codes = box_coder(prior_box, prior_box_var, gt_box)
    places, place_weight = target_assign(codes, matched, mismatch_value=background_label)
    wanted, class_weight = target_assign(labels, matched, negatives, background_label)
    for fixed in (places, place_weight, wanted, class_weight):
        fixed.stop_gradient = True
    class_loss = elementwise_mul(_class_loss(confidence, wanted), _rows(class_weight))
    place_loss = elementwise_mul(one('smooth_l1_loss', {'X': _rows(location), 'Y': _rows(places)}),
                                 _rows(place_weight))
    loss = elementwise_add(_C.scale(class_loss, scale=float(conf_loss_weight)),
                           _C.scale(place_loss, scale=float(loc_loss_weight)))
    loss = reduce_sum(by_image(loss), dim=1, keep_dim=True)
    return elementwise_div(loss, reduce_sum(_rows(place_weight))) if normalize else loss


# ---- the choice of the best

def _nms(op, bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold, normalized, nms_eta,
         background_label, name, layer):
    outs = _C.apply(op, {'BBoxes': bboxes, 'Scores': scores},
                    {'background_label': background_label, 'score_threshold': float(score_threshold),
                     'nms_top_k': nms_top_k, 'nms_threshold': float(nms_threshold), 'nms_eta': float(nms_eta),
                     'keep_top_k': keep_top_k, 'normalized': normalized}, name, layer)
    for found in outs.values():
        found[0].stop_gradient = True
    return outs


def multiclass_nms(bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold=0.3, normalized=True,
                   nms_eta=1.0, background_label=0, name=None):
    """The best boxes of every class that no better one covers: class, score and corners of each."""
    return _nms('multiclass_nms', bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold,
                normalized, nms_eta, background_label, name, 'multiclass_nms')['Out'][0]


def detection_output(loc, scores, prior_box, prior_box_var, background_label=0, nms_threshold=0.3, nms_top_k=400,
                     keep_top_k=200, score_threshold=0.01, nms_eta=1.0, return_index=False):
    """What an SSD found: its boxes decoded, and the best of each class."""
    boxes = box_coder(prior_box, prior_box_var, loc, 'decode_center_size')
    chances = _C.transpose(_C.softmax(scores), [0, 2, 1])
    chances.stop_gradient = True
    outs = _nms('multiclass_nms2' if return_index else 'multiclass_nms', boxes, chances, score_threshold,
                nms_top_k, keep_top_k, nms_threshold, True, nms_eta, background_label, None, 'detection_output')
    return (outs['Out'][0], outs['Index'][0]) if return_index else outs['Out'][0]


def generate_proposals(scores, bbox_deltas, im_info, anchors, variances, pre_nms_top_n=6000, post_nms_top_n=1000,
                       nms_thresh=0.5, min_size=0.1, eta=1.0, name=None, return_rois_num=False):
    """The best boxes that a region network proposes, their scores and, where asked for, their numbers."""
    outs = _C.apply('generate_proposals',
                    {'Scores': scores, 'BboxDeltas': bbox_deltas, 'ImInfo': im_info, 'Anchors': anchors,
                     'Variances': variances},
                    {'pre_nms_topN': pre_nms_top_n, 'post_nms_topN': post_nms_top_n,
                     'nms_thresh': float(nms_thresh), 'min_size': float(min_size), 'eta': float(eta)}, name,
                    out_counts={'RpnRoisLod': 1} if return_rois_num else {})
    found = [outs['RpnRois'][0], outs['RpnRoiProbs'][0]]
    if return_rois_num:
        found.append(outs['RpnRoisLod'][0])
    for part in found:
        part.stop_gradient = True
    return tuple(found)
