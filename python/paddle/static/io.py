"""Saving and loading under their 2.4 names."""
import os

import _trireme as _C
from _trireme import global_scope

from ..fluid import io as _fluid_io
from ..fluid.io import (_names, _program, load, load_program_state, load_vars, save_vars,  # noqa: F401
                        save as _save, set_program_state)

__all__ = ['save_inference_model', 'load_inference_model', 'serialize_program',
           'serialize_persistables', 'deserialize_program', 'deserialize_persistables',
           'save_to_file', 'load_from_file', 'normalize_program', 'save', 'load',
           'load_program_state', 'set_program_state', 'save_vars', 'load_vars']


is_persistable = _fluid_io.is_persistable


def save(program, model_path, protocol=4):
    """model_path.pdparams, model_path.pdopt and model_path.pdmodel."""
    _save(program, model_path, protocol)


def save_inference_model(path_prefix, feed_vars, fetch_vars, executor, program=None,
                         clip_extra=True):
    """path_prefix.pdmodel and path_prefix.pdiparams."""
    _C.save_inference_model_at(path_prefix, _names(feed_vars, 'feed_vars'),
                               _names(fetch_vars, 'fetch_vars'), _program(program),
                               global_scope(), clip_extra)


def load_inference_model(path_prefix, executor, **kwargs):
    """[program, names to feed, variables to fetch] of what save_inference_model wrote."""
    if kwargs:
        raise NotImplementedError('load_inference_model: ' + ', '.join(kwargs) + ' not built yet')
    return list(_C.load_inference_model_at(path_prefix, global_scope()))


def normalize_program(program, feed_vars, fetch_vars):
    return _C.normalize_program(_program(program), _names(feed_vars, 'feed_vars'),
                                _names(fetch_vars, 'fetch_vars'))


def serialize_program(feed_vars, fetch_vars, program=None):
    return _C.serialize_program(_program(program), _names(feed_vars, 'feed_vars'),
                                _names(fetch_vars, 'fetch_vars'))


def serialize_persistables(feed_vars, fetch_vars, executor, program=None):
    return _C.serialize_persistables(_program(program),
                                     _names(feed_vars, 'feed_vars'),
                                     _names(fetch_vars, 'fetch_vars'), global_scope())


def deserialize_program(data):
    return _C.deserialize_program(data)


def deserialize_persistables(program, data, executor):
    _C.deserialize_persistables(program, data, global_scope())


def save_to_file(path, content):
    if not isinstance(content, bytes):
        raise ValueError(f'content must be bytes, got {type(content).__name__}')
    with open(path, 'wb') as file:
        file.write(content)


def load_from_file(path):
    assert os.path.exists(path), f'{path} does not exist'
    with open(path, 'rb') as file:
        return file.read()
