"""Counts what works, against the original's own lists of names, and writes the counts down.

    .venv/bin/python tools/count.py           prints the README's tables of counts
    .venv/bin/python tools/count.py --write   puts them into README.md, and writes docs/names.md and docs/api.md
    .venv/bin/python tools/count.py --documented  prints how many names say what they and their arguments are, and have a sample
    .venv/bin/python tools/count.py --used    prints how many of the names that public code uses are served,
                                              and those that are not, most used first

What the C++ tests have shown is read from what they print; they are run for it where the last run of
`make test` is older than they are.
"""
import enum
import importlib
import inspect
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as xml

import _trireme as _C
from paddle import _docstrings
from paddle.doctor.names import is_of_use, named

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, 'build', 'release')
BEGIN, END = '<!-- counted by tools/count.py --write -->\n', '<!-- counted -->\n'


# Names.

def public_names():
    """(release, module) -> names, as tools/names.txt lists them."""
    lists, now = {}, None
    for line in open(os.path.join(ROOT, 'tools', 'names.txt')):
        section = re.fullmatch(r'\[(\S+) (\S+)\]\n', line)
        if section:
            now = lists.setdefault(section.groups(), [])
        elif now is not None:
            now += line.split()
    return lists


def served(module, name):
    """Whether a name is there and is of use."""
    try:
        thing = getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, NotImplementedError):
        return False
    return is_of_use(thing)


def used_names():
    """(a name from paddle on, how often it is used) of tests/python/used_names.tsv."""
    lines = open(os.path.join(ROOT, 'tests', 'python', 'used_names.tsv')).read().splitlines()
    pairs = [line.split('\t') for line in lines if not line.startswith('#')]
    return [(name, int(uses)) for name, uses in pairs]


def name_is_served(name):
    """Whether a dotted name resolves and is of use."""
    try:
        return is_of_use(named(name))
    except (AttributeError, ImportError, RuntimeError):  # RuntimeError: of no use before something else is called
        return False


def used_names_served():
    """(names served, names, their uses, all uses), and the names that are not, most used first."""
    used = used_names()
    served = [pair for pair in used if name_is_served(pair[0])]
    missing = sorted(set(used) - set(served), key=lambda pair: (-pair[1], pair[0]))
    return (len(served), len(used), sum(uses for _, uses in served), sum(uses for _, uses in used)), missing


def used_sentence():
    (names, all_names, uses, all_uses), _ = used_names_served()
    return wrapped(f'Ten public repositories of the years 1.3 to 2.4 use {all_names:,} names (without those of dynamic '
                   f'mode), {all_uses:,} times: {names:,} of the names are served, {100 * uses / all_uses:.1f}% of the uses.')


def missing_names():
    """(release, module) -> how many names, and those of them that are not served."""
    return {key: (len(names), [name for name in names if not served(key[1], name)])
            for key, names in public_names().items()}


def names_table(missing):
    """Two lists side by side, of modules of which something is served; those without in a sentence."""
    columns, without = [], []
    for release in ('1.8.5', '2.6.2'):
        rows = []
        for (of, module), (count, lacking) in missing.items():
            if of == release and len(lacking) < count:
                rows.append('`%s` | %d of %d' % (module, count - len(lacking), count))
            elif of == release:
                without.append('`%s` (%d)' % (module, count))
        columns.append(rows)
    height = max(map(len, columns))
    left, right = (rows + [' | '] * (height - len(rows)) for rows in columns)
    lines = ['| public names of 1.8.5 | served | public names of 2.6.2 | served |', '|---|---|---|---|']
    lines += ['| %s | %s |' % row for row in zip(left, right)]
    return '\n'.join(lines) + '\n\n' + wrapped('Of these modules nothing is served: ' + ', '.join(without) + '.')


def wrapped(text):
    return '\n'.join(textwrap.wrap(text, 104, break_on_hyphens=False)) + '\n'


def names_page(missing):
    """docs/names.md."""
    text = ('# Names that are not there\n\n'
            'Each public module of PaddlePaddle 1.8.5 and 2.6.2 (its `__all__`), how many of its names are served\n'
            'here, and those that are not. Served is a name that is there and that can do more than raise an\n'
            'error. Written by `tools/count.py --write`.\n')
    for (release, module), (count, lacking) in missing.items():
        text += '\n## `%s` of %s: %d of %d\n' % (module, release, count - len(lacking), count)
        if lacking:
            text += '\n' + wrapped('Not there: ' + ', '.join('`%s`' % name for name in lacking) + '.')
    return text


def api_page(missing):
    """docs/api.md: every name, and what it is for."""
    text = ('# Every public name\n\n'
            'The names that PaddlePaddle 1.8.5 and 2.6.2 list as public, module by module: what those that are here are\n'
            'for, and which are not. `help(name)` gives arguments and a sample. Written by `tools/count.py --write`.\n')
    for (release, module), (total, lacking) in missing.items():
        text += '\n## `%s` of %s: %d of %d\n\n| name | |\n|---|---|\n' % (module, release, total - len(lacking), total)
        for name in public_names()[release, module]:
            if name in lacking:
                what = 'not here'
            else:
                thing = getattr(importlib.import_module(module), name)
                what = meaning(thing) if callable(thing) or inspect.ismodule(thing) else ''
            text += '| `%s` | %s |\n' % (name, what.replace('|', '\\|'))
    return text


# What names say of themselves.

def meaning(thing):
    """The first sentence of a docstring, on one line; the engine's functions begin with their signature."""
    if inspect.isclass(thing) and '__doc__' not in vars(thing):
        return ''
    text = thing.__doc__ or ''
    text = text.partition('\n')[2] if re.match(r'\w+\(.*\) -> ', text) else text
    paragraph = ' '.join(text.strip().partition('\n\n')[0].split())
    return '' if paragraph.startswith(('Args:', 'A sample:')) else paragraph.split('. ')[0].rstrip('.')


