#!/usr/bin/env python3
"""Data parallel on two places: against one place, and against the peers on the same two cores.

The peers have PyTorch's DDP (a process per core), the original's places, and one process each with
a thread per core on the whole batch. Every side is of fresh processes, from Python; they take turns,
the best pass of each is compared in batches per second and every pass is printed. The batch per
place (and per process of the peer) is the workload's.

    cmake --build --preset release --target bench
    python3 bench/parallel.py mlp --passes 5
"""

import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from peers import WINOGRAD, find_peers  # noqa: E402
from turns import (ROOT, arguments, best, cores, engine, environment, last_line, parse,  # noqa: E402
                   passes, print_machine, run, start, turns)

PLACES = 2
SHARDS = 8
# By workload, the least that each comparison should give: places against one place on one core;
# against one place with a thread per core on the whole batch; against the peers' several places.
WANTED = {'mlp': (1.7, 0.95, 3.5), 'resnet50': (1.7, 0.95, 1.2), 'transformer': (1.7, None, 1.15)}
ONE, MANY, WHOLE, TREE, DIRECT, IN_CPP = (f'trireme, {how}' for how in (
    '1 place, 1 core', f'{PLACES} places', f'1 place, {PLACES} threads, whole batch',
    f'{PLACES} places, {SHARDS} virtual shards', f'{PLACES} places, without Winograd',
    f'{PLACES} places, in C++'))
ON_PLACES = ['--places', PLACES, '--batches', PLACES]


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        return listener.getsockname()[1]


def run_ddp(peer, words, timeout):
    """A process per core, one thread each, that exchange gradients over the loopback device."""
    made = dict(peer.environment(1), GLOO_SOCKET_IFNAME='lo')
    for pinning in ('OMP_PROC_BIND', 'OMP_PLACES'):  # a process has one core anyway
        made.pop(pinning)
    port = free_port()
    ranks = [start([peer.command[0], ROOT / 'bench/peers/torch_ddp.py', *words, '--rank', rank, '--ranks',
                    PLACES, '--port', port], made, [cores()[rank]]) for rank in range(PLACES)]
    try:
        return last_line(ranks[0], timeout)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def sides_of(name, args, peers):
    """The engine's sides, the peers' with several places, and theirs with one, by label."""
    common = [name, '--reps', args.reps, '--secs', args.secs]

    def once(command, made, words=(), count=PLACES):
        return lambda: run([*command, *common, *words], made, args.limit, count)

    ours = {ONE: once(*engine(args, 1), count=1),
            MANY: once(*engine(args), ON_PLACES),
            WHOLE: once(*engine(args), ['--batches', PLACES]),
            TREE: once(*engine(args), [*ON_PLACES, '--shards', SHARDS]),
            IN_CPP: once([args.program], environment(PLACES), ON_PLACES)}
    if name in WINOGRAD:
        ours[DIRECT] = once(*engine(args, FLAGS_conv_winograd='0'), ON_PLACES)
    several, single = {}, {}
    for peer in peers:
        if peer.kind == 'fluid':
            several[f'{peer.label}, {PLACES} places'] = once(peer.command, peer.environment(1), ON_PLACES)
        for label, way in peer.ways(name).items():
            single[f'{label}, 1 process'] = once(peer.command, peer.environment(PLACES),
                                                 [*way, '--batches', PLACES])
            if peer.kind == 'torch' and '--compile' not in way:
                several[f'{label} DDP'] = lambda peer=peer, way=way: run_ddp(peer, [*common, *way], args.limit)
    return ours, several, single


def compare(name, args, peers):
    ours, several, single = sides_of(name, args, peers)
    found, failed = turns({**ours, **several, **single}, args.passes)

    def rate(side):
        """Batches per second of the best pass."""
        return (1 if side == ONE else PLACES) / best(found[side]) * 1e3

    def ratio(over, under, wanted=None):
        bar = f'  (at least {wanted})' if wanted else ''
        print(f'    {rate(over) / rate(under):6.2f}x  {over} / {under}{bar}')

    def against(group, over=MANY, wanted=None):
        group = [side for side in group if side in found]
        if group:
            ratio(over, max(group, key=rate), wanted)

    scaling, against_threads, against_places = WANTED.get(name, (None, None, None))
    print(f'{name}: {rate(MANY):.4g} batches/s on {PLACES} places')
    ratio(MANY, ONE, scaling)
    ratio(MANY, WHOLE, against_threads)
    against(several, wanted=against_places)
    against(single)
    if DIRECT in ours:
        against(several, DIRECT)
        against(single, DIRECT)
    ratio(TREE, MANY)
    ratio(IN_CPP, MANY)
    for side in [*ours, *several, *single]:
        if side in failed:
            print(f'    {side:48} failed: {failed[side]}')
            continue
        cpu = min(one['cpu_ms'] for one in found[side])
        print(f'    {side:48} ms a step: {passes(found[side])}; CPU time {cpu:.4g} ms')


def main():
    args = parse(arguments(__doc__, WANTED, threads=PLACES, in_cpp=False))
    if len(cores()) < PLACES:
        sys.exit(f'{PLACES} cores are needed, this process may use {len(cores())}')
    peers, notes = find_peers(args)
    print_machine(args, peers, notes)
    for name in args.names:
        compare(name, args, peers)


main()
