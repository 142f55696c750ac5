"""Loops and branches: blocks entered with `with`, and functions that take functions."""
import contextlib

import _trireme as _C
from _trireme import (Assert, Print, array_length, array_read, array_to_lod_tensor, array_write,
                      create_array, increment, is_empty, lod_rank_table, lod_tensor_to_array,
                      max_sequence_len, merge_lod_tensor, reorder_lod_tensor_by_rank,
                      shrink_memory, split_lod_tensor)

from .elementwise import equal, greater_equal, greater_than, less_equal, less_than, not_equal
from .utils import assert_same_structure, flatten, pack_sequence_as

__all__ = ['While', 'Switch', 'increment', 'array_write', 'create_array', 'less_than', 'less_equal',
           'greater_than', 'greater_equal', 'equal', 'not_equal', 'array_read', 'array_length',
           'cond', 'IfElse', 'DynamicRNN', 'StaticRNN', 'reorder_lod_tensor_by_rank', 'Print',
           'Assert', 'is_empty', 'case', 'switch_case', 'while_loop', 'ConditionalBlock',
           'lod_rank_table', 'max_sequence_len', 'lod_tensor_to_array', 'array_to_lod_tensor',
           'shrink_memory', 'split_lod_tensor', 'merge_lod_tensor', 'select_input']


@contextlib.contextmanager
def _inside(block):
    block.begin()
    try:
        yield
    except BaseException:
        block.abandon()
        raise
    block.complete()


class ConditionalBlock(_C.ConditionalBlock):
    """Ops built inside block() run when the inputs say so."""

    def block(self):
        return _inside(self)


class While(_C.While):
    """Ops built inside block() run as long as cond holds; they must write it."""

    def block(self):
        return _inside(self)


class Switch:
    """with Switch() as s: with s.case(condition): ...; with s.default(): ..."""

    def __init__(self, name=None):
        self._switch = _C.Switch()
        self.inside_scope = False

    def case(self, condition):
        self._check_open('case')
        return _inside(self._switch.when(condition))

    def default(self):
        self._check_open('default')
        return _inside(self._switch.otherwise())

    def _check_open(self, method):
        if not self.inside_scope:
            raise ValueError(f'Switch.{method}() outside of its switch: write `with Switch() as switch:` and '
                             f'call switch.{method} under it')

    def __enter__(self):
        self.inside_scope = True
        return self

    def __exit__(self, *error):
        self.inside_scope = False
        return False


class IfElse(_C.IfElse):
    """Rows whose cond is true go through true_block(), the others through false_block()."""

    def true_block(self):
        return self._block(True)

    def false_block(self):
        return self._block(False)

    @contextlib.contextmanager
    def _block(self, of_true):
        self.enter(of_true)
        try:
            with _inside(self.side(of_true)):
                yield
        finally:
            self.leave()


class StaticRNN(_C.StaticRNN):
    """Sequences [time, ...] of one length: what step() builds runs once for each time step."""

    def step(self):
        return _inside(self)


class DynamicRNN(_C.DynamicRNN):
    """Sequences of different lengths: what block() builds runs once for each time step."""

    def block(self):
        return _inside(self)


class _Results:
    """The functions of one cond or case: all return variables in one nested structure."""

    def __init__(self, layer):
        self._layer = layer
        self._structure = None

    def of(self, function):
        if function is None:
            return None

        def build():
            result = function()
            if result is None:
                return []
            self._check(result)
            return flatten(result)
        return build

    def _check(self, result):
        for leaf in flatten(result):
            if not isinstance(leaf, _C.Variable):
                raise TypeError(f'functions of {self._layer} return variables, but one returned a '
                                f'{type(leaf).__name__}')
        if self._structure is None:
            self._structure = result
            return
        try:
            assert_same_structure(self._structure, result, check_types=False)
        except ValueError as error:
            raise ValueError(f'all functions of {self._layer} must return alike, and one does not: '
                             f'{error}') from None

    def pack(self, variables):
        return pack_sequence_as(self._structure, variables) if variables else None


def _check_function(function, what, optional=False):
    if not callable(function) and not (optional and function is None):
        raise TypeError(f'{what} must be a function, got {type(function).__name__}')


def cond(pred, true_fn=None, false_fn=None, name=None):
    """What true_fn or false_fn computes; both return variables nested alike, or nothing."""
    _check_function(true_fn, 'true_fn of cond', optional=True)
    _check_function(false_fn, 'false_fn of cond', optional=True)
    results = _Results('cond')
    return results.pack(_C.cond(pred, results.of(true_fn), results.of(false_fn), name))


def case(pred_fn_pairs, default=None, name=None):
    """What the first pair whose condition holds computes, or else default (else the last pair)."""
    _check_function(default, 'default of case', optional=True)
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError('pred_fn_pairs of case is a list of (condition, function), got a '
                        f'{type(pred_fn_pairs).__name__}')
    results = _Results('case')
    pairs = []
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], _C.Variable):
            raise TypeError('pred_fn_pairs of case holds pairs of a variable and a function, got '
                            f'{pair!r}')
        _check_function(pair[1], f'what case runs for {pair[0].name}')
        pairs.append((pair[0], results.of(pair[1])))
    return results.pack(_C.case(pairs, results.of(default), name))


def switch_case(branch_index, branch_fns, default=None, name=None):
    """What the branch of this number computes, or else default (else that of the largest number)."""
    _check_function(default, 'default of switch_case', optional=True)
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError('branch_fns of switch_case is a list of functions, of (number, function), or '
                        f'a dict of both, got a {type(branch_fns).__name__}')
    results = _Results('switch_case')
    items = branch_fns.items() if isinstance(branch_fns, dict) else branch_fns
    branches = {}
    for position, item in enumerate(items):
        number, function = (position, item) if callable(item) else item
        if not isinstance(number, int):
            raise TypeError('branches of switch_case are numbered by ints, and one has a '
                            f'{type(number).__name__}')
        if number in branches:
            raise ValueError(f'branch_fns of switch_case has two functions for {number}')
        _check_function(function, f'branch {number} of switch_case')
        branches[number] = results.of(function)
    return results.pack(_C.switch_case(branch_index, branches, results.of(default), name))


def while_loop(cond, body, loop_vars, is_test=False, name=None):
    """As long as cond of the loop variables holds, body computes their next values."""
    _check_function(cond, 'cond of while_loop')
    _check_function(body, 'body of while_loop')
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError('loop_vars of while_loop is a list of what body changes, got a '
                        f'{type(loop_vars).__name__}')

    def build_cond(variables):
        return cond(*pack_sequence_as(loop_vars, variables))

    def build_body(variables):
        result = body(*pack_sequence_as(loop_vars, variables))
        result = result if isinstance(result, (list, tuple)) else [result]
        try:
            assert_same_structure(result, loop_vars, check_types=False)
        except ValueError as error:
            raise ValueError('body of while_loop must return a value for each of loop_vars, nested as '
                             f'they are: {error}') from None
        return flatten(result)

    _C.while_loop(build_cond, build_body, flatten(loop_vars), is_test, name)
    return loop_vars


def select_input(inputs, mask):
    """The one of inputs whose number is mask."""
    return _C.apply('select_input', {'X': inputs, 'Mask': mask}, {})['Out'][0]
