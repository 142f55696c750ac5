"""Program, Block, Operator, Variable, Parameter, and the guards around building them.

The classes are the engine's; what is added here is what only Python can say: keyword arguments,
context managers, the descriptor views.
"""
import contextlib
import os
from collections.abc import Mapping

import _trireme as _C
from _trireme import (Block, Operator, Program, Variable, default_main_program,
                      default_startup_program, switch_main_program, switch_startup_program)

from . import _places
from . import core
from . import graph as _graph
from . import op_proto as _op_proto
from . import unique_name as _unique_name
from .core import CPUPlace, is_compiled_with_cuda
from .desc import BlockDesc, OpDesc, ProgramDesc, VarDesc

__all__ = ['Program', 'default_startup_program', 'default_main_program', 'program_guard',
           'name_scope', 'cuda_places', 'cpu_places', 'cuda_pinned_places', 'in_dygraph_mode',
           'is_compiled_with_cuda', 'Variable', 'load_op_library', 'require_version',
           'device_guard', 'set_flags', 'get_flags']

IrGraph = _graph.IrGraph
OpProtoHolder = _op_proto.OpProtoHolder
cpu_places, cuda_places, cuda_pinned_places = _places.cpu_places, _places.cuda_places, _places.cuda_pinned_places
_current_expected_place, _get_paddle_place = _places._current_expected_place, _places._get_paddle_place
unique_name = _unique_name
GRAD_VAR_SUFFIX = '@GRAD'
EMPTY_VAR_NAME = '@EMPTY@'
TEMP_VAR_NAME = '@TEMP@'
ZERO_VAR_SUFFIX = '@ZERO'
OpRole = core.op_proto_and_checker_maker.OpRole

# Host-side learning-rate schedules, by the id of the program whose rate they write.
_schedules = {}
# 2.4 prints programs in a readable form, 1.8 as protobuf text; enable_static() says which it is.
_print_as_2_4 = False
# The default programs stay referenced, so that attributes a user sets on them last.
_defaults = [default_main_program(), default_startup_program()]


def grad_var_name(name):
    return name + GRAD_VAR_SUFFIX


def in_dygraph_mode():
    return False


def _dygraph_tracer():
    return None


def _get_var(name, program=None):
    """A variable of the program's global block, by its name."""
    program = default_main_program() if program is None else program
    if not isinstance(name, str) or not isinstance(program, Program):
        raise TypeError(f'_get_var takes a name and a Program, got {type(name).__name__} and '
                        f'{type(program).__name__}')
    return program.global_block().var(name)


_non_static_mode = _in_legacy_dygraph = _in_eager_mode = in_dygraph_mode


def dygraph_only(func):
    """A function for dynamic mode, which there is not: calling it says so."""
    def refuse(*args, **kwargs):
        raise AssertionError(f'{func.__name__} needs dynamic mode: Trireme runs static programs only. '
                             'Build a Program and run it with an Executor')
    refuse.__name__, refuse.__doc__ = func.__name__, func.__doc__
    return refuse


_dygraph_only_ = dygraph_only


def _extend(cls):
    """Puts a function (or property) into a class of the engine."""
    def put(member):
        name = member.fget.__name__ if isinstance(member, property) else member.__name__
        setattr(cls, name, member)
        return member
    return put


# Variables

def _variable_text(var):
    return var._text() if _print_as_2_4 else var._proto_text()


Variable.__str__ = Variable.__repr__ = _variable_text


def _variable_to_string(self, throw_on_error, with_details=False):
    """Protobuf text; with_details adds what files do not hold."""
    assert isinstance(throw_on_error, bool) and isinstance(with_details, bool)
    text = self._proto_text()
    if with_details:
        names = ['error_clip', 'stop_gradient']
        if self.is_parameter:
            names += ['trainable', 'optimize_attr', 'regularizer', 'do_model_average']
        text += ''.join(f'{name}: {getattr(self, name)}\n' for name in names)
    return text


Variable.to_string = _variable_to_string
Variable.desc = property(lambda self: VarDesc(self))


