"""Losses and metrics."""
import numpy as np

import paddle.fluid as fluid
from case import L, case


@case
def cross_entropy(c):
    return L.cross_entropy(L.softmax(c.x([4, 5])), c.ids([4, 1], 5))


@case
def cross_entropy_soft(c):
    return L.cross_entropy(L.softmax(c.x([4, 5])), L.softmax(c.x([4, 5], grad=False)), soft_label=True)


@case
def cross_entropy_ignored(c):
    return L.cross_entropy(L.softmax(c.x([4, 5])), c.given(np.array([[1], [3], [2], [3]], 'int64')), ignore_index=3)


@case
def cross_entropy_three_dims(c):
    return L.cross_entropy(L.softmax(c.x([2, 3, 5])), c.ids([2, 3, 1], 5))


@case
def softmax_with_cross_entropy(c):
    return L.softmax_with_cross_entropy(c.x([4, 5]), c.ids([4, 1], 5))


@case
def softmax_with_cross_entropy_both(c):
    return list(L.softmax_with_cross_entropy(c.x([4, 5]), c.ids([4, 1], 5), return_softmax=True))


@case
def softmax_with_cross_entropy_soft(c):
    return L.softmax_with_cross_entropy(c.x([4, 5]), L.softmax(c.x([4, 5], grad=False)), soft_label=True)


@case
def softmax_with_cross_entropy_ignored(c):
    return L.softmax_with_cross_entropy(c.x([4, 5]), c.given(np.array([[1], [3], [2], [3]], 'int64')),
                                        ignore_index=3)


@case
def softmax_with_cross_entropy_axis(c):
    return L.softmax_with_cross_entropy(c.x([2, 5, 3]), c.ids([2, 1, 3], 5), axis=1)


@case
def sigmoid_cross_entropy_with_logits(c):
    return L.sigmoid_cross_entropy_with_logits(c.x([4, 3], -2.0, 2.0), c.x([4, 3], 0.0, 1.0, grad=False))


@case
def sigmoid_cross_entropy_normalized(c):
    label = np.array([[0, 1, -1], [1, -1, 0]], 'float32')
    return L.sigmoid_cross_entropy_with_logits(c.x([2, 3]), c.given(label), ignore_index=-1, normalize=True)


@case
def square_error_cost(c):
    return L.square_error_cost(c.x([4, 3]), c.x([4, 3]))


@case
def mse_loss(c):
    return L.mse_loss(c.x([4, 3]), c.x([4, 3]))


@case
def smooth_l1(c):
    return L.smooth_l1(c.x([4, 3], -2.0, 2.0), c.x([4, 3]))


@case
def smooth_l1_weighted(c):
    return L.smooth_l1(c.x([4, 3], -2.0, 2.0), c.x([4, 3]), c.x([4, 3], 0.5, 1.5, grad=False),
                       c.x([4, 3], 0.5, 1.5, grad=False), sigma=2.0)


@case
def huber_loss(c):
    return L.huber_loss(c.x([4, 1], -2.0, 2.0), c.x([4, 1]), 0.7)


@case
def log_loss(c):
    return L.log_loss(c.x([4, 1], 0.1, 0.9), c.given(np.array([[1], [0], [0], [1]], 'float32')))


@case
def log_loss_epsilon(c):
    return L.log_loss(c.x([4, 1], 0.1, 0.9), c.given(np.array([[1], [0], [0], [1]], 'float32')), epsilon=0.01)


@case
def bpr_loss(c):
    return L.bpr_loss(c.x([4, 5]), c.ids([4, 1], 5))


@case
def rank_loss(c):
    return L.rank_loss(c.given(np.array([[1], [0], [1]], 'float32')), c.x([3, 1]), c.x([3, 1]))


@case
def margin_rank_loss(c):
    return L.margin_rank_loss(c.given(np.array([[1], [-1], [1]], 'float32')), c.x([3, 1]), c.x([3, 1]), margin=0.2)


@case
def kldiv_loss(c):
    return L.kldiv_loss(c.x([3, 4]), c.x([3, 4], 0.1, 0.9, grad=False))


@case
def dice_loss(c):
    return L.dice_loss(L.softmax(c.x([3, 4])), c.ids([3, 1], 4))


@case
def npair_loss(c):
    return L.npair_loss(c.x([4, 3], fixed=True), c.x([4, 3], fixed=True),
                        c.given(np.array([0, 1, 0, 2], 'float32'), fixed=True))


@case
def teacher_student_sigmoid_loss(c):
    return L.teacher_student_sigmoid_loss(c.x([4, 1]), c.x([4, 1], -1.5, 1.5, grad=False))


@case
def label_smooth(c):
    return L.label_smooth(L.one_hot(c.ids([4, 1], 5), 5), epsilon=0.2)


