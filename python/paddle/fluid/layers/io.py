"""Data variables; readers are not built yet."""
from _trireme import data

__all__ = ['data', 'read_file', 'double_buffer', 'py_reader', 'create_py_reader_by_data', 'load']


def _not_built(name):
    def layer(*args, **kwargs):
        raise NotImplementedError(f'layers.{name} is not built yet in Trireme: feed batches with '
                                  'Executor.run')
    layer.__name__ = name
    return layer


read_file = _not_built('read_file')
double_buffer = _not_built('double_buffer')
py_reader = _not_built('py_reader')
create_py_reader_by_data = _not_built('create_py_reader_by_data')
load = _not_built('load')
