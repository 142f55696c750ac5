"""Counts what works: prints the numbers of the README's table. Run with .venv/bin/python."""
import os
import re
import sys

import paddle
import paddle.fluid as fluid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def names():
    """The layers that tools/names.txt lists."""
    lines = open(os.path.join(ROOT, 'tools', 'names.txt')).read().splitlines()
    return [line for line in (line.split('#')[0].strip() for line in lines) if line]


def activates(act):
    """Whether a layer takes this activation."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        out = fluid.layers.fc(fluid.data('x', [None, 2]), 2, act=act)
        return out.op.type == act


def there(name):
    """Whether a dotted name leads to something that is not a placeholder."""
    if name.startswith('act='):
        return activates(name[len('act='):])
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
    missing = [name for name in names() if not there(name)]
    print('layers: %d of %d' % (len(names()) - len(missing), len(names())))
    for name in missing:
        print('  not there: ' + name)
    print('paddle %s, trireme %s' % (paddle.__version__, paddle.trireme_version))
    return 1 if missing else 0


if __name__ == '__main__':
    sys.exit(main())
