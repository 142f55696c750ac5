"""DataFeeder: batches of samples become feed dicts of LoD tensors."""
import numpy as np

import _trireme as _C

from . import core
from .framework import Variable, default_main_program

__all__ = ['DataFeeder']


def convert_dtype(dtype):
    """The name of an element type: 'float32'."""
    return _C.dtype_name(dtype)


def check_type(input, input_name, expected_type, op_name, extra_message=''):
    if isinstance(input, expected_type):
        return
    raise TypeError(f'{op_name}: {input_name} is a {type(input).__name__}, not one of '
                    f'{_type_names(expected_type)}. {extra_message}')


def _type_names(types):
    return ', '.join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))


def check_dtype(input_dtype, input_name, expected_dtype, op_name, extra_message=''):
    if convert_dtype(input_dtype) not in expected_dtype:
        raise TypeError(f'{input_name} of {op_name} must have one of the dtypes {expected_dtype}, '
                        f'got {convert_dtype(input_dtype)}. {extra_message}')


def check_variable_and_dtype(input, input_name, expected_dtype, op_name, extra_message=''):
    check_type(input, input_name, Variable, op_name, extra_message)
    check_dtype(input.dtype, input_name, expected_dtype, op_name, extra_message)


class _Column:
    """The values of one variable over a batch, with the lengths of its nested sequences."""

    def __init__(self, var, place):
        self.place = place
        self.name = var.name
        self.lod_level = var.lod_level
        self.dtype = convert_dtype(var.dtype)
        self.shape = tuple(var.shape)
        self.lengths = [[] for _ in range(var.lod_level)]
        self.data = []

    def add(self, value, level=0):
        if level == self.lod_level:
            self.data.append(value)
            return
        self.lengths[level].append(len(value))
        for item in value:
            self.add(item, level + 1)

    def _shaped(self, array):
        """Samples may be flat: the declared shape, its batch dimension left out, says how."""
        if any(dim < 0 for dim in self.shape[1:]) or not self.shape:
            return array
        wanted = (len(self.data),) + self.shape[1:]
        if array.shape == wanted:
            return array
        if array.size != int(np.prod(wanted)):
            raise ValueError(f'the samples of {self.name} have shape {array.shape[1:]}; the variable '
                             f'is declared {list(self.shape)}')
        return array.reshape(wanted)

    def tensor(self):
        try:
            array = np.array(self.data, dtype=self.dtype)
        except (TypeError, ValueError) as error:
            shapes = sorted({np.shape(sample) for sample in self.data if not _is_ragged(sample)})
            raise ValueError(f'the samples of {self.name} make no array of {self.dtype}: their shapes are '
                             f'{shapes} ({error}); pad them, or declare the variable with lod_level=1') from None
        array = self._shaped(array)
        tensor = core.LoDTensor()
        tensor.set(array, self.place)
        if self.lod_level:
            tensor.set_recursive_sequence_lengths(self.lengths)
        return tensor


def _is_ragged(sample):
    try:
        return np.shape(sample) is None
    except ValueError:
        return True


class DataFeeder:
    """feed(batch): a batch is a list of samples, a sample one value per variable of feed_list."""

    def __init__(self, feed_list, place, program=None):
        block = (program or default_main_program()).global_block()
        self.feed_vars = []
        for item in feed_list:
            var = block.var(item) if isinstance(item, str) else item
            if not isinstance(var, Variable):
                raise TypeError('feed_list holds Variables or their names, '
                                f'got {type(item).__name__}')
            self.feed_vars.append(var)
        self.feed_names = [var.name for var in self.feed_vars]
        self.place = place

    def feed(self, iterable):
        columns = [_Column(var, self.place) for var in self.feed_vars]
        for sample in iterable:
            if len(sample) != len(columns):
                raise ValueError(f'a sample has {len(sample)} values; the feeder has '
                                 f'{len(columns)} variables: {self.feed_names}')
            for column, value in zip(columns, sample):
                column.add(value)
        return {column.name: column.tensor() for column in columns}

    def feed_parallel(self, iterable, num_places=None):
        """One dict per place; iterable holds one batch for each."""
        places = self._places(num_places)
        batches = list(iterable)
        if len(batches) != len(places):
            raise ValueError(f'feed_parallel needs {len(places)} batches, one for each place, '
                             f'got {len(batches)}')
        for batch in batches:
            yield self.feed(batch)

    def _places(self, num_places):
        count = _C.cpu_num() if num_places is None else int(num_places)
        return [self.place] * count

    def decorate_reader(self, reader, multi_devices, num_places=None, drop_last=True):
        """A reader of feed dicts, or of lists of them, one for each place."""
        def dicts():
            if not multi_devices:
                for batch in reader():
                    yield self.feed(batch)
                return
            count, group = len(self._places(num_places)), []
            for batch in reader():
                group.append(batch)
                if len(group) == count:
                    yield list(self.feed_parallel(group, num_places))
                    group = []
            if group and not drop_last:
                raise ValueError(f'{len(group)} batches are left for {count} places: '
                                 'pass drop_last=True')
        return dicts
