"""Decorators that keep the signature of what they decorate."""
import contextlib
import functools

__all__ = ['wrap_decorator', 'signature_safe_contextmanager']


def wrap_decorator(decorator_func):
    """A decorator whose results look like the functions it was given."""
    def decorate(func):
        return functools.wraps(func)(decorator_func(func))
    return decorate


signature_safe_contextmanager = contextlib.contextmanager