def undescribed(thing):
    """The arguments that a call takes and says nothing of."""
    text = thing.__doc__ or ''
    return [name for name in _docstrings._parameters(thing) if not re.search(rf'^ +{name}(_? \(\w+\))?: \S', text, re.M)]


def documented():
    """module -> (calls that are served, those that say nothing of what they are, those that say nothing of an argument,
    how many have a sample)."""
    found = {}
    for (_, module), names in public_names().items():
        things = [(name, getattr(importlib.import_module(module), name)) for name in names if served(module, name)]
        things = [(name, thing) for name, thing in things if callable(thing) and not isinstance(thing, enum.Enum)
                  and not hasattr(thing, '__members__')]
        if things:
            found[module] = (len(things), [name for name, thing in things if not meaning(thing)],
                             [name for name, thing in things if undescribed(thing)],
                             sum('A sample:' in (thing.__doc__ or '') for _, thing in things))
    return found


def documented_table(found):
    lines = ['module: calls, that say what they are, what each argument is, with a sample']
    lines += [f'{module}: {calls}, {calls - len(silent)}, {calls - len(lacking)}, {samples}'
              for module, (calls, silent, lacking, samples) in found.items()]
    lines.append('all: ' + ', '.join(map(str, (sum(row[0] for row in found.values()),
                                               sum(row[0] - len(row[1]) for row in found.values()),
                                               sum(row[0] - len(row[2]) for row in found.values()),
                                               sum(row[3] for row in found.values())))))
    return '\n'.join(lines)


# Operators.

def operators():
    """The rows of the op table that are no gradients: those that run, those that cannot yet."""
    rows = [_C.op_row(type) for type in _C.op_types()]
    rows = [row for row in rows if not row['is_grad']]
    return [row for row in rows if not row['cannot_run']], [row for row in rows if row['cannot_run']]


def said_by_tests():
    """What the tests of ops and layers print."""
    report = os.path.join(BUILD, 'ctest.xml')
    programs = [os.path.join(BUILD, 'tests', name) for name in ('tests_ops', 'tests_layers')]
    if not all(map(os.path.exists, programs)):
        raise FileNotFoundError('the C++ tests are not built, and counts are read from what they print: make build')
    made = [os.path.getmtime(path) for path in [*programs, os.path.join(BUILD, 'libtrireme.so')]]
    if not os.path.exists(report) or os.path.getmtime(report) < max(made):
        subprocess.run(['ctest', '--test-dir', BUILD, '--output-junit', 'ctest.xml',
                        '--test-output-size-passed', '1000000', '-R', '^tests_(ops|layers)$'],
                       check=True, stdout=subprocess.DEVNULL)
    cases = {case.get('name'): case for case in xml.parse(report).iter('testcase')}
    return ''.join(cases[os.path.basename(program)].findtext('system-out') for program in programs)


def number(pattern, text):
    found = re.search(pattern, text, re.M)
    if not found:
        raise ValueError('the C++ tests print no line like %r' % pattern)
    return tuple(map(int, found.groups()))


def operators_table():
    run, cannot = operators()
    differentiable = sum(row['differentiable'] for row in run)
    said = said_by_tests()
    alone, = number(r'^gradients: (\d+) ops', said)
    inside, = number(r'^gradients in whole programs: (\d+) ops', said)
    values, all_values = number(r'^known values: (\d+) of (\d+) ops that run', said)
    wrong, all_wrong = number(r'^wrong uses: (\d+) of (\d+) ops that run', said)
    assert all_values == all_wrong == len(run), 'the tests were built from another op table'
    rows = [('operators that run (`docs/ops.md`)', len(run)),
            ('operators that programs may hold but that cannot run: compressed gradients, communicators of one process',
             len(cannot)),
            ('operators with a gradient', differentiable),
            ('... checked alone against finite differences in float64, on fresh random shapes', alone),
            ('... checked so inside whole programs: loops, branches, arrays', inside),
            ('operators with known values in the tests; `tests/ops/coverage_test.cc` says why the others have '
             'none', values),
            ('operators with a wrong use whose message is checked; the same file says why not the others',
             wrong)]
    return '| | |\n|---|---|\n' + ''.join('| %s | %d |\n' % row for row in rows)


# Writing down.

def tables(missing):
    return operators_table() + '\n' + names_table(missing) + '\n' + used_sentence()


def in_readme(text):
    """Where README.md holds the tables: what stands before, they, what stands behind."""
    before, rest = text.split(BEGIN)
    counted, behind = rest.split(END)
    return before, counted, behind


def main():
    if sys.argv[1:] == ['--used']:
        (names, all_names, uses, all_uses), lacking = used_names_served()
        print(f'served: {names} of {all_names} names, {uses} of {all_uses} uses')
        print(''.join(f'{uses}\t{name}\n' for name, uses in lacking), end='')
        return
    if sys.argv[1:] == ['--documented']:
        print(documented_table(documented()))
        return
    missing = missing_names()
    counted = tables(missing)
    print(counted, end='')
    if sys.argv[1:] == ['--write']:
        readme = os.path.join(ROOT, 'README.md')
        before, _, behind = in_readme(open(readme).read())
        open(readme, 'w').write(before + BEGIN + '\n' + counted + '\n' + END + behind)
        open(os.path.join(ROOT, 'docs', 'names.md'), 'w').write(names_page(missing))
        open(os.path.join(ROOT, 'docs', 'api.md'), 'w').write(api_page(missing))


if __name__ == '__main__':
    main()
