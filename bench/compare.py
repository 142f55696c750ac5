#!/usr/bin/env python3
"""Training steps of the engine and of PyTorch, side by side.

Fresh processes of each side take turns, on the same cores; the best pass of each is compared and
every pass is printed. `toy_python` is the toy through paddle.fluid. Before each pass the round trip
between the cores is taken: where the host moves them apart, both sides take longer.
The peer runs as well as it can: one OpenMP pool, pinned threads, a malloc that keeps what is freed,
and for image nets also channels_last. It is Debian's PyTorch. Another PyTorch, JAX or PaddlePaddle
that is in .venv-peers is printed beside it, without a ratio; one that fails does not end the rest.
Without a peer only the engine's times are printed.

    cmake --build --preset release --target bench
    python3 bench/compare.py mlp lenet --passes 5
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import (ROOT, Failed, cores_apart, find_others, find_peer, passes,  # noqa: E402
                   print_machine, run, tuned_environment)

NAMES = ('toy_python', 'toy', 'fit_a_line', 'mlp', 'lenet', 'ngram', 'ctr_sgd', 'ctr_adagrad', 'lstm', 'vgg16',
         'resnet50', 'transformer')
IMAGES = ('lenet', 'vgg16', 'resnet50')


def peer_sides(label, module, python, common):
    """The ways to run a peer: PyTorch has images also with their channels last."""
    script = [*python, str(ROOT / f'bench/peers/{module}_step.py'), *common]
    environment = tuned_environment(common[common.index('--threads') + 1])
    sides = {label: (script, environment)}
    if module == 'torch' and common[0] in IMAGES:
        sides[label + ' cl'] = ([*script, '--channels_last'], environment)
    return sides


def compare(name, args, peer, others):
    common = [name, '--threads', args.threads, '--reps', args.reps, '--secs', args.secs]
    common = [str(word) for word in common]
    if name == 'toy_python':
        build = args.program.parent.parent
        where = os.pathsep.join([str(ROOT / 'python'), str(build / 'python')])
        command = [args.python, str(ROOT / 'bench/steps/fluid_step.py'), *common]
        sides = {'trireme': (command, dict(os.environ, PYTHONPATH=where))}
        common[0] = 'toy'
    else:
        sides = {'trireme': ([str(args.program), *common], None)}
    if peer:
        sides.update(peer_sides('torch', 'torch', [peer[0]], common))
    beside = {}
    for module, version, python in others:
        beside.update(peer_sides(f'{module} {version}', module, python, common))
    results = {side: [] for side in [*sides, *beside]}
    failed, apart = {}, []
    for _ in range(args.passes):
        apart.append(cores_apart(args.program, args.threads))
        for side, command in sides.items():
            results[side].append(run(*command, threads=args.threads))
        for side, command in beside.items():
            if side not in failed:
                try:
                    results[side].append(run(*command, threads=args.threads))
                except Failed as problem:
                    failed[side] = problem.why
    ours = min(one['ms'] for one in results['trireme'])
    theirs = [one['ms'] for side in sides if side != 'trireme' for one in results[side]]
    ratio = f'{min(theirs) / ours:6.2f}x' if theirs else '   -   '
    line = f'{name:11} {ratio}  best {ours:.4g} ms'
    if theirs:
        spent = {side: min(one['cpu_ms'] for one in results[side]) for side in sides}
        own = spent.pop('trireme')
        line += f' against {min(theirs):.4g} ms; of CPU time {min(spent.values()) / own:.2f}x'
    print(line)
    if args.threads > 1:
        print(f'    cores        ns apart: {" ".join(apart)}')
    for side, all_ in results.items():
        if side in failed:
            print(f'    {side:12} failed: {failed[side]}')
            continue
        cpu = min(one['cpu_ms'] for one in all_)
        rss = max(one['peak_rss_mb'] for one in all_)
        print(f'    {side:12} ms a pass: {passes(all_)}; CPU time {cpu:.4g} ms; {rss:.0f} MB')


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
    others = find_others()
    print_machine(args.program, args.threads, peer)
    if others:
        names = ', '.join(f'{module} {version}' for module, version, _ in others)
        print(f'beside it, without a comparison: {names}')
    for name in args.names:
        compare(name, args, peer, others)


main()
