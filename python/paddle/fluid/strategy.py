"""BuildStrategy and ExecutionStrategy: the engine's, with checks of what is set and when."""
import difflib

import _trireme as _C

from . import core

# Fields that _finalize_strategy_and_create_passes locks.
_LOCKED = {'reduce_strategy', 'gradient_scale_strategy', 'debug_graphviz_path',
           'enable_sequential_execution', 'remove_unnecessary_lock', 'fuse_elewise_add_act_ops',
           'fuse_bn_act_ops', 'fuse_bn_add_act_ops', 'enable_auto_fusion', 'fuse_relu_depthwise_conv',
           'fuse_gemm_epilogue', 'fuse_broadcast_ops', 'fuse_all_optimizer_ops', 'sync_batch_norm'}

# Names that fields had in earlier releases.
_FORMER = {'fuse_broadcast_op': 'fuse_broadcast_ops'}

_KINDS = {bool: 'True or False', int: 'a whole number of 32 bits', str: 'a str', list: 'a list of str',
          set: 'a set of str'}


class _Strategy:
    """What both have: fields are checked when they are set, and compiling takes a copy."""

    _given = _finalized = False

    def __getattr__(self, name):
        if name in _FORMER and hasattr(type(self), _FORMER[name]):
            return getattr(self, _FORMER[name])
        raise AttributeError(f'{type(self).__name__} has no field {name}')

    def __setattr__(self, name, value):
        kind = type(self).__name__
        name = _FORMER.get(name, name)
        if not isinstance(getattr(type(self), name, None), property):
            fields = [field for field in dir(type(self))
                      if isinstance(getattr(type(self), field), property)]
            near = difflib.get_close_matches(name, fields, 1)
            raise AttributeError(f'{kind} has no field {name}' + (f': did you mean {near[0]}?' if near else ''))
        if self._finalized and name in _LOCKED:
            raise core.PreconditionNotMetError(
                f'{kind}.{name} cannot be set any more: _finalize_strategy_and_create_passes was '
                'called; _clear_finalized() opens it again')
        before = getattr(self, name)
        if name == 'memory_optimize':
            fits, wanted = value is None or value in (0, 1), 'None, True or False'
        elif isinstance(before, bool):
            fits, wanted = value in (0, 1), _KINDS[bool]
        else:
            fits, wanted = True, _KINDS.get(type(before), f'one of {kind}.{type(before).__name__}')
        try:
            if not fits:
                raise TypeError
            super().__setattr__(name, value)
        except TypeError:
            raise core.TypeMismatchError(f'{kind}.{name} is {wanted}, got {value!r}') from None
        if self._given and getattr(self, name) != before:
            _C.warn(f'{kind}.{name} is set after the strategy was given to a program, which took a '
                    'copy: it goes on with the values it got. Set it before, or compile again')

    def _handed_over(self):
        """Edits from now on do not reach whom it was given to."""
        self.__dict__['_given'] = True
        return self


class BuildStrategy(_Strategy, _C.BuildStrategy):
    """How a program is compiled. CompiledProgram.explain() says what each field does here."""

    def _finalize_strategy_and_create_passes(self):
        """Locks the fields that decide which passes there are, and gives those."""
        self.__dict__['_finalized'] = True
        return PassBuilder(self)

    def _clear_finalized(self):
        self.__dict__['_finalized'] = False

    def _copy(self):
        """The same values, neither finalized nor given to anybody."""
        copy = BuildStrategy()
        copy._assign(self)
        return copy


class ExecutionStrategy(_Strategy, _C.ExecutionStrategy):
    """How a compiled program runs. CompiledProgram.explain() says what each field does here."""


class Pass:
    """A pass of the compiler, by its name."""

    def __init__(self, name):
        self._name = name

    def type(self):
        return self._name

    def __repr__(self):
        return f'Pass({self._name!r})'


class PassBuilder:
    """The passes that a BuildStrategy lets run, in their order. They can be taken out and put back;
    others do not exist, and their order is fixed."""

    def __init__(self, strategy):
        self._strategy = strategy

    def _names(self):
        return [name for name in _C.pass_names() if name not in self._strategy.passes_off]

    def all_passes(self):
        return [Pass(name) for name in self._names()]

    def remove_pass(self, idx):
        names = self._names()
        if not isinstance(idx, int) or not 0 <= idx < len(names):
            raise IndexError(f'there is no pass {idx!r}: they are numbered from 0 to {len(names) - 1}')
        self._strategy.passes_off = self._strategy.passes_off + [names[idx]]

    def append_pass(self, pass_type):
        """Puts a removed pass back, to its place."""
        if pass_type not in _C.pass_names():
            raise core.NotFoundError(f'there is no pass {pass_type!r}: the passes here are '
                                     + ', '.join(_C.pass_names()))
        self._strategy.passes_off = [name for name in self._strategy.passes_off if name != pass_type]
        return Pass(pass_type)

    def insert_pass(self, idx, pass_type):
        names = [name for name in _C.pass_names()
                 if name == pass_type or name not in self._strategy.passes_off]
        if pass_type in names and names.index(pass_type) != idx:
            raise ValueError(f'the pass {pass_type} stands at {names.index(pass_type)}, not at {idx}: '
                             'the order of passes is fixed')
        return self.append_pass(pass_type)
