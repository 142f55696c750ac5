"""Runs recorded cases in ours and says which differ: .venv/bin/python tests/original/replay.py [GROUP or CASE...]

The same comparison is made by tests/python/test_original.py; this prints it for reading.
"""
import contextlib
import os
import sys
import traceback
import warnings

import paddle
import paddle.fluid as fluid

import groups
import store
from case import CASES, run_case
from compare import differences
from departures import ALLOWANCES, DEPARTURES, KNOWN_DEFECTS, NOT_BUILT


KINDS = ('equal', 'on the departures page', 'not built here', 'open defects', 'different')


@contextlib.contextmanager
def _as_recorded(name):
    """Programs of cases26/ are built after paddle.enable_static(), which is undone."""
    framework, before = paddle.fluid.framework, paddle.fluid.framework._print_as_2_4
    framework._print_as_2_4 = before or CASES[name][0] in groups.LATER
    try:
        yield
    finally:
        framework._print_as_2_4 = before


@contextlib.contextmanager
def original_numbers(wanted=True):
    """Seeded ops draw the original's numbers inside."""
    fluid.set_flags({'FLAGS_original_random': wanted})
    try:
        yield
    finally:
        fluid.set_flags({'FLAGS_original_random': False})


def run_recorded(name, recorded):
    """What ours gives for a case, from the record's parameters."""
    arrays, _ = recorded
    known = {key[len('parameter/'):]: value for key, (value, _) in arrays.items()
             if key.startswith('parameter/')}
    with _as_recorded(name), original_numbers(CASES[name][0] == 'seeded'):
        return run_case(name, known, any(key.startswith('gradient/') for key in arrays))


def replay(name, recorded):
    """Lines that say what differs."""
    arrays, about = recorded
    found, found_about = run_recorded(name, recorded)
    if CASES[name][0] in groups.LATER:
        about = dict(about, outs=_sharper(found_about['outs'], about['outs'], arrays))
    return differences(found, found_about, arrays, about, ALLOWANCES.get(name, (0.0, ''))[0])


def _sharper(ours, theirs, arrays):
    """Their declarations, or ours where ours is what the run gave: 2.6.2 often leaves a dimension open."""
    def fits(declared, i):
        value = arrays[f'out/{i}'][0] if f'out/{i}' in arrays else None
        return value is not None and declared[1] == str(value.dtype) and len(declared[0]) == value.ndim and all(
            dim in (-1, size) for dim, size in zip(declared[0], value.shape))
    return [our if fits(our, i) else their for i, (our, their) in enumerate(zip(ours, theirs))]


def kind_of(name, lines):
    if not lines:
        return 'equal'
    return KINDS[1] if name in DEPARTURES else KINDS[3] if name in KNOWN_DEFECTS else KINDS[4]


def main(wanted):
    warnings.simplefilter('ignore')
    counts = dict.fromkeys(KINDS, 0)
    for group in groups.NAMES + groups.LATER:
        groups.load(group)
        if not os.path.exists(groups.path(group)):
            continue
        for name, recorded in sorted(store.load(groups.path(group)).items()):
            if wanted and name not in wanted and group not in wanted:
                continue
            if NOT_BUILT & set(recorded[1]['layers']):
                counts['not built here'] += 1
                continue
            try:
                lines = replay(name, recorded)
            except Exception as error:
                lines = [f'fails: {type(error).__name__}: {error}']
                if wanted:
                    lines.append(traceback.format_exc())
            kind = kind_of(name, lines)
            counts[kind] += 1
            if lines:
                print(f'{group}/{name}: {kind}\n  ' + '\n'.join(lines).replace('\n', '\n  '), flush=True)
    print(', '.join(f'{count} {kind}' for kind, count in counts.items()))


if __name__ == '__main__':
    main(sys.argv[1:])
