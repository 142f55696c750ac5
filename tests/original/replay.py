"""Runs recorded cases in ours and says which differ: .venv/bin/python tests/original/replay.py [GROUP or CASE...]

The same comparison is made by tests/python/test_original.py; this prints it for reading.
"""
import os
import sys
import traceback

import groups
import store
from case import run_case
from compare import differences
from departures import DEPARTURES, FACTORS, KNOWN_DEFECTS


def replay(name, recorded):
    """Lines that say what differs."""
    arrays, about = recorded
    known = {key[len('parameter/'):]: value for key, (value, _) in arrays.items()
             if key.startswith('parameter/')}
    gradients = any(key.startswith('gradient/') for key in arrays)
    found, found_about = run_case(name, known, gradients)
    return differences(found, found_about, arrays, about, FACTORS.get(name, (1.0, ''))[0])


def main(wanted):
    counts = dict.fromkeys(('equal', 'departures', 'open defects', 'different'), 0)
    for group in groups.NAMES:
        groups.load(group)
        if not os.path.exists(groups.path(group)):
            continue
        for name, recorded in sorted(store.load(groups.path(group)).items()):
            if wanted and name not in wanted and group not in wanted:
                continue
            try:
                lines = replay(name, recorded)
            except Exception as error:
                lines = [f'fails: {type(error).__name__}: {error}']
                if wanted:
                    lines.append(traceback.format_exc())
            kind = ('equal' if not lines else 'departures' if name in DEPARTURES else
                    'open defects' if name in KNOWN_DEFECTS else 'different')
            counts[kind] += 1
            if lines:
                print(f'{group}/{name}: {kind}\n  ' + '\n'.join(lines).replace('\n', '\n  '), flush=True)
    print(', '.join(f'{count} {kind}' for kind, count in counts.items()))


if __name__ == '__main__':
    main(sys.argv[1:])
