"""memory_optimize and release_memory."""
import _trireme as _C

from ..framework import Program, Variable

__all__ = ['memory_optimize', 'release_memory']


def _checked(input_program, skip_opt_set):
    if not isinstance(input_program, Program):
        raise TypeError(f'input_program must be a Program, got {type(input_program).__name__}')
    if skip_opt_set is None:
        return set()
    if not isinstance(skip_opt_set, (set, frozenset, list, tuple)):
        raise ValueError('skip_opt_set must be a set or list of Variables or names, got '
                         f'{type(skip_opt_set).__name__}')
    names = set()
    for item in skip_opt_set:
        if not isinstance(item, (Variable, str)):
            raise TypeError('skip_opt_set holds Variables or names, and one of its elements is a '
                            f'{type(item).__name__}')
        names.add(item.name if isinstance(item, Variable) else item)
    return names


def memory_optimize(input_program, skip_opt_set=None, print_log=False, level=0, skip_grads=False):
    """Gives results of ops the names of variables that are not needed any more, in place.

    What is fetched, fed or kept between runs stays right: a fetch of a variable that lost its name
    is answered from the op that computes it. level 0 shares names between equal shapes, level 1 also
    puts small into large. skip_grads keeps the names of gradients, which transpile needs after it.
    """
    names = _checked(input_program, skip_opt_set)
    if level not in (0, 1):
        raise ValueError(f'level is {level!r} but only 0 and 1 are allowed')
    _C.memory_optimize(input_program, names, bool(print_log), level, bool(skip_grads))


def release_memory(input_program, skip_opt_set=None):
    """Inserts delete_var ops behind the last use of variables, in place. Experimental."""
    _C.release_memory(input_program, _checked(input_program, skip_opt_set))
