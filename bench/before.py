#!/usr/bin/env python3
"""Whether a step takes longer here than in another checkout of the engine, built beside this one.

    cmake --build --preset release --target bench        # here
    cmake --build --preset release --target _trireme     # there
    python3 bench/before.py toy mlp --other /path/to/it --ways program compiled parallel

Fresh processes of both take turns on the same cores, from Python, by this checkout's script. The best
pass of each is compared: above 1 this checkout is the faster one.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / 'support'))
from turns import (ROOT, arguments, best, cores_apart, engine, environment, parse, passes,  # noqa: E402
                   print_machine, run, turns)

NAMES = ('toy', 'fit_a_line', 'mlp', 'lenet', 'ngram', 'ctr_sgd', 'ctr_adagrad', 'lstm', 'vgg16', 'resnet50',
         'transformer')


def main():
    parser = arguments(__doc__, NAMES)
    parser.add_argument('--other', type=Path, required=True, help='the other checkout')
    parser.add_argument('--ways', nargs='+', default=['program'], choices=['program', 'compiled', 'parallel'])
    args = parse(parser)
    command, here = engine(args)
    build = args.program.parent.parent.relative_to(ROOT)
    there = environment(args.threads, PYTHONPATH=os.pathsep.join(
        str(args.other / folder) for folder in ('python', build / 'python')))
    print_machine(args, [], [])
    rows = []
    for name in args.names:
        for way in args.ways:
            words = [*command, name, '--way', way, '--reps', args.reps, '--secs', args.secs]
            apart = []
            found, _ = turns({side: lambda env=env: run(words, env, args.limit)
                              for side, env in (('trireme here', here), ('trireme there', there))},
                             args.passes, lambda: apart.append(cores_apart(args)))
            print(f'{name}, {way}\n    ns between the cores and back: {" ".join(apart)}')
            for side, records in found.items():
                print(f'    {side:14} ms a pass: {passes(records)}')
            now, then = best(found['trireme here']), best(found['trireme there'])
            rows.append(f'{name:12} {way:9} {now:10.4g} {then:10.4g} {then / now:7.3f}')
    print(f'\n{"step, ms":22} {"here":>10} {"there":>10} {"ratio":>7}')
    print('\n'.join(rows))


main()
