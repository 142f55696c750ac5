"""Layers of LoD sequences whose arguments are not their op's."""
import _trireme as _C

from .apply import one

__all__ = ['sequence_pad', 'sequence_unpad', 'sequence_mask', 'sequence_reshape', 'sequence_concat',
           'sequence_slice', 'sequence_enumerate']


def sequence_pad(x, pad_value, maxlen=None, name=None):
    """Sequences as rows of equal length: (padded, lengths)."""
    outs = _C.apply('sequence_pad', {'X': x, 'PadValue': pad_value},
                    {'padded_length': -1 if maxlen is None else maxlen}, name)
    return outs['Out'][0], outs['Length'][0]


def sequence_unpad(x, length, name=None):
    return one('sequence_unpad', {'X': x, 'Length': length}, name=name)


def sequence_mask(x, maxlen=None, dtype='int64', name=None):
    inputs, attrs = {'X': x}, {'out_dtype': int(_C.to_dtype(dtype))}
    if isinstance(maxlen, _C.Variable):
        inputs['MaxLenTensor'] = maxlen
    else:
        attrs['maxlen'] = -1 if maxlen is None else maxlen
    return one('sequence_mask', inputs, attrs, name, out='Y')


def sequence_reshape(input, new_dim):
    return one('sequence_reshape', {'X': input}, {'new_dim': new_dim})


def sequence_concat(input, name=None):
    return one('sequence_concat', {'X': input}, name=name)


def sequence_slice(input, offset, length, name=None):
    return one('sequence_slice', {'X': input, 'Offset': offset, 'Length': length}, name=name)


def sequence_enumerate(input, win_size, pad_value=0, name=None):
    return one('sequence_enumerate', {'X': input}, {'win_size': win_size, 'pad_value': pad_value},
               name)
