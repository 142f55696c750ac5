"""What programs take from paddle.utils: plots, unique names, checks of the installation and of versions."""
from . import download, plot
from ..fluid import unique_name
from ..fluid.framework import require_version
from ..fluid.install_check import run_check
from .plot import Ploter

__all__ = ['Ploter', 'deprecated', 'run_check', 'require_version', 'try_import', 'unique_name']


def try_import(module_name, err_msg=None):
    """The module, or an ImportError that says what to install."""
    import importlib
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ImportError(err_msg or f'{module_name} is needed and not there: pip install {module_name}') from error


def deprecated(update_to='', since='', reason='', level=0):
    """Marks a function as one to leave; level 2 makes calling it an error."""
    import functools
    import warnings

    def mark(func):
        text = f'{func.__module__}.{func.__name__} is deprecated' + (f' since {since}' if since else '') \
            + (f': use {update_to}' if update_to else '') + (f' ({reason})' if reason else '')

        @functools.wraps(func)
        def call(*args, **kwargs):
            if level == 2:
                raise RuntimeError(text)
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            return func(*args, **kwargs)
        return call
    return mark
