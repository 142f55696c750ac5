"""Calls that do not fit a function of this package, and names that a module does not have.

What is wrong, where, and what is meant is said by the engine; here stands who asks it. `watch()` gives
every public function and method of the package a wrapper that only does something when Python refuses
a call, and every module a __getattr__ that proposes the nearest name.
"""
import functools
import inspect
import os
import re
import sys
import types

import _trireme as _C

_REFUSED = re.compile(r'unexpected keyword argument|required (positional|keyword-only) argument|'
                      r'positional arguments? but|multiple values for|no arguments|takes no keyword')
_PASSING_ON = ('_guard.py', '_style.py', 'contextlib.py')


class NotBuilt(AttributeError, NotImplementedError):
    """A name of the original that is not here: hasattr() says no, using it says what to do instead."""


_wrapped = {}  # id of a function -> the function (kept alive) and its wrapper


# What Python says when a value is not of the kind that a line of the package works with.
_UNFIT = re.compile(r'object has no attribute|is not (iterable|callable|subscriptable)|not supported between|'
                    r'unsupported operand|argument must be|argument should be|has no len|unhashable type|'
                    r'can be converted|cannot be interpreted|cannot be converted|expected str|'
                    r'cannot unpack|must be str|object is not a mapping')
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _innermost(trace):
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename


def _given(function, args, kwargs):
    """name -> value of what a call gives, self left out."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return {}
    return {name: value for name, value in bound.items() if name != 'self'}


def _misfit(function, args, kwargs, error):
    """An error that names the argument behind an error that Python raised in a line of the package."""
    given = _given(function, args, kwargs)
    culprit = getattr(error, 'obj', None)
    names = [name for name, value in given.items() if culprit is not None and (
        value is culprit or isinstance(value, (list, tuple)) and any(item is culprit for item in value))]
    _C.raise_misfit(names or list(given), [given[name] for name in names or given], function, str(error))


def _explain(function, args, kwargs, _):
    parameters = [each for each in inspect.signature(function).parameters.values()
                  if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    _C.explain_call(function, [each.name for each in parameters],
                    [None if each.default is each.empty else repr(each.default) for each in parameters],
                    args, kwargs)


def _guarded(function):
    known = _wrapped.get(id(function))
    if known is not None:
        return known[1]

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError) as error:
            if type(error) not in (TypeError, AttributeError):
                raise
            text, file = str(error), _innermost(error.__traceback__)
            if _REFUSED.search(text) and file.endswith(_PASSING_ON):
                explain = _explain
            elif (_UNFIT.search(text) and file.startswith(_HERE)
                  and not sys._getframe(1).f_code.co_filename.startswith(_HERE)):
                explain = _misfit
            else:
                raise
            refused = error
        explain(function, args, kwargs, refused)  # out of the except: one error, not a chain of them
        raise refused
    _wrapped[id(function)] = function, call
    _wrapped[id(call)] = call, call
    return call


def _is_public(name):
    return not name.startswith('_') or name in ('__init__', '__call__')


def _watch_class(cls):
    for name, member in list(vars(cls).items()):
        if not _is_public(name):
            continue
        if isinstance(member, types.FunctionType):
            setattr(cls, name, _guarded(member))
        elif isinstance(member, (staticmethod, classmethod)) and isinstance(member.__func__,
                                                                            types.FunctionType):
            setattr(cls, name, type(member)(_guarded(member.__func__)))


def _unknown(module, before):
    def __getattr__(name):
        if before is not None:
            try:
                value = before(name)
                if isinstance(value, types.FunctionType) and _is_public(name):
                    value = _guarded(value)
                    setattr(module, name, value)
                return value
            except NotImplementedError as error:
                raise NotBuilt(str(error)) from None
            except AttributeError as error:
                if name.startswith('__'):
                    raise
                text = str(error)
        else:
            text = f'module {module.__name__} has no attribute {name!r}'
        near = [] if name.startswith('_') else _C.near_matches(name, [n for n in dir(module) if n[0] != '_'])
        if near:
            text += f'\n  fix: did you mean {" or ".join(near)}?'
        raise AttributeError(text, name=name, obj=module)
    __getattr__.is_guard = True
    return __getattr__


def watch():
    """Every module of the package that is imported by now."""
    own = [module for name, module in list(sys.modules.items())
           if name.partition('.')[0] == 'paddle' and isinstance(module, types.ModuleType)]
    classes = set()
    for module in own:
        for name, value in list(vars(module).items()):
            if not _is_public(name) or not getattr(value, '__module__', '').startswith('paddle'):
                continue
            if isinstance(value, types.FunctionType):
                setattr(module, name, _guarded(value))
            elif isinstance(value, type):
                classes.update(cls for cls in value.__mro__ if cls.__module__.startswith('paddle'))
        before = vars(module).get('__getattr__')
        if not getattr(before, 'is_guard', False):
            module.__getattr__ = _unknown(module, before)
    for cls in classes:
        _watch_class(cls)
