"""Counts what works, against the original's own lists of names, and writes the counts down.

    .venv/bin/python tools/count.py           prints the README's tables of counts
    .venv/bin/python tools/count.py --write   puts them into README.md, and docs/names.md beside

What the C++ tests have shown is read from what they print; they are run for it where the last run of
`make test` is older than they are.
"""
import dis
import importlib
import inspect
import os
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as xml

import _trireme as _C

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


def only_raises(thing):
    """Whether a call can do nothing but raise: its code has no way to return."""
    call = inspect.unwrap(thing.__init__ if inspect.isclass(thing) else thing)
    code = getattr(call, '__code__', None)
    ways_out = ('RETURN_VALUE', 'RETURN_CONST', 'YIELD_VALUE')
    return code is not None and not any(step.opname in ways_out for step in dis.get_instructions(code))


def served(module, name):
    """Whether a name is there and is of use."""
    try:
        thing = getattr(importlib.import_module(module), name)
    except (AttributeError, ImportError, NotImplementedError):
        return False
    return not (callable(thing) and only_raises(thing))


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
    return operators_table() + '\n' + names_table(missing)


def in_readme(text):
    """Where README.md holds the tables: what stands before, they, what stands behind."""
    before, rest = text.split(BEGIN)
    counted, behind = rest.split(END)
    return before, counted, behind


def main():
    missing = missing_names()
    counted = tables(missing)
    print(counted, end='')
    if sys.argv[1:] == ['--write']:
        readme = os.path.join(ROOT, 'README.md')
        before, _, behind = in_readme(open(readme).read())
        open(readme, 'w').write(before + BEGIN + '\n' + counted + '\n' + END + behind)
        open(os.path.join(ROOT, 'docs', 'names.md'), 'w').write(names_page(missing))


if __name__ == '__main__':
    main()
