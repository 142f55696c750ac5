#!/usr/bin/env python3
"""Recurrences as users write them, of the engine and of PyTorch, side by side.

Loops from Python: StaticRNN, DynamicRNN, While, cells, a decoder with attention, a language model
with its words inside the loop, and the recurrent layers; 30 steps of 32 rows, 512 wide. Fresh
processes of each side take turns on the same cores; best passes are compared, all are printed.

    cmake --build --preset release
    python3 bench/recurrences.py static_rnn --passes 5
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import ROOT, find_peer, passes, print_machine, run, tuned_environment  # noqa: E402

NAMES = ('static_rnn', 'dynamic_rnn', 'while_loop', 'gru_cells', 'dynamic_gru', 'lstm_layers',
         'attention', 'words')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', default=NAMES)
    parser.add_argument('--passes', type=int, default=5)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--reps', type=int, default=3)
    parser.add_argument('--secs', type=float, default=0.3)
    parser.add_argument('--program', type=Path, default=ROOT / 'build/release/bench/train_step')
    parser.add_argument('--peer-python', default=None)
    parser.add_argument('--python', default='/usr/bin/python3', help='for the engine')
    args = parser.parse_args()
    peer = find_peer(args.peer_python)
    print_machine(args.program, args.threads, peer)
    build = args.program.parent.parent
    where = os.pathsep.join([str(ROOT / 'python'), str(build / 'python')])
    for name in args.names:
        common = [name, '--threads', args.threads, '--reps', args.reps, '--secs', args.secs]
        sides = {'trireme': ([args.python, ROOT / 'bench/steps/fluid_recurrence.py', *common],
                             dict(os.environ, PYTHONPATH=where))}
        if peer:
            sides['torch'] = ([peer[0], ROOT / 'bench/peers/torch_recurrence.py', *common],
                              tuned_environment(args.threads))
        found = {side: [] for side in sides}
        for _ in range(args.passes):
            for side, command in sides.items():
                found[side].append(run(*command, threads=args.threads))
        best = {side: min(one['ms'] for one in all_) for side, all_ in found.items()}
        ratio = f'{best["torch"] / best["trireme"]:6.2f}x' if peer else '   -   '
        print(f'{name:11} {ratio}  best {best["trireme"]:.4g} ms'
              + (f' against {best["torch"]:.4g} ms' if peer else ''))
        for side, all_ in found.items():
            rss = max(one['peak_rss_mb'] for one in all_)
            print(f'    {side:12} ms a pass: {passes(all_)}; {rss:.0f} MB')


main()
