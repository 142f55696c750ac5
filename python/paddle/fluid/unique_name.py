"""Unique names: generate, switch and guard."""
import contextlib

import _trireme as _C
from _trireme import UniqueNameGenerator, generate_name

__all__ = ['generate', 'switch', 'guard']


def generate(key):
    """PREFIX + key + "_" + n, where n counts this key's names from 0."""
    return generate_name(key)


def __getattr__(name):
    if name == 'generator':  # the one that counts now
        now = _C.switch_names(None)
        _C.switch_names(now)
        return now
    raise AttributeError(f'module paddle.fluid.unique_name has no attribute {name!r}')


def generate_with_ignorable_key(key):
    return generate_name(key)


def switch(new_generator=None):
    """Makes a generator current (None: a fresh one) and returns the one before."""
    return _C.switch_names(new_generator)


@contextlib.contextmanager
def guard(new_generator=None):
    """Fresh counters inside; a text becomes the prefix of every name."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    before = switch(new_generator)
    try:
        yield
    finally:
        switch(before)
