#!/usr/bin/env python3
"""Training steps of the engine and of PyTorch, side by side.

Fresh processes of each side take turns, on the same cores; the best pass of each is compared and
every pass is printed. `toy_python` is the toy through paddle.fluid.
The peer runs as well as it can: one OpenMP pool, pinned threads, a malloc that keeps what is freed,
and for image nets also channels_last. It is Debian's PyTorch; another one, in .venv-peers, is
printed beside it. Without a peer only the engine's times are printed.

    cmake --build --preset release --target bench
    python3 bench/compare.py mlp lenet --passes 5
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import (ROOT, find_other_peer, find_peer, passes, print_machine, run,  # noqa: E402
                   tuned_environment)

NAMES = ('toy_python', 'toy', 'fit_a_line', 'mlp', 'lenet', 'ngram', 'ctr_sgd', 'ctr_adagrad', 'lstm', 'vgg16',
         'resnet50', 'transformer')
IMAGES = ('lenet', 'vgg16', 'resnet50')


def peer_sides(label, python, common):
    """The ways to run a peer: images also with their channels last."""
    script = [python, str(ROOT / 'bench/peers/torch_step.py'), *common]
    environment = tuned_environment(common[common.index('--threads') + 1])
    sides = {label: [(script, environment)]}
    if common[0] in IMAGES:
        sides[label + ' cl'] = [([*script, '--channels_last'], environment)]
    return sides


def compare(name, args, peer, other):
    common = [name, '--threads', args.threads, '--reps', args.reps, '--secs', args.secs]
    common = [str(word) for word in common]
    if name == 'toy_python':
        build = args.program.parent.parent
        where = os.pathsep.join([str(ROOT / 'python'), str(build / 'python')])
        command = [args.python, str(ROOT / 'bench/steps/fluid_step.py'), *common]
        sides = {'trireme': [(command, dict(os.environ, PYTHONPATH=where))]}
        common[0] = 'toy'
    else:
        sides = {'trireme': [([str(args.program), *common], None)]}
    if peer:
        sides.update(peer_sides('torch', peer[0], common))
    compared = set(sides)
    if other:
        sides.update(peer_sides(f'torch {other[1]}', other[0], common))
    results = {side: [] for side in sides}
    for _ in range(args.passes):
        for side, commands in sides.items():
            results[side] += [run(*command, threads=args.threads) for command in commands]
    ours = min(one['ms'] for one in results['trireme'])
    others = [one['ms'] for side in compared - {'trireme'} for one in results[side]]
    ratio = f'{min(others) / ours:6.2f}x' if others else '   -   '
    line = f'{name:11} {ratio}  best {ours:.4g} ms'
    if others:
        spent = {side: min(one['cpu_ms'] for one in results[side]) for side in compared}
        own = spent.pop('trireme')
        line += f' against {min(others):.4g} ms; of CPU time {min(spent.values()) / own:.2f}x'
    print(line)
    for side, all_ in results.items():
        cpu = min(one['cpu_ms'] for one in all_)
        rss = max(one['peak_rss_mb'] for one in all_)
        print(f'    {side:9} ms a pass: {passes(all_)}; CPU time {cpu:.4g} ms; {rss:.0f} MB')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', default=NAMES)
    parser.add_argument('--passes', type=int, default=5)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--reps', type=int, default=5)
    parser.add_argument('--secs', type=float, default=0.5)
    parser.add_argument('--program', type=Path, default=ROOT / 'build/release/bench/train_step')
    parser.add_argument('--peer-python', default=None)
    parser.add_argument('--python', default='/usr/bin/python3', help='for toy_python')
    args = parser.parse_args()
    if not args.program.exists():
        sys.exit(f'{args.program} is not built: cmake --build --preset release --target bench')
    peer = find_peer(args.peer_python)
    other = find_other_peer()
    print_machine(args.program, args.threads, peer)
    if other:
        print(f'beside it, without a comparison: PyTorch {other[1]}')
    for name in args.names:
        compare(name, args, peer, other)


main()
