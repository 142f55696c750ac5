"""A stack of scopes in each thread: enter a local one, leave it, find and make variables in it."""
import threading

from . import core

__all__ = ['get_cur_scope', 'enter_local_scope', 'leave_local_scope', 'var', 'find_var',
           'scoped_function']

_here = threading.local()


def _stack():
    if not hasattr(_here, 'scopes'):
        _here.scopes = [core.Scope()]
    return _here.scopes


def get_cur_scope():
    return _stack()[-1]


def enter_local_scope():
    _stack().append(get_cur_scope().new_scope())


def leave_local_scope():
    """Drops the local scope with its variables."""
    if len(_stack()) == 1:
        raise RuntimeError('leave_local_scope without enter_local_scope: the first scope stays')
    _stack().pop()
    get_cur_scope().drop_kids()


def var(name):
    """The variable of that name here, made if it is not there."""
    return get_cur_scope().var(name)


def find_var(name):
    """The variable of that name here or in a scope around; None when there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func):
    """Calls func in a local scope."""
    enter_local_scope()
    try:
        return func()
    finally:
        leave_local_scope()
