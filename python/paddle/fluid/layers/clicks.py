"""Layers of click models, of places in sequences, and of classes: counted, compared, gathered round centers."""
import _trireme as _C

from ..layer_helper import LayerHelper
from .apply import one

__all__ = ['continuous_value_model', 'filter_by_instag', 'hash', 'add_position_encoding', 'sequence_scatter',
           'lod_append', 'mean_iou', 'center_loss', 'addmm', 'randperm']


def continuous_value_model(input, cvm, use_cvm=True):
    """Rows that begin with shows and clicks: their logarithms, or with use_cvm=False without them."""
    return one('cvm', {'X': input, 'CVM': cvm}, {'use_cvm': use_cvm}, layer='cvm', out='Y')


def filter_by_instag(ins, ins_tag, filter_tag, is_lod, out_val_if_empty=0):
    """Instances that have one of the wanted tags, and their weights."""
    outs = _C.apply('filter_by_instag', {'Ins': ins, 'Ins_tag': ins_tag, 'Filter_tag': filter_tag},
                    {'is_lod': is_lod, 'out_val_if_empty': out_val_if_empty}, None)
    return outs['Out'][0], outs['LossWeight'][0]


def hash(input, hash_size, num_hash=1, name=None):
    """num_hash numbers below hash_size for every row, the same for equal rows."""
    return one('hash', {'X': input}, {'num_hash': num_hash, 'mod_by': hash_size}, name)


def add_position_encoding(input, alpha, beta, name=None):
    """alpha * input + beta * waves of the places of its rows."""
    return one('add_position_encoding', {'X': input}, {'alpha': float(alpha), 'beta': float(beta)}, name)


def sequence_scatter(input, index, updates, name=None):
    """input with updates added in the columns that index names, a sequence of them for each row."""
    return one('sequence_scatter', {'X': input, 'Ids': index, 'Updates': updates}, name=name)


def lod_append(x, level):
    """x with one level of sequences more: offsets, or those of a variable."""
    if x is None or level is None:
        raise ValueError('lod_append needs x and level')
    inputs, attrs = {'X': x}, {'append': True}
    if isinstance(level, _C.Variable):
        inputs['Y'] = level
    else:
        attrs['target_lod'] = list(level)
    return one('lod_reset', inputs, attrs, layer='lod_append')


def mean_iou(input, label, num_classes):
    """How much of the places of a class two maps share: the mean, and what is wrong and right of each class."""
    outs = _C.apply('mean_iou', {'Predictions': input, 'Labels': label}, {'num_classes': num_classes}, None)
    return outs['OutMeanIou'][0], outs['OutWrong'][0], outs['OutCorrect'][0]


def center_loss(input, label, num_classes, alpha, param_attr, update_center=True):
    """How far rows are from the centers of their classes, which follow them by alpha."""
    helper = LayerHelper('center_loss', input=input, param_attr=param_attr)
    centers = helper.create_parameter(helper.param_attr, [num_classes, input.shape[1]], input.dtype)
    centers.stop_gradient = True
    rate = alpha if isinstance(alpha, _C.Variable) else _C.fill_constant([1], input.dtype, alpha)
    loss, apart = (helper.create_variable_for_type_inference(input.dtype) for _ in range(2))
    helper.append_op('center_loss',
                     inputs={'X': [input], 'Label': [label], 'Centers': [centers], 'CenterUpdateRate': [rate]},
                     outputs={'SampleCenterDiff': [apart], 'Loss': [loss], 'CentersOut': [centers]},
                     attrs={'cluster_num': num_classes, 'need_update': update_center})
    return loss


def addmm(input, x, y, alpha=1.0, beta=1.0, name=None):
    """beta * input + alpha * (the matrix product of x and y)."""
    return one('addmm', {'Input': input, 'X': x, 'Y': y}, {'Alpha': float(alpha), 'Beta': float(beta)}, name)


def randperm(n, out=None, dtype='int64', device=None, stop_gradient=True, seed=0):
    """The numbers from 0 to n, not included, in a random order."""
    if device not in (None, '', 'cpu', 'gpu'):
        raise ValueError(f"device must be 'cpu', 'gpu' or None, got {device!r}")
    found = one('randperm', {}, {'n': n, 'dtype': int(_C.to_dtype(dtype)), 'seed': seed})
    found = found if out is None else _C.assign(found, out)
    found.stop_gradient = stop_gradient
    return found