@_extend(Variable)
@property
def grad_name(self):
    return grad_var_name(self.name)


def _get_error_clip(self):
    return getattr(self, '_error_clip_object', None) or self._error_clip


def _put_error_clip(self, clip):
    self._error_clip_object = clip
    self._error_clip = None if clip is None else (clip.min, clip.max)


Variable.error_clip = property(_get_error_clip, _put_error_clip)
Variable._set_error_clip = _put_error_clip


class _OptimizeAttr(dict):
    """What is written into it is the parameter's."""

    def __init__(self, parameter, **items):
        super().__init__(**items)
        self._parameter = parameter

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self._parameter.optimize_attr = self


def _get_optimize_attr(self):
    whole = self._learning_rate_var
    rate = self.block._find_var_recursive(whole) if whole else self._learning_rate
    return _OptimizeAttr(self, learning_rate=rate)


def _set_optimize_attr(self, attr):
    rate = attr['learning_rate']
    if isinstance(rate, Variable):
        self._learning_rate_var = rate.name
    else:
        self._learning_rate, self._learning_rate_var = rate, ''


Variable.optimize_attr = property(_get_optimize_attr, _set_optimize_attr)


@_extend(Variable)
def get_value(self, scope=None):
    """The LoDTensor this variable has in a scope."""
    if scope is not None and not isinstance(scope, core.Scope):
        raise TypeError(f'scope must be None or a Scope, got {type(scope).__name__}')
    found = (scope or _C.global_scope()).find_var(self.name)
    if found is None:
        raise ValueError(f'{self.name} is not in the scope: run the startup program first')
    return found.get_tensor()


@_extend(Variable)
def set_value(self, value, scope=None):
    """Copies a numpy array or LoDTensor of the same shape into this variable's tensor."""
    import numpy
    if not isinstance(value, core.LoDTensor) and not hasattr(value, '__array__'):
        raise TypeError(f'value must be a numpy array or a LoDTensor, got {type(value).__name__}')
    tensor = self.get_value(scope)
    array = numpy.asarray(value)
    if list(array.shape) != tensor.shape():
        raise ValueError(f'{self.name} has shape {tensor.shape()}, the value has {list(array.shape)}')
    tensor.set(array, CPUPlace())


def _dynamic_mode_only(name):
    def refuse(self, *args, **kwargs):
        raise AssertionError(f'Variable.{name}() needs dynamic mode: in a static program fetch the '
                             'variable with Executor.run')
    refuse.__name__, refuse.__qualname__ = name, f'Variable.{name}'
    return refuse


for _name in ('numpy', 'detach', 'backward', 'gradient', 'clear_gradient'):
    setattr(Variable, _name, _dynamic_mode_only(_name))


class _ParameterType(type(Variable)):
    def __instancecheck__(cls, instance):
        return isinstance(instance, Variable) and instance.is_parameter


class Parameter(Variable, metaclass=_ParameterType):
    """A variable that training changes. isinstance() asks the variable whether it is one."""

    def __new__(cls, block, shape, dtype, type=None, name=None, **kwargs):
        return block.create_parameter(shape=shape, dtype=dtype, name=name, **kwargs)


# Ops

def _operator_text(op):
    return op._text() if _print_as_2_4 else op._proto_text()


Operator.__str__ = Operator.__repr__ = _operator_text


Operator.to_string = lambda self, throw_on_error=True: self._proto_text()
Operator.desc = property(lambda self: OpDesc(self))


@_extend(Operator)
def _block_attr(self, name):
    return self.attr(name)


@_extend(Operator)
def _block_attr_id(self, name):
    return self.attr(name).idx


@_extend(Operator)
def _blocks_attr(self, name):
    return self.attr(name)


@_extend(Operator)
def _blocks_attr_ids(self, name):
    return [block.idx for block in self.attr(name)]


@_extend(Operator)
def _is_optimize_op(self):
    return bool(self.has_attr('op_role') and self.attr('op_role') & OpRole.Optimize)


