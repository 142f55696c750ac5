#!/usr/bin/env python3
"""How long a program takes to compile, and a plan to take another batch size; in C++, without a peer.

In fresh processes: the first preparation of a step, library code and all; then, with the library's
code for these sizes made before, three smaller batches. Of a rebind, what the library takes to find
its code again is printed apart; the bar is for the rest.

    cmake --build --preset release --target bench
    python3 bench/binding.py resnet50 --passes 5
"""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import ROOT, cores, cpu_name, environment, run  # noqa: E402

COMPILE_BAR, REBIND_BAR = 1000, 5  # ms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', default=['resnet50'])
    parser.add_argument('--passes', type=int, default=5)
    parser.add_argument('--threads', type=int, default=len(cores()))
    parser.add_argument('--program', type=Path, default=ROOT / 'build/release/bench/train_step')
    args = parser.parse_args()
    if not args.program.exists():
        sys.exit(f'{args.program} is not built: cmake --build --preset release --target bench')
    print(f'{cpu_name()}, load {os.getloadavg()[0]:.1f}')
    for name in args.names:
        command = [args.program, name, '--binding']
        found = [run(command, environment(args.threads)) for _ in range(args.passes)]
        compiles = [one['compile_ms'] for one in found]
        rebinds = [whole - library for one in found
                   for whole, library in zip(one['rebind_ms'], one['library_ms'])]
        middle = sorted(rebinds)[len(rebinds) // 2]
        print(f'{name}: compiles in {max(compiles):.0f} ms at most (bar {COMPILE_BAR}); rebinds in '
              f'{min(rebinds):.2f} ms at best, {middle:.2f} in the middle, besides the library '
              f'(bar {REBIND_BAR})')
        for one in found:
            pairs = ', '.join(f'{whole:.2f} with {library:.2f} of the library'
                              for whole, library in zip(one['rebind_ms'], one['library_ms']))
            print(f'    compile {one["compile_ms"]:.1f} ms; rebinds {pairs}; back to the first '
                  f'size {one["return_ms"]:.2f}')


main()
