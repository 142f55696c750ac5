"""Data variables, and readers that fill them from a queue."""
import _trireme as _C
from _trireme import Recv, Send, data

from .control_flow import _inside

__all__ = ['data', 'read_file', 'double_buffer', 'py_reader', 'create_py_reader_by_data', 'load',
           'ListenAndServ', 'Recv', 'Send']


def _loader(feed_list, capacity, use_double_buffer, name):
    from ..reader import _PyReaderLayer
    return _PyReaderLayer(feed_list, capacity, use_double_buffer, name)


def py_reader(capacity, shapes, dtypes, lod_levels=None, name=None, use_double_buffer=True):
    """A reader of batches with these shapes; read_file gives its variables.

    decorate_paddle_reader or decorate_tensor_provider say where the data comes from; start() begins
    a pass, which ends in core.EOFException, and reset() ends it.
    """
    lod_levels = lod_levels or [0] * len(shapes)
    if not len(shapes) == len(dtypes) == len(lod_levels):
        raise ValueError(f'py_reader has {len(shapes)} shapes, {len(dtypes)} dtypes and '
                         f'{len(lod_levels)} lod_levels')
    block = _C.default_main_program().current_block()
    prefix = name or 'py_reader'
    variables = [block.create_var(name=_C.generate_name(prefix + '.data'), shape=list(shape),
                                  dtype=dtype, lod_level=lod_level, stop_gradient=True)
                 for shape, dtype, lod_level in zip(shapes, dtypes, lod_levels)]
    return _loader(variables, capacity, use_double_buffer, name)


def create_py_reader_by_data(capacity, feed_list, name=None, use_double_buffer=True):
    """A reader that fills data variables which exist already."""
    return _loader(feed_list, capacity, use_double_buffer, name)


def read_file(reader):
    """The variables of a reader's batch: one, or a list."""
    return reader._read_file()


def double_buffer(reader, place=None, name=None):
    """The reader itself: its thread reads ahead of the program already."""
    return reader


def load(out, file_path, load_as_fp16=None):
    """Fills a variable from a file when the program runs."""
    options = {} if load_as_fp16 is None else {'load_as_fp16': load_as_fp16}
    block = _C.default_main_program().current_block()
    block.append_op(type='load', outputs={'Out': [out]}, attrs={'file_path': file_path, **options})


class ListenAndServ(_C.ListenAndServ):
    """A parameter server: what do() builds runs whenever all fan_in trainers have sent."""

    def __init__(self, endpoint, inputs, fan_in=1, optimizer_mode=True):
        super().__init__(endpoint, inputs, fan_in)
        self.endpoint, self.fan_in, self.optimizer_mode = endpoint, fan_in, optimizer_mode

    def do(self):
        return _inside(self)


def _refusal(name, instead):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f'layers.{name}: readers that programs open themselves are no more. Use {instead}')
    refuse.__name__ = refuse.__qualname__ = name
    return refuse


# Names of the first releases.
_LOADER = 'fluid.io.DataLoader.from_generator over a reader of your own'
open_files, open_recordio_file = _refusal('open_files', _LOADER), _refusal('open_recordio_file', _LOADER)
random_data_generator, Preprocessor = _refusal('random_data_generator', _LOADER), _refusal('Preprocessor', _LOADER)
batch, shuffle = _refusal('batch', 'paddle.batch'), _refusal('shuffle', 'paddle.reader.shuffle')
