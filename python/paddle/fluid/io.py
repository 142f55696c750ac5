"""Saving and loading, and readers."""
import os

import numpy

import _trireme as _C
from _trireme import global_scope

from ..batch import batch
from ..io.batch_sampler import BatchSampler
from ..io.dataset import Dataset
from ..reader import (ComposeNotAligned, buffered, cache, chain, compose, firstn, map_readers,
                      multiprocess_reader, shuffle, xmap_readers)
from . import core
from .compiler import _source_program
from .framework import Parameter, Program, Variable, default_main_program
from .reader import DataLoader, PyReader

__all__ = ['save_vars', 'save_params', 'save_persistables', 'load_vars', 'load_params',
           'load_persistables', 'save_inference_model', 'load_inference_model', 'save', 'load',
           'load_program_state', 'set_program_state', 'batch', 'shuffle', 'buffered', 'cache',
           'map_readers', 'compose', 'chain', 'firstn', 'xmap_readers', 'multiprocess_reader',
           'ComposeNotAligned', 'BatchSampler', 'DataLoader', 'Dataset', 'PyReader', 'default_collate_fn']


def default_collate_fn(batch):
    """Samples as arrays with the batch in front: a list of fields."""
    from ..io.loader import default_collate_fn as collate
    return collate(batch)


def is_parameter(var):
    return isinstance(var, Parameter)


def is_persistable(var):
    """Kept between runs, and neither feed nor fetch holder nor reader."""
    return _C.is_saved_persistable(var)


def get_program_parameter(program):
    return list(filter(is_parameter, program.list_vars()))


def get_program_persistable_vars(program):
    return list(filter(is_persistable, program.list_vars()))


def _program(main_program):
    if main_program is None:
        return default_main_program()
    main_program = _source_program(main_program)
    if not isinstance(main_program, Program):
        raise TypeError(f'main_program must be a Program, got {type(main_program).__name__}')
    return main_program


_get_valid_program = _program


def is_belong_to_optimizer(var):
    """Whether an optimizer keeps it beside the parameters."""
    return is_persistable(var) and not is_parameter(var) and not var.need_check_feed


def get_parameter_value(para, executor):
    """The value of a parameter, as a numpy array."""
    assert is_parameter(para), f'{para.name} is no parameter'
    return numpy.array(para.get_value())


def get_parameter_value_by_name(name, executor, program=None):
    return get_parameter_value(_program(program).global_block().var(name), executor)


def _clone_var_in_block_(block, var):
    """A persistable variable with the facts of another program's."""
    return block._clone_variable(var)


def prepend_feed_ops(inference_program, feed_target_names, feed_holder_name='feed'):
    """A feed op for each name, in front."""
    block = inference_program.global_block()
    for name in feed_target_names:
        if not block.has_var(name):
            raise ValueError(f'{name} is fed, but the program has no such variable')
    holder = block.create_var(name=feed_holder_name, type=core.VarDesc.VarType.FEED_MINIBATCH, persistable=True)
    for column, name in reversed(list(enumerate(feed_target_names))):
        block._prepend_op(type='feed', inputs={'X': [holder]}, outputs={'Out': [block.var(name)]},
                          attrs={'col': column})


def append_fetch_ops(inference_program, fetch_target_names, fetch_holder_name='fetch'):
    """A fetch op for each name, at the end."""
    block = inference_program.global_block()
    holder = block.create_var(name=fetch_holder_name, type=core.VarDesc.VarType.FETCH_LIST, persistable=True)
    for column, name in enumerate(fetch_target_names):
        block.append_op(type='fetch', inputs={'X': [block.var(name)]}, outputs={'Out': [holder]},
                        attrs={'col': column})


def _chosen(main_program, vars, predicate):
    """The variables to save or load: a list (of variables or names), or all that predicate wants."""
    program = _program(main_program)
    if vars is None:
        return [var for var in program.list_vars() if predicate is None or predicate(var)]
    return [program.global_block().var(var) if isinstance(var, str) else var for var in vars]


def save_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):
    """Values of variables: one file each in dirname, or all in dirname/filename."""
    _C.save_vars(global_scope(), dirname, _chosen(main_program, vars, predicate), filename)


