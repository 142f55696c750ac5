"""Loops and branches: blocks entered with `with`, and functions that take functions."""
import contextlib

import _trireme as _C
from _trireme import (Assert, Print, array_length, array_read, array_to_lod_tensor, array_write,
                      create_array, increment, is_empty, lod_rank_table, lod_tensor_to_array,
                      max_sequence_len, merge_lod_tensor, reorder_lod_tensor_by_rank,
                      shrink_memory, split_lod_tensor)

from .more import equal, greater_equal, greater_than, less_equal, less_than, not_equal
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
        if not self.inside_scope:
            raise ValueError('case should be called inside with')
        return _inside(self._switch.when(condition))

    def default(self):
        if not self.inside_scope:
            raise ValueError('default should be called inside with')
        return _inside(self._switch.otherwise())

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
            raise ValueError(f'Incompatible return values of the functions in {self._layer}: '
                             f'{error}') from None

    def pack(self, variables):
        return pack_sequence_as(self._structure, variables) if variables else None


def _check_function(function, what, optional=False):
    if not callable(function) and not (optional and function is None):
        raise TypeError(f'The {what} must be callable, but received {type(function).__name__}')


def cond(pred, true_fn=None, false_fn=None, name=None):
    """What true_fn or false_fn computes; both return variables nested alike, or nothing."""
    _check_function(true_fn, 'true_fn in cond', optional=True)
    _check_function(false_fn, 'false_fn in cond', optional=True)
    results = _Results('cond')
    return results.pack(_C.cond(pred, results.of(true_fn), results.of(false_fn), name))


def case(pred_fn_pairs, default=None, name=None):
    """What the first pair whose condition holds computes, or else default (else the last pair)."""
    _check_function(default, 'default in case', optional=True)
    if not isinstance(pred_fn_pairs, (list, tuple)):
        raise TypeError('pred_fn_pairs of case must be a list or tuple, but received '
                        f'{type(pred_fn_pairs).__name__}')
    results = _Results('case')
    pairs = []
    for pair in pred_fn_pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], _C.Variable):
            raise TypeError('The elements of pred_fn_pairs in case must be pairs of a variable and '
                            f'a function, but received {pair!r}')
        _check_function(pair[1], f'fn for {pair[0].name} of pred_fn_pairs in case')
        pairs.append((pair[0], results.of(pair[1])))
    return results.pack(_C.case(pairs, results.of(default), name))


def switch_case(branch_index, branch_fns, default=None, name=None):
    """What the branch of this number computes, or else default (else that of the largest number)."""
    _check_function(default, 'default in switch_case', optional=True)
    if not isinstance(branch_fns, (list, tuple, dict)):
        raise TypeError('branch_fns of switch_case must be a list, tuple or dict, but received '
                        f'{type(branch_fns).__name__}')
    results = _Results('switch_case')
    items = branch_fns.items() if isinstance(branch_fns, dict) else branch_fns
    branches = {}
    for position, item in enumerate(items):
        number, function = (position, item) if callable(item) else item
        if not isinstance(number, int):
            raise TypeError('The keys of branch_fns in switch_case must be int, but received '
                            f'{type(number).__name__}')
        if number in branches:
            raise ValueError(f'branch_fns of switch_case has two functions for {number}')
        _check_function(function, f'fn for {number} of branch_fns in switch_case')
        branches[number] = results.of(function)
    return results.pack(_C.switch_case(branch_index, branches, results.of(default), name))


def while_loop(cond, body, loop_vars, is_test=False, name=None):
    """As long as cond of the loop variables holds, body computes their next values."""
    _check_function(cond, 'cond in while_loop')
    _check_function(body, 'body in while_loop')
    if not isinstance(loop_vars, (list, tuple)):
        raise TypeError(f'loop_vars of while_loop must be a list or tuple, but received '
                        f'{type(loop_vars).__name__}')

    def build_cond(variables):
        return cond(*pack_sequence_as(loop_vars, variables))

    def build_body(variables):
        result = body(*pack_sequence_as(loop_vars, variables))
        result = result if isinstance(result, (list, tuple)) else [result]
        try:
            assert_same_structure(result, loop_vars, check_types=False)
        except ValueError as error:
            raise ValueError('body in while_loop should return the same arity (length and '
                             f'structure) as loop_vars: {error}') from None
        return flatten(result)

    _C.while_loop(build_cond, build_body, flatten(loop_vars), is_test, name)
    return loop_vars


def select_input(inputs, mask):
    """The one of inputs whose number is mask."""
    return _C.apply('select_input', {'X': inputs, 'Mask': mask}, {})['Out'][0]