@_extend(Operator)
def _is_backward_op(self):
    return bool(self.has_attr('op_role') and self.attr('op_role') & OpRole.Backward)


# Blocks

class _Vars(Mapping):
    """A block's variables by name, in order of creation; always as they are now."""

    def __init__(self, block):
        self._block = block

    def __getitem__(self, name):
        found = self._block._find_var(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self):
        return iter([var.name for var in self._block._var_list()])

    def __len__(self):
        return len(self._block._var_list())

    def values(self):
        return self._block._var_list()

    def items(self):
        return [(var.name, var) for var in self._block._var_list()]

    def __repr__(self):
        return repr(dict(self.items()))


@_extend(Block)
@property
def vars(self):
    return _Vars(self)


Block.desc = property(lambda self: BlockDesc(self))


@_extend(Block)
@property
def backward_block_idx(self):
    """The block whose forward block this one is; -1 when there is none."""
    return next((b.idx for b in self.program.blocks if b.forward_block_idx == self.idx), -1)


@_extend(Block)
def var(self, name):
    if not isinstance(name, str):
        raise TypeError(f'var requires a name that is a str, got {type(name).__name__}')
    found = self._find_var(name)
    if found is None:
        raise ValueError(f'var {name} is not in block {self.idx}')
    return found


@_extend(Block)
def _var_recursive(self, name):
    found = self._find_var_recursive(name)
    if found is None:
        raise ValueError(f'var {name} is not found from block {self.idx}')
    return found


@_extend(Block)
def has_var(self, name):
    return self._find_var(name) is not None


@_extend(Block)
def all_parameters(self):
    return [var for var in self._var_list() if var.is_parameter]


@_extend(Block)
def iter_parameters(self):
    return iter(self.all_parameters())


@_extend(Block)
def create_var(self, name=None, shape=None, dtype=None, type=None, lod_level=None, persistable=None,
               stop_gradient=False, is_data=False, need_check_feed=False, error_clip=None,
               initializer=None, capacity=None, belong_to_optimizer=False):
    shape = None if shape is None else [-1 if dim is None else int(dim) for dim in shape]
    var = self._create_var(name=name, shape=shape, dtype=dtype, type=type, lod_level=lod_level,
                           persistable=persistable, stop_gradient=stop_gradient, is_data=is_data,
                           need_check_feed=need_check_feed)
    if error_clip is not None:
        var.error_clip = error_clip
    if initializer is not None:
        initializer(var, self)
    return var


@_extend(Block)
def create_parameter(self, shape=None, dtype=None, name=None, initializer=None, trainable=True,
                     optimize_attr=None, regularizer=None, do_model_average=True, need_clip=True,
                     stop_gradient=False, **kwargs):
    """A parameter of the global block; its initializer, if given, appends to this block."""
    if not shape:
        raise ValueError('the shape of a parameter must not be empty')
    if dtype is None:
        raise ValueError('the dtype of a parameter must not be None')
    if any(dim < 0 for dim in shape):
        raise ValueError(f'every dimension of a parameter must be known, got {list(shape)}')
    rate = 1.0 if optimize_attr is None else optimize_attr['learning_rate']
    param = self._create_parameter(
        name=name or _C.generate_name('_generated_var'), shape=list(shape), dtype=dtype,
        trainable=trainable, learning_rate=rate, do_model_average=do_model_average,
        need_clip=need_clip, stop_gradient=stop_gradient)
    if regularizer is not None:
        param.regularizer = regularizer
    if initializer is not None:
        writers = [op for op in self.ops if param.name in op.output_arg_names]
        if len(writers) > 1:
            raise RuntimeError(f'param {param.name} is initialized by {len(writers)} ops')
        if not writers:
            initializer(param, self)
    return param


@_extend(Block)
def _clone_variable(self, var, force_persistable=True):
    persistable = True if force_persistable else var.persistable
    if var.type in (VarDesc.VarType.STEP_SCOPES, VarDesc.VarType.RAW):
        return self.create_var(name=var.name, type=var.type, persistable=persistable)
    same = {fact: getattr(var, fact)
            for fact in ('name', 'type', 'dtype', 'lod_level', 'is_data', 'need_check_feed')}
    return self.create_var(shape=var.shape if var._has_shape else None, persistable=persistable, **same)