@case
def label_smooth_with_prior(c):
    prior = c.given(np.array([[0.1, 0.2, 0.3, 0.2, 0.2]], 'float32'), fixed=True)
    return L.label_smooth(L.one_hot(c.ids([4, 1], 5), 5), prior_dist=prior, epsilon=0.1)


@case
def hsigmoid(c):
    return L.hsigmoid(c.x([4, 3]), c.ids([4, 1], 6), num_classes=6)


@case
def hsigmoid_no_bias(c):
    return L.hsigmoid(c.x([4, 3]), c.ids([4, 1], 9), num_classes=9, bias_attr=False)


@case
def hsigmoid_own_tree(c):
    table = c.given(np.array([[0, 2, -1], [0, 1, 3], [0, 1, 3], [0, 2, 4]], 'int64'))
    code = c.given(np.array([[0, 0, -1], [1, 1, 0], [1, 1, 1], [0, 1, 0]], 'int64'))
    return L.hsigmoid(c.x([4, 3]), c.ids([4, 1], 6), num_classes=6, path_table=table, path_code=code, is_custom=True)


@case
def nce_shapes(c):
    c.random = True
    return L.nce(c.x([4, 3]), c.ids([4, 1], 6), num_total_classes=6, num_neg_samples=3, seed=1)


@case
def sampled_softmax_own_samples(c):
    samples = c.given(np.array([[1, 0, 2, 5], [2, 0, 1, 5], [3, 0, 1, 2]], 'int64'))
    probabilities = c.x([3, 4], 0.1, 0.9, grad=False)
    return L.sampled_softmax_with_cross_entropy(
        c.x([3, 6]), c.given(np.array([[1], [2], [3]], 'int64')), num_samples=3,
        use_customized_samples=True, customized_samples=samples, customized_probabilities=probabilities)


@case
def warpctc(c):
    return L.warpctc(c.x([7, 5], lod=[[4, 3]]), c.given(np.array([[1], [2], [3]], 'int32'), lod=[[2, 1]]))


@case
def warpctc_normed_blank(c):
    return L.warpctc(c.x([7, 5], lod=[[4, 3]]), c.given(np.array([[1], [2], [3]], 'int32'), lod=[[2, 1]]),
                     blank=4, norm_by_times=True)


@case
def warpctc_padded(c):
    return L.warpctc(c.x([5, 2, 4], fixed=True), c.given(np.array([[1, 2], [3, 0]], 'int32'), fixed=True),
                     input_length=c.given(np.array([5, 4], 'int64'), fixed=True),
                     label_length=c.given(np.array([2, 1], 'int64'), fixed=True))


@case
def linear_chain_crf(c):
    return L.linear_chain_crf(c.x([6, 4], lod=[[4, 2]]), c.ids([6, 1], 4, lod=[[4, 2]]))


@case
def linear_chain_crf_padded(c):
    return L.linear_chain_crf(c.x([2, 4, 3]), c.ids([2, 4, 1], 3), length=c.given(np.array([[4], [2]], 'int64')),
                              param_attr=fluid.ParamAttr(name='crf'))


@case
def crf_decoding(c):
    emission, label = c.x([6, 4], lod=[[4, 2]]), c.ids([6, 1], 4, lod=[[4, 2]])
    cost = L.linear_chain_crf(emission, label, param_attr=fluid.ParamAttr(name='crf'))
    return [cost, L.crf_decoding(emission, param_attr=fluid.ParamAttr(name='crf')), L.crf_decoding(emission, param_attr=fluid.ParamAttr(name='crf'), label=label)]


@case
def crf_decoding_padded(c):
    emission, label = c.x([2, 4, 3]), c.ids([2, 4, 1], 3)
    length = c.given(np.array([[4], [2]], 'int64'))
    cost = L.linear_chain_crf(emission, label, length=length, param_attr=fluid.ParamAttr(name='crf'))
    return [cost, L.crf_decoding(emission, param_attr=fluid.ParamAttr(name='crf'), length=length)]


@case
def accuracy(c):
    return L.accuracy(L.softmax(c.x([6, 5])), c.ids([6, 1], 5))


@case
def accuracy_of_three(c):
    c.gradients = False
    correct, total = L.create_tensor('int32'), L.create_tensor('int32')
    rate = L.accuracy(L.softmax(c.x([6, 5])), c.ids([6, 1], 5), k=3, correct=correct, total=total)
    return [rate, correct, total]


@case
def auc(c):
    c.gradients = False
    area, batch_area, _ = L.auc(L.softmax(c.x([8, 2], -2.0, 2.0)), c.ids([8, 1], 2))
    return [area, batch_area]


@case
def auc_few_thresholds(c):
    c.gradients = False
    area, batch_area, _ = L.auc(L.softmax(c.x([8, 2], -2.0, 2.0)), c.ids([8, 1], 2), num_thresholds=15)
    return [area, batch_area]


