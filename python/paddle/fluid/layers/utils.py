"""Nested structures of variables: lists, tuples, named tuples and dictionaries."""

__all__ = ['convert_to_list', 'is_sequence', 'flatten', 'pack_sequence_as', 'map_structure', 'assert_same_structure']


def convert_to_list(value, n, name, dtype=int):
    """n numbers of one kind: a list of them, or one number that stands for all."""
    if isinstance(value, dtype):
        return [value] * n
    try:
        values = list(value)
    except TypeError:
        raise ValueError(f'{name} must be one {dtype.__name__} or {n} of them, got {value!r}') from None
    if len(values) != n:
        raise ValueError(f'{name} must have {n} numbers, got {len(values)}: {value!r}')
    for one in values:
        try:
            dtype(one)
        except (ValueError, TypeError):
            raise ValueError(f'{name} holds {one!r}, which is no {dtype.__name__}') from None
    return values


def is_sequence(value):
    return isinstance(value, (list, tuple, dict))


def _items(structure):
    """What a structure holds; dictionaries in the order of their keys."""
    if isinstance(structure, dict):
        return [structure[key] for key in sorted(structure)]
    return list(structure)


def in_form_of(structure, items):
    """items in a container like structure; its own elements do not matter."""
    if isinstance(structure, dict):
        return type(structure)(zip(sorted(structure), items))
    if hasattr(structure, '_fields'):  # a named tuple
        return type(structure)(*items)
    return type(structure)(items)


def flatten(nest):
    """Everything in a nested structure, as one list."""
    if not is_sequence(nest):
        return [nest]
    return [leaf for item in _items(nest) for leaf in flatten(item)]


def pack_sequence_as(structure, flat_sequence):
    """The inverse of flatten: flat_sequence in the form of structure."""
    flat = list(flat_sequence)
    count = len(flatten(structure))
    if len(flat) != count:
        raise ValueError(f'the structure holds {count} elements but flat_sequence has {len(flat)}')
    leaves = iter(flat)

    def pack(part):
        return in_form_of(part, [pack(item) for item in _items(part)]) if is_sequence(part) \
            else next(leaves)
    return pack(structure)


def map_structure(func, *structure):
    """func of the elements that stand in the same place, in the same form."""
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=False)
    return pack_sequence_as(structure[0], [func(*leaves) for leaves in zip(*map(flatten, structure))])


def assert_same_structure(nest1, nest2, check_types=True):
    """Raises ValueError unless both are nested alike, TypeError where their types differ."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(f'one goes deeper where the other ends: {nest1!r} against {nest2!r}')
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(f'a {type(nest1).__name__} stands where the other has a {type(nest2).__name__}')
    if len(nest1) != len(nest2):
        raise ValueError(f'one holds {len(nest1)} elements, the other {len(nest2)}')
    if isinstance(nest1, dict) and isinstance(nest2, dict) and set(nest1) != set(nest2):
        raise ValueError(f'one has the keys {sorted(nest1)}, the other {sorted(nest2)}')
    for one, other in zip(_items(nest1), _items(nest2)):
        assert_same_structure(one, other, check_types)