def save_params(executor, dirname, main_program=None, filename=None):
    save_vars(executor, dirname, main_program, None, is_parameter, filename)


def save_persistables(executor, dirname, main_program=None, filename=None):
    program = _program(main_program)
    if not program._is_distributed:
        save_vars(executor, dirname, program, None, is_persistable, filename)
        return
    # What servers keep is fetched and written by trainer 0 alone, as whole variables.
    if filename is not None:
        raise ValueError(f'filename is {filename!r}, but what servers keep is saved one file each')
    remote = set(_C.remote_names(program))
    save_vars(executor, dirname, program, None,
              lambda var: is_persistable(var) and var.name not in remote)
    if program._is_chief:
        executor.run(_C.sliced_save_program(program, dirname))


def load_vars(executor, dirname, main_program=None, vars=None, predicate=None, filename=None):
    """What save_vars wrote; all is read before the first variable changes."""
    _C.load_vars(global_scope(), dirname, _chosen(main_program, vars, predicate), filename)


def load_params(executor, dirname, main_program=None, filename=None):
    load_vars(executor, dirname, main_program, None, is_parameter, filename)


def load_persistables(executor, dirname, main_program=None, filename=None):
    program = _program(main_program)
    if not program._is_distributed:
        load_vars(executor, dirname, program, None, is_persistable, filename)
        return
    if filename is not None:
        raise ValueError(f'filename is {filename!r}, but servers load one file each')
    # A server reads its slices out of whole variables.
    executor.run(_C.sliced_load_program(program, dirname))


def _names(items, what):
    items = items if isinstance(items, (list, tuple)) else [items]
    names = [item.name if isinstance(item, Variable) else item for item in items]
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f'{what} must be Variables or their names')
    return names


def save_inference_model(dirname, feeded_var_names, target_vars, executor, main_program=None,
                         model_filename=None, params_filename=None, export_for_deployment=True,
                         program_only=False):
    """The part of the program that computes target_vars, with its parameters; returns their names."""
    return _C.save_inference_model(
        dirname, _names(feeded_var_names or [], 'feeded_var_names'),
        _names(target_vars, 'target_vars'), _program(main_program), global_scope(), model_filename,
        params_filename, export_for_deployment, program_only)


def load_inference_model(dirname, executor, model_filename=None, params_filename=None,
                         pserver_endpoints=None):
    """[program, names to feed, variables to fetch] of what save_inference_model wrote.

    pserver_endpoints: where the servers are today, for a program whose ops ask servers for rows of a table."""
    program, feeds, fetches = _C.load_inference_model(dirname, global_scope(), model_filename, params_filename)
    for op in program.global_block().ops if pserver_endpoints else []:
        for name in ('epmap', 'endpoints'):
            saved = op.attr(name) if op.has_attr(name) else []
            if saved and len(saved) != len(pserver_endpoints):
                raise ValueError(f'load_inference_model: pserver_endpoints has {len(pserver_endpoints)} addresses, but '
                                 f'{op.type} of {dirname} asks {len(saved)} servers: {saved}')
            if saved:
                op._set_attr(name, list(pserver_endpoints))
    return [program, feeds, fetches]


def save(program, model_path, protocol=2):
    """model_path.pdparams, model_path.pdopt and model_path.pdmodel. Protocol 2: Python 2 reads it, too."""
    if not isinstance(protocol, int) or not 1 < protocol < 5:
        raise ValueError(f'protocol must be 2, 3 or 4, got {protocol!r}')
    assert os.path.basename(model_path), 'model_path must end in a file name, without a suffix'
    _C.save_state(_source_program(program), model_path, global_scope(), protocol)


def load(program, model_path, executor=None, var_list=None):
    """What save wrote, or save_params, save_persistables and save_vars."""
    _C.load_state(_source_program(program), model_path, global_scope(), executor is not None,
                  _names(var_list or [], 'var_list'))


def load_program_state(model_path, var_list=None):
    """name -> ndarray of what save wrote."""
    return _C.load_program_state(model_path, _names(var_list or [], 'var_list'))


def set_program_state(program, state_dict):
    """Writes values into the program's variables; shapes and types must agree."""
    _C.set_program_state(_source_program(program), state_dict, global_scope())