@_extend(Block)
def _slice_ops(self, start, end):
    return self.ops[start:end]


@_extend(Block)
def _sync_with_cpp(self):
    """Nothing to do: there is one block, one program, and this is it."""


Program._sync_with_cpp = Block._sync_with_cpp


def _block_to_string(self, throw_on_error, with_details=False):
    assert isinstance(throw_on_error, bool) and isinstance(with_details, bool)
    if not with_details:
        return self._proto_text()
    parts = [f'blocks {{\n  idx: {self.idx}\n  parent_idx: {self.parent_idx}']
    for var in self._var_list():
        parts.append('  vars {\n' + _indented(var.to_string(throw_on_error, True), 4) + '  }')
    for op in self.ops:
        parts.append('  ops {\n' + _indented(op.to_string(throw_on_error), 4) + '  }')
    return '\n'.join(parts) + '\n}'


def _indented(text, columns):
    return ''.join(' ' * columns + line + '\n' for line in text.splitlines())


def _block_text(block):
    return block._text() if _print_as_2_4 else block._proto_text()


Block.to_string = _block_to_string
Block.__str__ = Block.__repr__ = _block_text


# Programs

Program._enable_dgc = False
Program._fleet_opt = None
Program._pipeline_opt = None


def _program_text(program):
    return program._text() if _print_as_2_4 else program._proto_text()


Program.__str__ = Program.__repr__ = _program_text


def _program_to_string(self, throw_on_error, with_details=False):
    assert isinstance(throw_on_error, bool), 'throw_on_error must be a bool'
    assert isinstance(with_details, bool), 'with_details must be a bool'
    if not with_details:
        return self._proto_text()
    return '\n'.join(block.to_string(throw_on_error, True) for block in self.blocks)


Program.to_string = _program_to_string


Program.desc = property(lambda self: ProgramDesc(self))


def _get_random_seed(self):
    return self._seed


def _set_random_seed(self, seed):
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ValueError(f'Program.random_seed must be an int, got {type(seed).__name__}')
    self._seed = seed


Program.random_seed = property(_get_random_seed, _set_random_seed)


@_extend(Program)
def global_seed(self, seed=0):
    """Sets the seed of this program and of every program created from now on."""
    self.random_seed = seed
    Program._set_default_seed(seed)


@_extend(Program)
def clone(self, for_test=False):
    copy = self._clone(for_test)
    if self._id in _schedules:
        _schedules[copy._id] = _schedules[self._id]
    return copy


@_extend(Program)
@staticmethod
def parse_from_string(binary_str):
    return Program._parse(binary_str)


@_extend(Program)
def list_vars(self):
    for block in self.blocks:
        yield from block._var_list()


def _names(items, what):
    """Names of variables, names, and ops (for which their outputs stand)."""
    names = []
    for item in items if isinstance(items, (list, tuple, set)) else [items]:
        if isinstance(item, Variable):
            names.append(item.name)
        elif isinstance(item, str):
            names.append(item)
        elif isinstance(item, Operator):
            names += item.output_arg_names
        else:
            raise ValueError(f'{what} must be Variables, Operators or names, '
                             f'got {type(item).__name__}')
    return names


@_extend(Program)
def _prune(self, targets):
    return self._pruned([], _names(targets, 'targets of prune'))


@_extend(Program)
def _prune_with_input(self, feeded_var_names, targets):
    feeds = feeded_var_names if isinstance(feeded_var_names, (list, tuple)) else [feeded_var_names]
    for name in feeds:
        if not isinstance(name, str):
            raise ValueError(f'feeded_var_names must be names, got {type(name).__name__}')
    return self._pruned(list(feeds), _names(targets, 'targets of prune'))


@_extend(Program)
def _copy_param_info_from(self, other):
    """What files do not hold of parameters: which variables are some, and what optimizers want to know."""
    self.global_block()._copy_param_info_from(other.global_block())


