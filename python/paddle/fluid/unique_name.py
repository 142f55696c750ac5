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


def switch(new_generator=None, new_para_name_checker=None):
    """Makes a generator current (None: a fresh one) and returns the one before, in a pair.

    The pair's second part, which belongs to the dynamic mode, is None here: switch(*pair) goes back.
    """
    if isinstance(new_generator, tuple):
        raise TypeError('switch takes the two parts of the pair that it returned: write switch(*pair)')
    if new_para_name_checker is not None:
        raise TypeError(f'new_para_name_checker is {new_para_name_checker!r}: it belongs to the dynamic mode, which is '
                        'not here; give None')
    return _C.switch_names(new_generator), None


@contextlib.contextmanager
def guard(new_generator=None):
    """Fresh counters inside; a text becomes the prefix of every name."""
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = UniqueNameGenerator(new_generator)
    before = _C.switch_names(new_generator)
    try:
        yield
    finally:
        _C.switch_names(before)