@case
def auc_both_curves(c):
    c.gradients = False
    scores, label = L.softmax(c.x([8, 2], -2.0, 2.0)), c.ids([8, 1], 2)
    return [L.auc(scores, label, curve='ROC')[0], L.auc(scores, label, curve='PR')[0]]


@case
def auc_200_thresholds(c):
    c.gradients = False
    area, batch_area, _ = L.auc(L.softmax(c.x([8, 2], -2.0, 2.0)), c.ids([8, 1], 2), num_thresholds=200)
    return [area, batch_area]


@case
def chunk_eval(c):
    tags = c.given(np.array([[0], [1], [4], [2], [3], [0], [1]], 'int64'), lod=[[4, 3]])
    label = c.given(np.array([[0], [1], [4], [2], [2], [0], [1]], 'int64'), lod=[[4, 3]])
    return list(L.chunk_eval(tags, label, 'IOB', 2))


@case
def chunk_eval_padded(c):
    tags = c.given(np.array([[[0], [1], [4], [2]], [[3], [0], [1], [4]]], 'int64'))
    label = c.given(np.array([[[0], [1], [4], [2]], [[2], [0], [1], [4]]], 'int64'))
    return list(L.chunk_eval(tags, label, 'IOB', 2, seq_length=c.given(np.array([4, 3], 'int64'))))


@case
def chunk_eval_schemes(c):
    tags = c.given(np.array([[0], [1], [2], [3], [4], [5], [6]], 'int64'), lod=[[7]])
    label = c.given(np.array([[0], [1], [2], [3], [7], [5], [6]], 'int64'), lod=[[7]])
    return list(L.chunk_eval(tags, label, 'IOBES', 2)) + list(L.chunk_eval(tags, label, 'plain', 8, [7]))


@case
def edit_distance(c):
    first = c.given(np.array([[1], [2], [3], [4], [2]], 'int64'), lod=[[3, 2]])
    second = c.given(np.array([[1], [3], [4], [2]], 'int64'), lod=[[2, 2]])
    return list(L.edit_distance(first, second)) + list(L.edit_distance(first, second, normalized=False))


@case
def edit_distance_ignoring(c):
    first = c.given(np.array([[1], [2], [3], [4], [2]], 'int64'), lod=[[3, 2]])
    second = c.given(np.array([[1], [3], [4], [2]], 'int64'), lod=[[2, 2]])
    return list(L.edit_distance(first, second, ignored_tokens=[2]))


@case
def edit_distance_padded(c):
    first = c.given(np.array([[1, 2, 3], [4, 2, 0]], 'int64'))
    second = c.given(np.array([[1, 3], [4, 2]], 'int64'))
    return list(L.edit_distance(first, second, input_length=c.given(np.array([3, 2], 'int64')),
                                label_length=c.given(np.array([2, 2], 'int64'))))


@case
def ctc_greedy_decoder(c):
    return L.ctc_greedy_decoder(c.x([7, 4], lod=[[4, 3]]), blank=0)


@case
def ctc_greedy_decoder_padded(c):
    return list(L.ctc_greedy_decoder(c.x([2, 5, 4]), blank=3, input_length=c.given(np.array([[5], [3]], 'int64')),
                                     padding_value=-1))


@case
def mean_iou(c):
    return list(L.mean_iou(c.ids([6], 3, dtype='int32'), c.ids([6], 3, dtype='int32'), 3))


@case
def center_loss(c):
    return L.center_loss(c.x([4, 3]), c.ids([4, 1], 3), 3, 0.1, fluid.initializer.Constant(0.5))


@case
def kldiv_loss_reductions(c):
    x, target = c.x([3, 4]), c.x([3, 4], -0.2, 0.9, grad=False)
    return [L.kldiv_loss(x, target, reduction) for reduction in ('none', 'sum', 'batchmean')]


@case
def teacher_student_sigmoid_loss_out_of_bounds(c):
    return L.teacher_student_sigmoid_loss(c.x([6, 1], -4.0, 4.0), c.x([6, 1], -2.5, 2.0, grad=False), 2.0, -2.0)


@case
def mean_iou_of_unseen_classes(c):
    return list(L.mean_iou(c.ids([2, 5], 3), c.ids([2, 5], 4, low=1), 6))


@case
def center_loss_trained(c):
    loss = L.center_loss(L.fc(c.x([6, 4]), 3), c.ids([6, 1], 3), 3, 0.3, fluid.ParamAttr(name='centers'))
    return c.train(L.reduce_mean(loss))


@case
def center_loss_fixed(c):
    return L.center_loss(c.x([4, 3]), c.ids([4, 1], 5), 5, 0.1, fluid.ParamAttr(name='centers'), False)
