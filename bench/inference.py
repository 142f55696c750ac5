#!/usr/bin/env python3
"""Calls of saved models, of the engine and of its peers, side by side: latency, and two callers at once.

The engine by Executor.run and by its predictor. Latency: one caller, all threads. Callers: two, in one process,
each with half of the threads; their number is the time over all calls.
Conventions are those of `support/table.py`: fresh processes in turns, the best pass, all printed.

    cmake --build --preset release --target bench
    python3 bench/inference.py mobilenet_b1 --passes 5
"""

import os
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from peers import PINNED, TODAY, UNPINNED  # noqa: E402
from turns import (ROOT, Failed, arguments, best, cores_apart, engine, environment, parse, passes,  # noqa: E402
                   print_machine, run, turns)

ROWS = ('resnet50_b1', 'resnet50_b16', 'mobilenet_b1', 'lstm_b1', 'bert_b1', 'ctr_b512', 'ctr_b1')
SMALL = 'ctr_b1'  # a model to see whether a peer is here


class Side:
    def __init__(self, label, command, made):
        self.label, self.command, self.environment = label, command, made


def ours(args, threads):
    command, made = engine(args, threads)
    command = [command[0], ROOT / 'bench/steps/fluid_inference.py']
    return [Side('trireme', command, made), Side('trireme predictor', [*command, '--predictor'], made)]


def peers(args, threads, name, callers):
    """Those that can be run, by their ways. A peer's threads are pinned where one caller has them."""
    images = name.startswith(('resnet50', 'mobilenet'))
    torch = [TODAY, ROOT / 'bench/peers/torch_inference.py']
    pinned = environment(threads, **(PINNED if callers == 1 else UNPINNED))
    found = [Side('onnxruntime', [TODAY, ROOT / 'bench/peers/onnx_inference.py'], environment(threads, **UNPINNED)),
             Side('torch', torch, pinned)]
    if images:
        found.append(Side('torch channels_last', [*torch, '--channels_last'], pinned))
    if not args.quick and callers == 1:
        found.append(Side('torch compile', [*torch, '--compile'], pinned))
        if images:
            found.append(Side('torch channels_last compile', [*torch, '--channels_last', '--compile'], pinned))
    original = shlex.split(os.environ.get('TRIREME_ORIGINAL', ''))
    if original:
        command = [*original, ROOT / 'bench/steps/fluid_inference.py', '--predictor']
        found.append(Side('the original, predictor', command, environment(threads, **UNPINNED)))
        if callers == 1:
            found.append(Side('the original', command[:-1], environment(threads, **UNPINNED)))
    return found


def measure(name, args, callers, missing):
    """Best milliseconds a call by side; prints all passes."""
    threads = max(1, args.threads // callers)
    sides = ours(args, threads) + [side for side in peers(args, threads, name, callers)
                                   if side.label.split()[0] not in missing]

    def once(side):
        words = [*side.command, name, '--reps', args.reps, '--secs', args.secs, '--callers', callers]
        return lambda: run(words, side.environment, args.limit, count=args.threads)

    apart = []
    found, failed = turns({side.label: once(side) for side in sides}, args.passes,
                          lambda: apart.append(cores_apart(args)))
    print(f'{name}, {callers} caller{"s" * (callers > 1)}\n    ns between the cores and back: {" ".join(apart)}')
    for side in sides:
        if side.label in failed:
            print(f'    {side.label:30} failed: {failed[side.label]}')
            continue
        cpu = min(one['cpu_ms'] for one in found[side.label])
        print(f'    {side.label:30} ms a pass: {passes(found[side.label])}; CPU time {cpu:.4g} ms')
    return {label: best(records) for label, records in found.items()}


def find_missing(args):
    """The peers that cannot do a small model, each with why."""
    missing = {}
    for side in peers(args, 1, SMALL, 1):
        kind = side.label.split()[0]
        if kind in missing or 'compile' in side.label:
            continue
        try:
            run([*side.command, SMALL, '--reps', 1, '--secs', 0], side.environment)
        except (Failed, OSError) as problem:
            missing[kind] = f'no {side.label}: {getattr(problem, "why", problem)}'
    return missing


def main():
    parser = arguments(__doc__, ROWS, passes=3, reps=3, secs=0.5)
    parser.add_argument('--quick', action='store_true', help='one pass of each side, one caller, no torch.compile')
    parser.add_argument('--callers', type=int, nargs='*', help='how many call at once; 1 and 2')
    args = parse(parser)
    if args.quick:
        args.passes, args.reps, args.secs = 1, 3, 0.2
    args.callers = args.callers or ([1] if args.quick else [1, 2])
    missing = find_missing(args)
    print_machine(args, [], list(missing.values()))
    rows = []
    for name in args.names:
        for callers in args.callers:
            found = measure(name, args, callers, missing)
            theirs = {label: ms for label, ms in found.items() if not label.startswith('trireme')}
            who = min(theirs, key=theirs.get, default=None)
            run_ms, handle_ms = found['trireme'], found['trireme predictor']
            text = f'{name + (f", {callers} callers" if callers > 1 else ""):26} {run_ms:9.4g} {handle_ms:9.4g}'
            if who:
                text += f' {theirs[who]:9.4g} {theirs[who] / run_ms:7.2f}x {theirs[who] / handle_ms:7.2f}x  {who}'
            rows.append((text, '; '.join(f'{label} {ms:.4g}' for label, ms in theirs.items())))
    print(f'\n{"a call, ms":26} {"run":>9} {"predictor":>9} {"best peer":>9} {"ratio":>8} {"pred.":>8}  which')
    for text, every in rows:
        print(text)
    print('\nevery peer, ms')
    for text, every in rows:
        print(f'{text[:26]} {every}')


main()