_parameter_facts = ('trainable', 'optimize_attr', 'regularizer', 'do_model_average', 'need_clip', 'is_distributed',
                    'stop_gradient', 'error_clip')


def _block_copy_param_info_from(self, other):
    if not isinstance(other, Block):
        raise TypeError(f'_copy_param_info_from takes a Block, got {type(other).__name__}')
    for param in other.iter_parameters():
        own = self._find_var(param.name)
        if own is None:
            raise ValueError(f'{param.name} is a parameter of the other program, and no variable of this one')
        own._make_parameter()
        for fact in _parameter_facts:
            setattr(own, fact, getattr(param, fact))


Block._copy_param_info_from = _block_copy_param_info_from


@_extend(Program)
def _copy_data_info_from(self, other, pruned_origin_block_id_map=None):
    """Which variables are data to be fed, by their names."""
    if not isinstance(other, Program):
        raise TypeError(f'_copy_data_info_from takes a Program, got {type(other).__name__}')
    origin = pruned_origin_block_id_map or {i: i for i in range(min(self.num_blocks, other.num_blocks))}
    for own_index, other_index in origin.items():
        for var in other.block(other_index)._var_list():
            own = self.block(own_index)._find_var(var.name)
            if own is not None:
                own.is_data, own.need_check_feed = var.is_data, var.need_check_feed
                own.stop_gradient = var.stop_gradient


@_extend(Program)
def _get_desc(self):
    return self.desc


@_extend(Program)
@staticmethod
def _construct_from_desc(desc):
    """The program that a ProgramDesc shows."""
    return desc._thing


@_extend(Program)
def _inference_optimize(self, prune_read_op=True):
    return self._inference_copy(prune_read_op)


@_extend(Program)
def _remove_training_info(self, clip_extra=True):
    copy = self._clone(False)
    for var in copy.list_vars():
        var.stop_gradient = False
        if var.is_parameter:
            var._drop_parameter()
    if clip_extra:
        for block in copy.blocks:
            for op in block.ops:
                for name in ('op_callstack', 'op_role_var', 'op_namescope', 'op_device'):
                    if op.has_attr(name):
                        op._remove_attr(name)
    return copy


def _is_optimizer_state(var):
    return var.persistable and not var.is_parameter and not var.need_check_feed


@_extend(Program)
def state_dict(self, mode='all', scope=None):
    """name -> LoDTensor of parameters ('param'), optimizer states ('opt') or both ('all')."""
    if scope is not None and not isinstance(scope, core.Scope):
        raise TypeError(f'scope must be None or a Scope, got {type(scope).__name__}')
    if not isinstance(mode, str):
        raise TypeError(f'mode must be a str, got {type(mode).__name__}')
    wanted = {'param': lambda v: v.is_parameter, 'opt': _is_optimizer_state,
              'all': lambda v: v.is_parameter or _is_optimizer_state(v)}
    if mode not in wanted:
        raise ValueError(f"mode must be 'param', 'opt' or 'all', got {mode!r}")
    return {var.name: var.get_value(scope) for var in self.list_vars()
            if var.type == VarDesc.VarType.LOD_TENSOR and wanted[mode](var)}


@_extend(Program)
def set_state_dict(self, state_dict, scope=None):
    """Writes values by name; names and shapes that do not fit are warnings."""
    import warnings
    if not isinstance(state_dict, dict):
        raise TypeError(f'state_dict must be a dict, got {type(state_dict).__name__}')
    by_name = {var.name: var for var in self.list_vars()}
    structured = state_dict.get('StructuredToParameterName@@', {})
    for key, value in state_dict.items():
        if key == 'StructuredToParameterName@@':
            continue
        var = by_name.get(structured.get(key, key))
        if var is None:
            warnings.warn(f'the program has no variable {key}: its value is not used')
            continue
        try:
            var.set_value(value, scope)
        except (TypeError, ValueError) as error:
            warnings.warn(f'{key} is not loaded: {error}')


def _get_op_role(self):
    return self._current_role


