"""Layers of trees: filters over their nodes, samples of their levels; and attention by rank."""
import _trireme as _C

from ... import layers
from ...initializer import Constant
from ...layer_helper import LayerHelper

__all__ = ['tree_conv', 'tdm_sampler', 'rank_attention']


def tree_conv(nodes_vector, edge_set, output_size, num_filters=1, max_depth=2, act='tanh', param_attr=None,
              bias_attr=None, name=None):
    """Filters over every node of a tree with what hangs below it, max_depth levels in all."""
    helper = LayerHelper('tree_conv', param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    dtype = nodes_vector.dtype
    weight = helper.create_parameter(helper.param_attr, [nodes_vector.shape[2], 3, output_size, num_filters], dtype)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op('tree_conv', inputs={'NodesVector': [nodes_vector], 'EdgeSet': [edge_set], 'Filter': [weight]},
                     outputs={'Out': [out]}, attrs={'max_depth': max_depth})
    return helper.append_activation(helper.append_bias_op(out))


def _tree(helper, attr, shape, dtype):
    part = helper.create_parameter(attr, shape, dtype, default_initializer=Constant(0))
    part.stop_gradient = True
    return part


def tdm_sampler(x, neg_samples_num_list, layer_node_num_list, leaf_node_num, tree_travel_attr=None, tree_layer_attr=None,
                output_positive=True, output_list=True, seed=0, tree_dtype='int32', dtype='int32'):
    """(nodes, labels, masks): the nodes above each leaf of x, level by level, and others of the level drawn at random.

    With output_list three lists with a variable [leaves, nodes of the level, 1] for each level, else three variables.
    """
    for what, given in (('tree_dtype', tree_dtype), ('dtype', dtype)):
        if _C.dtype_name(given) not in ('int32', 'int64'):
            raise TypeError(f"tdm_sampler takes 'int32' or 'int64' as its {what}, not {_C.dtype_name(given)!r}")
    if len(neg_samples_num_list) != len(layer_node_num_list):
        raise ValueError(f'tdm_sampler draws from {len(neg_samples_num_list)} levels (neg_samples_num_list) of a tree of '
                         f'{len(layer_node_num_list)} (layer_node_num_list)')
    helper = LayerHelper('tdm_sampler')
    begins = [sum(layer_node_num_list[:i]) for i in range(len(layer_node_num_list) + 1)]
    travel = _tree(helper, tree_travel_attr, [leaf_node_num, len(layer_node_num_list)], tree_dtype)
    layer = _tree(helper, tree_layer_attr, [begins[-1], 1], tree_dtype)
    made = [helper.create_variable_for_type_inference(dtype, stop_gradient=True) for _ in range(3)]
    helper.append_op('tdm_sampler', inputs={'X': [x], 'Travel': [travel], 'Layer': [layer]},
                     outputs=dict(zip(('Out', 'Labels', 'Mask'), ([var] for var in made))),
                     attrs={'neg_samples_num_list': list(neg_samples_num_list), 'layer_offset_lod': begins,
                            'output_positive': output_positive, 'seed': seed, 'dtype': int(_C.to_dtype(dtype))})
    if not output_list:
        return tuple(made)
    counts = [count + bool(output_positive) for count in neg_samples_num_list]
    return tuple([_columns(var, sum(counts[:i]), count) for i, count in enumerate(counts)] for var in made)


def _columns(var, begin, count):
    if count == 0:
        raise ValueError('tdm_sampler: a level gives no nodes: set output_positive, draw some of each level, or set '
                         'output_list=False')
    part = layers.reshape(layers.slice(var, axes=[1], starts=[begin], ends=[begin + count]), [-1, count, 1])
    part.stop_gradient = True
    return part


def rank_attention(input, rank_offset, rank_param_shape, rank_param_attr, max_rank=3):
    """Each row gives the sum over its neighbours of the neighbour times the block of a parameter that is for both ranks."""
    helper = LayerHelper('rank_attention')
    dtype = input.dtype
    param = helper.create_parameter(rank_param_attr, rank_param_shape, dtype)
    out = helper.create_variable_for_type_inference(dtype)
    helper.append_op('rank_attention', inputs={'X': [input], 'RankOffset': [rank_offset], 'RankParam': [param]},
                     outputs={'Out': [out]}, attrs={'MaxRank': max_rank})
    return out
