"""append_backward and gradients."""
import _trireme as _C

from .framework import GRAD_VAR_SUFFIX, Variable, grad_var_name

__all__ = ['append_backward', 'gradients']


def _list(value, name, kinds=(list, tuple, set)):
    if not isinstance(value, kinds):
        raise TypeError(f'{name} must be a list, a tuple or a set, got {type(value).__name__}')
    return list(value)


def _names(values, name):
    names = []
    for item in _list(values, name):
        if not isinstance(item, (str, Variable)):
            raise TypeError(f'{name} holds a {type(item).__name__}; its items are Variables or names')
        names.append(item if isinstance(item, str) else item.name)
    return names


def append_backward(loss, parameter_list=None, no_grad_set=None, callbacks=None, checkpoints=None):
    """Appends the gradient ops of loss to its program; returns (parameter, gradient) pairs."""
    if not isinstance(loss, Variable):
        raise TypeError(f'loss must be a Variable, got {type(loss).__name__}')
    if callbacks is not None and not isinstance(callbacks, (list, tuple)):
        raise TypeError(f'callbacks must be a list or a tuple, got {type(callbacks).__name__}')
    calls = [_with_context(call) for call in callbacks or []]
    params = None if parameter_list is None else _names(parameter_list, 'parameter_list')
    return _C.append_backward(loss, params, set(_names(no_grad_set or [], 'no_grad_set')),
                              _names(checkpoints or [], 'checkpoints'), calls)


def _with_context(callback):
    return lambda block, op: callback(block=block, context={'__current_op_desc__': op.desc})


def _variables(value, name):
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in values:
        if not isinstance(item, Variable):
            raise TypeError(f'{name} must be Variables, got {type(item).__name__}')
    return values


def gradients(targets, inputs, target_gradients=None, no_grad_set=None):
    """d(targets)/d(inputs), one per input; None where a target does not depend on it."""
    targets, inputs = _variables(targets, 'targets'), _variables(inputs, 'inputs')
    given = []
    if target_gradients is not None:
        given = target_gradients if isinstance(target_gradients, (list, tuple)) else [target_gradients]
    return _C.gradients(targets, inputs, list(given), set(_names(no_grad_set or [], 'no_grad_set')))


calc_gradient = gradients


# Small helpers that passes of others borrow.

def _as_list(x):
    if x is None:
        return []
    return list(x) if isinstance(x, (list, tuple)) else [x]


_append_grad_suffix_ = grad_var_name


def _strip_grad_suffix_(name):
    """x@GRAD and x@GRAD@RENAME@1 are gradients of x."""
    return name.partition(GRAD_VAR_SUFFIX)[0]


def _is_grad_var_(name):
    return GRAD_VAR_SUFFIX in name


def _some_in_set_(cands, s):
    return any(name in s for name in cands)


def _all_in_set_(cands, s):
    return all(name in s for name in cands)


def _get_no_grad_set_name(no_grad_set):
    return None if no_grad_set is None else set(_names(no_grad_set, 'no_grad_set'))


def _get_stop_gradients_(program):
    """index of each block -> the names that gradients of variables which stop them would have"""
    return {block.idx: {grad_var_name(var.name) for var in block.vars.values() if var.stop_gradient}
            for block in program.blocks}