def _set_op_role(self, role):
    self._current_role = int(role)


def _get_op_role_var(self):
    return self._role_vars


def _set_op_role_var(self, names):
    self._role_vars = [names] if isinstance(names, str) else list(names)


Program._op_role = property(_get_op_role, _set_op_role)
Program._op_role_var = property(_get_op_role_var, _set_op_role_var)


@contextlib.contextmanager
def _role_guard(program, role, role_vars=()):
    guard = _C.RoleGuard(program, role, list(role_vars))
    try:
        yield
    finally:
        guard.close()


@_extend(Program)
def _backward_role_guard(self):
    return _role_guard(self, OpRole.Backward)


@_extend(Program)
def _optimized_guard(self, param_and_grads):
    names = [item.name if isinstance(item, Variable) else item for item in param_and_grads]
    return _role_guard(self, OpRole.Optimize, names)


@_extend(Program)
def _lr_schedule_guard(self, is_with_opt=False):
    return _role_guard(self, OpRole.LRSched | (OpRole.Optimize if is_with_opt else 0))


# Guards

@contextlib.contextmanager
def program_guard(main_program, startup_program=None):
    """Layers called inside build into these programs."""
    if not isinstance(main_program, Program):
        raise TypeError(f'main_program must be a Program, got {type(main_program).__name__}')
    if startup_program is not None and not isinstance(startup_program, Program):
        raise TypeError(f'startup_program must be a Program, got {type(startup_program).__name__}')
    old_main = switch_main_program(main_program)
    old_startup = None if startup_program is None else switch_startup_program(startup_program)
    try:
        yield
    finally:
        switch_main_program(old_main)
        if old_startup is not None:
            switch_startup_program(old_startup)


@contextlib.contextmanager
def name_scope(prefix=None):
    """Ops made inside carry the path of scopes in op_namescope."""
    assert prefix, 'the prefix of name_scope must not be empty'
    guard = _C.NameScope(prefix)
    try:
        yield
    finally:
        guard.close()


@contextlib.contextmanager
def device_guard(device=None):
    """Ops made inside carry op_device: 'cpu', 'gpu', 'gpu:N' or none."""
    guard = _C.DeviceGuard(device or '')
    try:
        yield
    finally:
        guard.close()


# Flags, versions

def set_flags(flags):
    """set_flags({'FLAGS_check_nan_inf': True})"""
    if not isinstance(flags, dict):
        raise TypeError(f'set_flags takes a dict of names and values, got {type(flags).__name__}')
    for name, value in flags.items():
        _C.set_flag(name, value)


def get_flags(flags):
    """The values of one flag or of several, as a dict."""
    if isinstance(flags, str):
        flags = [flags]
    elif not isinstance(flags, (list, tuple)):
        raise TypeError(f'get_flags takes one name or a list of them, got {type(flags).__name__}')
    return {name: _C.get_flag(name) for name in flags}


def require_version(min_version, max_version=None):
    """Raises unless the version this package answers to (2.4.2) lies between the two."""
    from ..version import full_version

    def numbers(text, name):
        if not isinstance(text, str):
            raise TypeError(f'{name} must be a str, got {type(text).__name__}')
        parts = text.split('.')
        if not 1 <= len(parts) <= 4 or not all(part.isdigit() for part in parts):
            raise ValueError(f'{name} must look like 1.8.5, got {text!r}')
        return [int(part) for part in parts] + [0] * (4 - len(parts))
    own = numbers(full_version, 'version')
    if own < numbers(min_version, 'min_version'):
        raise Exception(f'version {min_version} is required; this is {full_version}')
    if max_version is not None and own > numbers(max_version, 'max_version'):
        raise Exception(f'at most version {max_version} is required; this is {full_version}')


def load_op_library(lib_filename):
    raise NotImplementedError(
        f'load_op_library({os.path.basename(lib_filename)!r}): operators compiled against the '
        'original cannot be loaded; add a row to Trireme\'s op table instead')


def convert_np_dtype_to_dtype_(np_dtype):
    return _C.to_dtype(np_dtype)
