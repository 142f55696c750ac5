"""Lists what no case covers: .venv/bin/python tests/original/missing.py

Layers and optimizers that the original and ours both have and no recorded case calls. The original's names are in
records/names.txt.
"""
import os

import paddle.fluid as fluid

import groups
import store

# What gives no numbers to compare: readers, printing, base classes.
NO_NUMBERS = frozenset((
    'data', 'py_reader', 'create_py_reader_by_data', 'read_file', 'double_buffer', 'load', 'Print', 'Decoder',
    'DecodeHelper', 'RNNCell', 'monkey_patch_variable'))
# The original runs it on GPUs only.
NOT_ON_CPU = frozenset(('lstm',))
# The original's layer refuses whatever it is given; its op has cases.
REFUSED_THERE = frozenset(('hash',))


def names_of(module):
    with open(os.path.join(groups.HERE, 'records', 'names.txt')) as lines:
        return {line.split('.')[1].strip() for line in lines if line.startswith(module + '.')}


def covered():
    """Layers that recorded cases call."""
    return {layer for group in groups.NAMES for _, about in store.load(groups.path(group)).values()
            for layer in about['layers']}


def has(module, name):
    try:
        getattr(module, name)
    except (AttributeError, NotImplementedError):
        return False
    return True


def uncovered():
    """Layers of both that no case calls."""
    names = names_of('layers') - covered() - NO_NUMBERS - NOT_ON_CPU - REFUSED_THERE
    return sorted(name for name in names if has(fluid.layers, name))


if __name__ == '__main__':
    both = sorted(name for name in names_of('layers') if has(fluid.layers, name))
    print(f'{len(both)} layers are in both, {len(names_of("layers")) - len(both)} only in the original')
    print('without a case:', ', '.join(uncovered()) or 'none')
