#!/usr/bin/env python3
"""Data parallel on two places: against one place, and against PyTorch's DDP.

Every side is a fresh process on the same cores; they take turns, the best pass of each is compared
in samples per second and every pass is printed. The batch per place (and per process of the peer)
is the workload's. Without a peer only the engine's ratios are printed.

    cmake --build --preset release --target bench
    python3 bench/parallel.py mlp --passes 5
"""

import argparse
import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import (ROOT, find_peer, last_line, passes, print_machine, run, start,  # noqa: E402
                   tuned_environment)

PLACES = 2
SHARDS = 8
# By workload, the least that each comparison should give: places against one place on one core;
# against one place with a thread per core on the whole batch; against the peer.
WANTED = {'mlp': (1.7, 0.95, 3.5), 'resnet50': (1.7, 0.95, 1.2), 'transformer': (1.7, None, 1.15)}
ONE, MANY, WHOLE, TREE = ('1 place, 1 core', f'{PLACES} places, {PLACES} cores',
                          f'1 place, {PLACES} threads, whole batch',
                          f'{PLACES} places, {SHARDS} virtual shards')


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        return listener.getsockname()[1]


def run_peer(python, common, layout, timeout):
    """A process per core, one thread each, that exchange gradients over the loopback device."""
    environment = dict(tuned_environment(1), GLOO_SOCKET_IFNAME='lo')
    for pinning in ('OMP_PROC_BIND', 'OMP_PLACES'):  # a process has one core anyway
        del environment[pinning]
    port = free_port()
    cores = sorted(os.sched_getaffinity(0))
    ranks = [start([python, ROOT / 'bench/peers/torch_ddp.py', *common, *layout, '--threads', 1,
                    '--rank', rank, '--ranks', PLACES, '--port', port],
                   environment, [cores[rank]]) for rank in range(PLACES)]
    try:
        return last_line(ranks[0], timeout)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def rate(side):
    """Samples per second of the best pass."""
    best = min(side, key=lambda one: one['ms'])
    return best['samples'] / best['ms'] * 1e3


def compare(name, args, peer):
    common = [name, '--reps', args.reps, '--secs', args.secs]

    def ours(places, threads, *more):
        command = [args.program, *common, '--places', places, '--threads', threads, *more]
        return lambda: run(command, threads=threads, timeout=args.limit)

    sides = {ONE: ours(1, 1), MANY: ours(PLACES, PLACES),
             WHOLE: ours(1, PLACES, '--batches', PLACES),
             TREE: ours(PLACES, PLACES, '--shards', SHARDS)}
    peers = {}
    if peer:
        peers['PyTorch DDP'] = lambda: run_peer(peer[0], common, [], args.limit)
        if name == 'resnet50':
            peers['PyTorch DDP, channels last'] = lambda: run_peer(
                peer[0], common, ['--channels_last'], args.limit)
    found = {side: [] for side in [*sides, *peers]}
    for _ in range(args.passes):
        for side, once in {**sides, **peers}.items():
            found[side].append(once())

    print(f'{name}: {PLACES} places at {rate(found[MANY]):.4g} samples/s')

    def ratio(over, under, wanted=None):
        value = rate(found[over]) / rate(found[under])
        bar = f'  (at least {wanted})' if wanted else ''
        print(f'    {value:6.2f}x  {over} / {under}{bar}')

    scaling, against_threads, against_peer = WANTED.get(name, (None, None, None))
    ratio(MANY, ONE, scaling)
    ratio(MANY, WHOLE, against_threads)
    if peers:
        ratio(MANY, max(peers, key=lambda side: rate(found[side])), against_peer)
    ratio(TREE, MANY)
    for side, all_ in found.items():
        rss = max(one['peak_rss_mb'] for one in all_)
        print(f'    {side:36} ms a step: {passes(all_)}; CPU time '
              f'{min(one["cpu_ms"] for one in all_):.4g} ms; {rss:.0f} MB')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', default=list(WANTED))
    parser.add_argument('--passes', type=int, default=3)
    parser.add_argument('--reps', type=int, default=5)
    parser.add_argument('--secs', type=float, default=0.5)
    parser.add_argument('--limit', type=float, default=300, help='seconds that one process may take')
    parser.add_argument('--program', type=Path, default=ROOT / 'build/release/bench/train_step')
    parser.add_argument('--peer-python', default=None)
    args = parser.parse_args()
    if not args.program.exists():
        sys.exit(f'{args.program} is not built: cmake --build --preset release --target bench')
    if len(os.sched_getaffinity(0)) < PLACES:
        sys.exit(f'{PLACES} cores are needed, this process may use '
                 f'{len(os.sched_getaffinity(0))}')
    peer = find_peer(args.peer_python)
    print_machine(args.program, PLACES, peer)
    for name in args.names:
        compare(name, args, peer)


main()
