"""How long programs take to build, to differentiate, to compile and to run once, by their number of ops.

    python3 bench/building.py [1000 2000 4000 8000]

Prints seconds: of a chain of layers (one fc is two ops, its gradient and its update), of as many branches
into one sum, and of nested conditions. Twice the ops should take twice the time.
"""
import argparse
import sys
import time

import numpy as np
import paddle.fluid as fluid


def layers(count):
    """A chain of `count` fc layers, to the first step."""
    x = fluid.data('x', [None, 4], 'float32')
    hidden = x
    for _ in range(count):
        hidden = fluid.layers.fc(hidden, size=4)
    yield 'build'
    fluid.optimizer.SGD(0.001).minimize(fluid.layers.mean(hidden))
    yield 'minimize'
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    yield 'startup'
    exe.run(feed={'x': np.ones((2, 4), 'float32')})
    yield 'first step'
    exe.run(feed={'x': np.ones((2, 4), 'float32')})
    yield 'second step'


def branches(count):
    """`count` branches into one `sums`."""
    x = fluid.data('x', [None, 4], 'float32')
    total = fluid.layers.sums([fluid.layers.scale(x, 1.0 / (i + 1)) for i in range(count)])
    yield 'build'
    x.stop_gradient = False
    fluid.gradients([total], [x])
    yield 'gradients'
    fluid.Executor(fluid.CPUPlace()).run(feed={'x': np.ones((2, 4), 'float32')}, fetch_list=[total])
    yield 'first step'


def chained(count):
    """`count` conditions, each reading what the one before it gave."""
    x = fluid.data('x', [1], 'float32')
    yes = fluid.layers.less_than(fluid.layers.fill_constant([1], 'float32', 0.0), x)
    for _ in range(count):
        x = fluid.layers.cond(yes, lambda: x + 1.0, lambda: x - 1.0)
    yield 'build'
    fluid.Executor(fluid.CPUPlace()).run(feed={'x': np.ones(1, 'float32')}, fetch_list=[x])
    yield 'first step'


def nested(count):
    """`count` conditions, each inside the one before it."""
    x = fluid.data('x', [1], 'float32')
    yes = fluid.layers.less_than(fluid.layers.fill_constant([1], 'float32', 0.0), x)

    def inside(depth):
        if depth == count:
            return x + 1.0
        return fluid.layers.cond(yes, lambda: inside(depth + 1), lambda: x - 1.0)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, 40 * count))  # of these lambdas; the engine has no limit
    found = inside(0)
    sys.setrecursionlimit(before)
    yield 'build'
    fluid.Executor(fluid.CPUPlace()).run(feed={'x': np.ones(1, 'float32')}, fetch_list=[found])
    yield 'first step'


def measured(program, count):
    """Seconds of each part."""
    seconds, last = [], time.perf_counter()
    with fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()), \
            fluid.program_guard(fluid.Program(), fluid.Program()):
        for part in program(count):
            now = time.perf_counter()
            seconds.append((part, now - last))
            last = now
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('counts', nargs='*', type=int, default=[1000, 2000, 4000, 8000])
    parser.add_argument('--only', choices=['layers', 'branches', 'chained', 'nested'])
    args = parser.parse_args()
    programs = {'layers': layers, 'branches': branches, 'chained': chained, 'nested': nested}
    for name, program in programs.items():
        if args.only not in (None, name):
            continue
        print('%s: %s' % (name, program.__doc__))
        for count in args.counts:
            if name == 'nested' and count > 2000:
                continue  # Python itself runs out of stack
            parts = measured(program, count)
            print('  %6d  %s, in all %.2f s' % (count, ', '.join('%s %.2f' % part for part in parts),
                                                sum(seconds for _, seconds in parts)), flush=True)


if __name__ == '__main__':
    main()
