"""paddle.save and paddle.load: states, nested values and programs in the original's format.

A file is a pickle in which tensors are arrays, or a program as paddle.static writes it. Loading takes nothing from a
pickle but arrays and plain containers: a file from elsewhere runs no code.
"""
import collections
import io
import os
import pickle

import numpy as np

import _trireme as _C

from .fluid.framework import Program, Variable

__all__ = ['save', 'load']


def _plain(value):
    """Tensors, and variables by their values in the scope, as arrays."""
    if isinstance(value, Variable):
        return np.array(value.get_value())
    if isinstance(value, _C.LoDTensor):
        return np.array(value)
    if isinstance(value, collections.abc.Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain, value)) if not hasattr(value, '_fields') else type(value)(*map(_plain, value))
    if isinstance(value, Program):
        raise TypeError('paddle.save: a Program is saved by itself, not within something else')
    return value


def save(obj, path, protocol=4, **configs):
    """obj, its tensors as arrays, or a Program, into a file or a file object."""
    if configs.pop('use_binary_format', False):
        raise NotImplementedError('paddle.save: use_binary_format is not built: use static.save_vars')
    if configs:
        raise ValueError(f'paddle.save: {", ".join(configs)} is not known')
    if not isinstance(protocol, int) or not 1 < protocol < 5:
        raise ValueError(f'protocol must be 2, 3 or 4, got {protocol!r}')
    data = obj.desc.serialize_to_string() if isinstance(obj, Program) else pickle.dumps(_plain(obj), protocol)
    if hasattr(path, 'write'):
        path.write(data)
        return
    if not os.path.basename(path):
        raise ValueError(f'paddle.save: {path!r} names no file')
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data)


def _held(text, names):
    """What the original writes for a single tensor: an expression that names the array beside it."""
    if text != 'data':
        raise pickle.UnpicklingError(f'the file asks for {text!r} to be computed: it is no file of paddle.save')
    return names['data']


_TAKEN = {('collections', 'OrderedDict'): collections.OrderedDict, ('builtins', 'eval'): _held,
          ('__builtin__', 'eval'): _held, ('builtins', 'set'): set, ('builtins', 'frozenset'): frozenset,
          ('builtins', 'complex'): complex, ('builtins', 'slice'): slice, ('builtins', 'tuple'): tuple}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) in _TAKEN:
            return _TAKEN[module, name]
        if module.split('.')[0] == 'numpy' and name in ('ndarray', 'dtype', '_reconstruct', 'scalar', '_frombuffer'):
            return super().find_class(module, name)
        if (module, name) == ('_codecs', 'encode'):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f'the file holds a {module}.{name}; paddle.load takes arrays, numbers, texts, lists '
                                     'and dicts: open it with pickle if you trust it')


def _tensors(value):
    """Arrays as LoDTensors, which is what a static state holds."""
    if isinstance(value, np.ndarray):
        tensor = _C.LoDTensor()
        tensor.set(value, _C.CPUPlace())
        return tensor
    if isinstance(value, dict):
        return type(value)((key, _tensors(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)) and not hasattr(value, '_fields'):
        return type(value)(map(_tensors, value))
    return value


def load(path, **configs):
    """What save wrote: tensors as LoDTensors, or with return_numpy=True as arrays; or a Program."""
    as_arrays = configs.pop('return_numpy', False)
    if configs:
        raise NotImplementedError(f'paddle.load: {", ".join(configs)} is not built: load a folder or files of '
                                  'save_inference_model by paddle.static.load_inference_model')
    if hasattr(path, 'read'):
        data = path.read()
    else:
        if not os.path.exists(path):
            hint = '' if not os.path.exists(path + '.pdparams') else f': {path}.pdparams is there'
            raise ValueError(f'paddle.load: there is no file {path}{hint}')
        with open(path, 'rb') as file:
            data = file.read()
    if not data.startswith(b'\x80'):
        return Program.parse_from_string(data)
    found = _Unpickler(io.BytesIO(data), encoding='latin1').load()
    return found if as_arrays else _tensors(found)
