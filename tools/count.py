"""Counts what works: prints the numbers of the README's table. Run with .venv/bin/python."""
import os
import re
import sys

import paddle
import paddle.fluid as fluid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def resolves(name):
    """Whether a dotted name leads to something that is not a placeholder."""
    thing = paddle
    for part in name.split('.')[1:]:
        try:
            thing = getattr(thing, part)
        except (AttributeError, NotImplementedError):
            return False
    return 'not built yet' not in (getattr(thing, '__doc__', None) or '')


def main():
    ops = open(os.path.join(ROOT, 'docs', 'ops.md')).read()
    rows = re.findall(r'^## `?([a-z0-9_]+)`?', ops, re.M)
    forward = [r for r in rows if not r.endswith(('_grad', '_grad2'))]
    print('operators: %d, and %d gradient operators' % (len(forward), len(rows) - len(forward)))
    names = [line.split('#')[0].strip() for line in open(os.path.join(ROOT, 'tools', 'names.txt'))]
    names = [n for n in names if n]
    missing = [n for n in names if not resolves(n)]
    print('names of programs: %d of %d' % (len(names) - len(missing), len(names)))
    for name in missing:
        print('  not there: ' + name)
    print('paddle %s, trireme %s' % (paddle.__version__, paddle.trireme_version))
    return 0 if fluid else 1


if __name__ == '__main__':
    sys.exit(main())
