"""LoD tensors made from nested data."""
import numpy

from . import core

__all__ = ['create_lod_tensor', 'create_random_int_lodtensor']


def create_lod_tensor(data, recursive_seq_lens, place):
    """A LoDTensor of an array, another LoDTensor, or a list of sequences of integers."""
    if isinstance(data, core.LoDTensor):
        return create_lod_tensor(numpy.array(data), recursive_seq_lens, place)
    if isinstance(data, list):
        if data and all(isinstance(item, numpy.ndarray) for item in data):
            return _of_arrays(data, recursive_seq_lens, place)
        lengths, flat = [], data
        while flat and isinstance(flat[0], (list, tuple)):
            lengths.append([len(sequence) for sequence in flat])
            flat = [item for sequence in flat for item in sequence]
        assert lengths == [list(level) for level in recursive_seq_lens], \
            f'recursive_seq_lens is {recursive_seq_lens} but data has {lengths}'
        array = numpy.array(flat, dtype='int64').reshape(len(flat), 1)
        return create_lod_tensor(array, recursive_seq_lens, place)
    if not isinstance(data, numpy.ndarray):
        raise TypeError(f'data must be an ndarray, a LoDTensor or a list, got {type(data).__name__}')
    made = core.LoDTensor()
    made.set(data, place)
    made.set_recursive_sequence_lengths(recursive_seq_lens)
    fits = made.has_valid_recursive_sequence_lengths()
    assert fits, f'recursive_seq_lens {recursive_seq_lens} does not fit data of {len(data)} rows'
    return made


def _of_arrays(arrays, recursive_seq_lens, place):
    lengths = [len(array) for array in arrays]
    assert list(recursive_seq_lens[-1]) == lengths, \
        f'recursive_seq_lens is {recursive_seq_lens} but the arrays have {lengths} rows'
    return create_lod_tensor(numpy.expand_dims(numpy.concatenate(arrays), -1), recursive_seq_lens, place)


def create_random_int_lodtensor(recursive_seq_lens, base_shape, place, low, high):
    """Random integers from low to high, both included."""
    assert isinstance(base_shape, list), 'base_shape must be a list'
    shape = [sum(recursive_seq_lens[-1])] + base_shape
    data = numpy.random.randint(low, high + 1, size=shape).astype('int64')
    return create_lod_tensor(data, recursive_seq_lens, place)
