"""Layers that the original computes by one fused op: here they are the ops that they fuse, which plans fuse again."""
import random

from ... import layers
from ...layer_helper import LayerHelper

__all__ = ['fused_elemwise_activation', 'fused_embedding_seq_pool', 'partial_concat', 'partial_sum',
           'shuffle_batch', 'ctr_metric_bundle', 'multiclass_nms2', 'tdm_child', 'index_sample']

_BINARY = {'elementwise_add': layers.elementwise_add, 'elementwise_mul': layers.elementwise_mul}
_UNARY = ('scale', 'relu', 'tanh', 'sigmoid', 'gelu')


def fused_elemwise_activation(x, y, functor_list, axis=-1, scale=0.0, save_intermediate_out=True):
    """unary(binary(x, y)) or binary(x, unary(y)); functor_list names the outer one first."""
    names = functor_list.split(',') if isinstance(functor_list, str) else list(functor_list)
    if len(names) != 2 or sum(name in _BINARY for name in names) != 1 or \
            not all(name in _BINARY or name in _UNARY for name in names):
        raise ValueError(f'functor_list is {functor_list!r}; it must hold one of {", ".join(_BINARY)} and one of '
                         f'{", ".join(_UNARY)}')

    def unary(name, value):
        return layers.scale(value, scale=scale) if name == 'scale' else getattr(layers, name)(value)
    if names[0] in _BINARY:
        return _BINARY[names[0]](x, unary(names[1], y), axis=axis)
    return unary(names[0], _BINARY[names[1]](x, y, axis=axis))


def fused_embedding_seq_pool(input, size, is_sparse=False, padding_idx=None, combiner='sum', param_attr=None,
                             dtype='float32'):
    """The sum of the rows of a table that each sequence names."""
    if combiner != 'sum':
        raise ValueError(f"fused_embedding_seq_pool knows the combiner 'sum', got {combiner!r}")
    if param_attr is None:
        param_attr = LayerHelper('fused_embedding_seq_pool').param_attr
    rows = layers.embedding(input, size=size, is_sparse=is_sparse, padding_idx=padding_idx, param_attr=param_attr,
                            dtype=dtype)
    return layers.sequence_pool(rows, 'sum')


def _columns(input, start_index, length, layer):
    """The same columns of each input; length -1: to the last one."""
    inputs = list(input) if isinstance(input, (list, tuple)) else [input]
    if len({tuple(var.shape[1:]) for var in inputs}) != 1 or len(inputs[0].shape) != 2:
        raise ValueError(f'{layer} takes inputs of shape [batch, n] with one n, got '
                         f'{[tuple(var.shape) for var in inputs]}')
    width = inputs[0].shape[1]
    start = start_index + width if start_index < 0 else start_index
    end = width if length < 0 else start + length
    if not 0 <= start < end <= width:
        raise ValueError(f'{layer} of columns {start_index} and {length} on: the inputs have {width}')
    return [layers.slice(var, axes=[1], starts=[start], ends=[end]) for var in inputs]


def partial_concat(input, start_index=0, length=-1):
    """The columns start_index to start_index + length of every input, side by side."""
    return layers.concat(_columns(input, start_index, length, 'partial_concat'), axis=1)


def partial_sum(input, start_index=0, length=-1):
    """The sum of the columns start_index to start_index + length of every input."""
    return layers.sums(_columns(input, start_index, length, 'partial_sum'))


def shuffle_batch(x, seed=None):
    """The rows of x (all dimensions but the last count as rows) in random order; another one in each step."""
    helper = LayerHelper('shuffle_batch')
    if seed is None or isinstance(seed, int):
        first = helper.main_program.random_seed if seed is None else seed
        # The startup program makes it; 0 there would give every program the same order.
        seed = layers.create_global_var([1], first or random.randrange(1, 1 << 31), 'int64', persistable=True)
    out = helper.create_variable_for_type_inference(x.dtype)
    order = helper.create_variable_for_type_inference('int64', stop_gradient=True)
    helper.append_op(type='shuffle_batch', inputs={'X': [x], 'Seed': [seed]},
                     outputs={'Out': [out], 'ShuffleIdx': [order], 'SeedOut': [seed]})
    return out


def tdm_child(x, node_nums, child_nums, param_attr=None, dtype='int32'):
    """(the children of each node, whether they are leaves) of a tree in a parameter of node_nums rows: item, layer,
    ancestor, then the children, 0 where there is none. Node 0 stands for padding and has none."""
    from ...initializer import Constant
    helper = LayerHelper('tdm_child', param_attr=param_attr)
    if dtype not in ('int32', 'int64'):
        raise TypeError(f"tdm_child gives 'int32' or 'int64', not {dtype!r}")
    tree = helper.create_parameter(attr=helper.param_attr, shape=[node_nums, 3 + child_nums], dtype='int32',
                                   default_initializer=Constant(0))
    tree.stop_gradient = True
    shape = [-1] + [extent for extent in x.shape[1:]] + [child_nums]
    rows = layers.gather(tree, layers.reshape(x, [-1]))
    is_node = layers.cast(layers.not_equal(layers.reshape(x, [-1, 1]), layers.zeros([1], x.dtype)), 'int32')
    children = layers.elementwise_mul(layers.slice(rows, axes=[1], starts=[3], ends=[3 + child_nums]), is_node, axis=0)
    items = layers.gather(layers.slice(tree, axes=[1], starts=[0], ends=[1]), layers.reshape(children, [-1]))
    zero = layers.zeros([1], items.dtype)
    leaves = layers.cast(layers.not_equal(items, zero), dtype)
    return layers.reshape(layers.cast(children, dtype), shape), layers.reshape(leaves, shape)


def index_sample(x, index):
    """[rows, n]: of each row of x the columns that the row of index names."""
    return layers.index_sample(x, index)


def ctr_metric_bundle(input, label):
    """Running sums, kept between steps: squared error, absolute error, predictions, sigmoids, positives, samples."""
    assert tuple(input.shape) == tuple(label.shape), 'input and label must have one shape'
    sums = [layers.create_global_var([1], 0.0, 'float32', persistable=True) for _ in range(6)]
    label = label if label.dtype == input.dtype else layers.cast(label, input.dtype)
    difference = layers.elementwise_sub(input, label)
    ones = layers.fill_constant_batch_size_like(label, [-1, 1], 'float32', 1.0)
    terms = [layers.reduce_sum(layers.square(difference)), layers.reduce_sum(layers.abs(difference)),
             *[layers.reduce_sum(term) for term in (input, layers.sigmoid(input), label, ones)]]
    for total, term in zip(sums, terms):
        layers.assign(layers.elementwise_add(total, layers.reshape(term, [1])), output=total)
    error, distance, probability, sigmoids, positive, count = sums
    return error, distance, probability, sigmoids, positive, count


def multiclass_nms2(bboxes, scores, score_threshold, nms_top_k, keep_top_k, nms_threshold=0.3, normalized=True,
                    nms_eta=1.0, background_label=0, return_index=False, name=None):
    """layers.multiclass_nms, and with return_index which boxes were kept."""
    kept = layers.detection._nms('multiclass_nms2', bboxes, scores, score_threshold, nms_top_k, keep_top_k,
                                 nms_threshold, normalized, nms_eta, background_label, name, 'multiclass_nms2')
    return (kept['Out'][0], kept['Index'][0]) if return_index else kept['Out'][0]
