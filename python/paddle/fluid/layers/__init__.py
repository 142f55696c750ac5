"""Layers: functions that append ops to the default programs.

Those that make parameters or decide something are the engine's; those that only forward are made
from the op table when they are first named (generated.py).
"""
import _trireme as _C
from _trireme import (
    accuracy, assign, auc, autoincreased_step_counter, batch_norm, beam_search, beam_search_decode,
    bilinear_tensor_product, cast, chunk_eval, clip, clip_by_norm, concat, conv2d, conv2d_transpose,
    conv3d, conv3d_transpose, cos_sim, cosine_decay, create_global_var, create_parameter,
    create_tensor, crf_decoding, cross_entropy, ctc_greedy_decoder, data, data_norm, dropout,
    dynamic_gru, dynamic_lstm, dynamic_lstmp, edit_distance, embedding, expand, exponential_decay,
    fc, fill_constant, fill_constant_batch_size_like, flatten, gather, gaussian_random,
    get_tensor_from_selected_rows, group_norm, gru_unit, hsigmoid, increment, inplace_abn,
    instance_norm, inverse_time_decay, label_smooth, layer_norm, linear_chain_crf, linear_lr_warmup,
    lod_reset, log_loss, logical_and, logical_not, logical_or, lstm, lstm_unit, matmul, mean,
    merge_selected_rows, mul, natural_exp_decay, nce, noam_decay, one_hot, ones_like,
    piecewise_decay, polynomial_decay, pool2d, prelu, reshape, row_conv,
    sampled_softmax_with_cross_entropy, scale, sequence_conv, sequence_expand, sequence_first_step,
    sequence_last_step, sequence_pool, sequence_softmax, shape, sigmoid_cross_entropy_with_logits,
    slice, softmax, softmax_with_cross_entropy, spectral_norm, split, square_error_cost, squeeze,
    stack, sums, tensor_array_to_tensor, topk, transpose, uniform_random, unsqueeze, warpctc,
    zeros_like, Recv, Send, _allreduce, _decay_step_counter)

from .. import core
from . import collective, control_flow, detection, device, generated, io, learning_rate_scheduler, loss, math_op_patch
from . import metric_op, nn, ops, sequence_lod, tensor, utils
from . import decoder as _decoder  # before rnn's function takes the name of its module
from . import structured as _structured
from . import tensors as _tensors
from .arithmetic import *
from .clicks import *
from .control_flow import *
from .decoder import *
from .detection import *
from .distributions import *
from .elementwise import *
from .helpers import *
from .images import *
from .io import *
from .losses import *
from .reduction import *
from .regions import *
from .rnn import *
from .sequences import *
from .structured import *
from .targets import *
from .tensors import *
from .vision import *

math_op_patch.monkey_patch_variable()

# Layers whose op has another name.
_RENAMED = {'argmax': 'arg_max', 'argmin': 'arg_min', 'smooth_l1': 'smooth_l1_loss'}


# Of releases before 1.8.5, where readers were ops: what is used instead.
_READERS = 'fluid.io.DataLoader.from_generator over a reader of the files'
_EARLIER = {'open_files': _READERS, 'open_recordio_file': _READERS, 'random_data_generator': _READERS,
            'Preprocessor': 'paddle.reader.map_readers around the reader', 'batch': 'paddle.batch around the reader',
            'shuffle': 'paddle.reader.shuffle around the reader'}


def __getattr__(name):
    if name in _EARLIER:
        raise NotImplementedError(f'layers.{name}: readers are no ops any more, since 1.8 neither there: use {_EARLIER[name]}')
    op = _RENAMED.get(name, name)
    if name.startswith('__') or not generated.forwards(op):
        raise AttributeError(f'paddle.fluid.layers has no layer {name}, or it is not built yet')
    function = generated.make_layer(op, name)
    globals()[name] = function
    return function


def _names():
    """Every layer there is, named yet or not."""
    own = {name for name, value in globals().items()
           if not name.startswith('_') and callable(value)}
    forwarding = set(filter(generated.forwards, _C.op_types()))
    renamed = {name for name, op in _RENAMED.items() if _C.has_op(op)}
    return sorted(own | forwarding | renamed | {'_decay_step_counter'})


def __dir__():
    return _names()


__all__ = _names()
