"""Python functions as ops."""
import inspect

import _trireme as _C

__all__ = ['py_func']


def _variables(value, argument):
    if value is None:
        return []
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(item, _C.Variable) for item in items):
        raise TypeError(f'{argument} of py_func must be a Variable or a list of them')
    return items


def _takes_arguments(function):
    try:
        return bool(inspect.signature(function).parameters)
    except ValueError:  # builtins that do not say
        return True


def _register(function):
    takes = _takes_arguments(function)

    def call(inputs, count):
        results = function(*inputs) if takes else function()
        if not isinstance(results, (list, tuple)):
            results = [results]
        if len(results) != count:
            name = getattr(function, '__name__', repr(function))
            raise ValueError(f'py_func: {name} returned {len(results)} values for {count} outputs')
        return list(results)
    return _C.register_py_func(call)


def py_func(func, x, out, backward_func=None, skip_vars_in_backward_input=None):
    """Runs a Python function as an op.

    func gets the values of x as LoDTensors, and returns a LoDTensor or an array for each variable of
    out, which has its shape and type already. backward_func gets x, out and the gradients of out
    (None for one that does not exist), and returns the gradients of x; without it no gradient flows.
    What either raises comes out of Executor.run.
    """
    for function, argument in ((func, 'func'), (backward_func, 'backward_func')):
        if not callable(function) and (argument == 'func' or function is not None):
            raise TypeError(f'{argument} of py_func must be a function')
    inputs, outputs = _variables(x, 'x'), _variables(out, 'out')
    names = {var.name for var in inputs + outputs}
    skipped = []
    for var in skip_vars_in_backward_input and _as_list(skip_vars_in_backward_input) or []:
        name = var if isinstance(var, str) else var.name
        if name not in names:
            raise ValueError(f'skip_vars_in_backward_input names {name}, which is neither in x nor in out')
        skipped.append(name)
    backward = -1 if backward_func is None else _register(backward_func)
    if not outputs:  # an op has an output: this one stays empty
        outputs = [_C.default_main_program().current_block().create_var(
            name=_C.generate_name('py_func.nothing'), shape=[1], dtype='float32',
            stop_gradient=True)]
    _C.py_func(_register(func), inputs, outputs, backward, skipped)
    return out


def _as_list(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]
