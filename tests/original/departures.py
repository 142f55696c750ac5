"""Cases in which ours is not the original, and why. docs/departures.md tells users.

Every heading here is a heading of that page. The tests say when a case listed here differs no longer, and
hold each kind by evidence of its own: finite differences, or the original's contradiction with itself.
"""

# Gradients: finite differences side with ours. case -> heading
GRADIENTS = {
    'softmax_with_cross_entropy_ignored': 'Rows that a loss ignores get no gradient',
    'group_norm': "group_norm's gradient",
    'group_norm_plain': "group_norm's gradient",
    'gather': 'gather adds the gradients of a row taken twice',
    'p_gather_axis': "gather's gradient along another axis",
    'scatter_overwrite': 'scatter gives no gradient to rows it replaces',
    'scatter_add': 'scatter gives no gradient to rows it replaces',
    'shuffle_channel': "shuffle_channel's gradient",
    'logsumexp_of_all': "logsumexp's gradient over all elements",
    'mish_low_threshold': "mish's gradient past its threshold",
    'dynamic_lstm': "The gradient of an LSTM's cell",
    'dynamic_lstm_activations': "The gradient of an LSTM's cell",
    'dynamic_lstm_initial': "The gradient of an LSTM's cell",
    'dynamic_lstm_no_peepholes': "The gradient of an LSTM's cell",
    'dynamic_lstm_reverse': "The gradient of an LSTM's cell",
    'dynamic_lstmp': "The gradient of an LSTM's cell",
    'dynamic_lstmp_clipped': "The gradient of an LSTM's cell",
    'dynamic_lstmp_reverse': "The gradient of an LSTM's cell",
    'spectral_norm_after_many_rounds': "spectral_norm's gradient",
    'retinanet_target_assign_wide': 'gather adds the gradients of a row taken twice',
    'yolov3_loss_scored': 'Objects of one cell all have gradients',
    'deformable_roi_pooling': "deformable_roi_pooling's gradient",
    'tree_conv': "tree_conv's gradient",
    'tree_conv_depth': "tree_conv's gradient",
}

# The same rule, where finite differences cannot judge. case -> heading
SAME_RULE = {
    'spectral_norm': "spectral_norm's gradient",
    'spectral_norm_dim1': "spectral_norm's gradient",
}

# What variables are declared to be: ours is what the run gives, the original's often is not.
DECLARED = {name: 'Declared shapes and types' for name in (
    'edit_distance', 'edit_distance_ignoring', 'edit_distance_padded', 'warpctc_padded',
    'isfinite_has_inf_has_nan', 'topk_of_a_variable', 'adaptive_pool2d_max_with_index', 'random_shapes',
    'beam_search_decode', 'beam_search_decode_of_three', 'sequence_pad', 'expand_by_variables',
    'flatten_axis0', 'flatten_axis2', 'tensor_array_joined', 'tensor_array_stacked',
    'rows_of_a_sparse_gradient', 'expand_as', 'density_prior_box_flat', 'detection_output',
    'detection_output_with_index', 'generate_proposals', 'multiclass_nms',
    'multiclass_nms_in_pixels', 'collect_fpn_proposals', 'locality_aware_nms', 'locality_aware_nms_in_pixels',
    'locality_aware_nms_quads', 'matrix_nms', 'matrix_nms_gaussian', 'retinanet_detection_output',
    'adaptive_pool3d_with_index', 'affine_grid', 'crop_tensor_by_variables', 'distributions_drawn_of_variables',
    'filter_by_instag', 'filter_by_instag_nothing', 'filter_by_instag_rows', 'beam_search_decoder',
    'beam_search_decoder_of_two_inputs', 'beam_search_decoder_that_ends')}

# Arguments that the original does not use, and other contradictions in it. case -> heading
CONTRADICTIONS = {
    'swish_beta_1.7': 'Arguments that the original takes and does not use',
    'gru_unit_activations': 'Arguments that the original takes and does not use',
    'auc_both_curves': 'Arguments that the original takes and does not use',
    'ftrl_l2': 'Arguments that the original takes and does not use',
    'strided_slice_backwards': 'Slices that go backwards',
    'momentum_sparse': 'A sparse step is the dense step',
    'rmsprop_sparse': 'A sparse step is the dense step',
    'adam_sparse': 'A sparse step is the dense step',
    'adam_lazy_sparse': 'A sparse step is the dense step',
    'deformable_conv_steps': 'deformable_conv gives every image its due',
    'uniform_of_numbers': "Uniform's bounds",
    'dynamic_decode_with_length': 'Lengths of decoded beams',
    'f_bce_pos_weight': 'pos_weight weighs all of label 1',
    'two_places_uneven': 'An uneven batch counts every sample once',
    'two_places_batch_norm': 'Moving statistics are averaged over places',
}

DEPARTURES = dict(GRADIENTS, **SAME_RULE)
DEPARTURES.update(DECLARED)
DEPARTURES.update(CONTRADICTIONS)

# Layers of 1.8.5 that have a case and are not here yet.
NOT_BUILT = frozenset()

# case -> what is wrong with ours
KNOWN_DEFECTS = {}

# case -> (what a difference may also be, reason)
_KEYS = 'a bias added to every key: its gradient is 0 but for rounding'
ALLOWANCES = {
    'img_conv_group': (5e-6, 'a bias before batch_norm: its gradient is 0 but for rounding'),
    'scaled_dot_product_attention': (2e-7, _KEYS),
    'nn_multi_head_attention': (1e-7, _KEYS),
    'nn_multi_head_attention_masked': (1e-7, _KEYS),
    'nn_transformer': (1e-7, _KEYS),
    'nn_transformer_encoder': (1e-7, _KEYS),
    'nn_transformer_encoder_norm_first': (1e-7, _KEYS),
    'lod_through_a_net': (1e-7, 'a bias before sequence_softmax: its gradient is 0 but for rounding'),
}
