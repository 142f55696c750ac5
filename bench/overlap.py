#!/usr/bin/env python3
"""How much of what ranks exchange is hidden behind the backward part.

Two ranks over Gloo on this machine train a stack of layers with some 25 MB of gradients, whose backward
part takes 50 ms. Three ways take turns in the same processes: buckets that leave while the backward part
runs (as it is), everything after it (the pass bucket_gradients off), and nothing exchanged (each rank
trains alone). Hidden is what the first saves of what the second pays.

`--on device` (the default): layers wait as those of a device do, and the cores are left to the
exchange. `--on host`: layers compute, and the exchange has to share the cores with them; over loopback
an exchange is work of these same cores, so little can be hidden where no core is idle.

    cmake --build --preset release --target _trireme
    python3 bench/overlap.py
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = ('none', 'behind', 'hidden')


def build(fluid, args):
    """A stack of layers; on the way back each takes its share of the time."""
    main, startup = fluid.Program(), fluid.Program()
    share = args.backward / 1e3 / args.layers
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data('x', [None, args.width])
        hidden = x
        for _ in range(args.layers):
            if args.on == 'device':
                passed = main.current_block().create_var(
                    name=fluid.unique_name.generate('passed'), dtype='float32', shape=[-1, args.width])
                hidden = fluid.layers.py_func(lambda value: value, hidden, passed,
                                              backward_func=lambda value, out, gradient: wait(share, gradient),
                                              skip_vars_in_backward_input=None)
            hidden = fluid.layers.fc(hidden, args.width, bias_attr=False)
        loss = fluid.layers.mean(hidden)
        fluid.optimizer.SGD(1e-4).minimize(loss)
    return main, startup, loss


def wait(seconds, gradient):
    time.sleep(seconds)
    return gradient


def rank(args):
    import numpy as np
    import paddle.distributed
    import paddle.fluid as fluid
    env = paddle.distributed.ParallelEnv()
    exe = fluid.Executor(fluid.CPUPlace())
    feed = {'x': np.random.RandomState(env.rank).rand(args.rows, args.width).astype('float32')}
    steps = {}
    for way in WAYS:
        main, startup, loss = build(fluid, args)
        strategy = fluid.BuildStrategy()
        if way != 'none':
            config = fluid.DistributeTranspilerConfig()
            config.mode = 'nccl2'
            fluid.DistributeTranspiler(config).transpile(
                env.rank, main, trainers=','.join(env.trainer_endpoints), startup_program=startup,
                current_endpoint=env.current_endpoint)
            strategy.num_trainers, strategy.trainer_id = env.world_size, env.rank
        if way == 'behind':
            strategy.passes_off = ['bucket_gradients']
        scope = fluid.Scope()
        exe.run(startup, scope=scope)
        program = fluid.CompiledProgram(main).with_data_parallel(loss.name, strategy)
        steps[way] = lambda program=program, scope=scope: exe.run(program, feed, [], scope=scope)
        for _ in range(3):
            steps[way]()
    found = {way: [] for way in WAYS}
    for _ in range(args.rounds):
        for way, step in steps.items():
            begin = time.perf_counter()
            for _ in range(args.steps):
                step()
            found[way].append((time.perf_counter() - begin) / args.steps * 1e3)
    if env.rank == 0:
        print(json.dumps(found), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--on', choices=('device', 'host'), default='device')
    parser.add_argument('--backward', type=float, default=50, help='ms')
    parser.add_argument('--layers', type=int, default=12)
    parser.add_argument('--width', type=int, default=720)
    parser.add_argument('--rows', type=int, help='of a batch')
    parser.add_argument('--ranks', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--rank', action='store_true', help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.rows = args.rows or (4 if args.on == 'device' else 200)
    if args.rank:
        return rank(args)
    job = subprocess.run(
        [sys.executable, '-m', 'paddle.distributed.launch', '--print_config', 'False', '--nproc_per_node',
         str(args.ranks), __file__, *sys.argv[1:], '--rank'], text=True, stdout=subprocess.PIPE, timeout=170,
        env={**os.environ, 'CPU_NUM': '1', 'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}, cwd=ROOT)
    if job.returncode:
        sys.exit(job.returncode)
    found = json.loads(job.stdout.splitlines()[-1])
    middle = {way: sorted(each)[len(each) // 2] for way, each in found.items()}
    exchange = middle['behind'] - middle['none']
    print(f'{args.ranks} ranks, {args.layers * args.width ** 2 * 4 / 1e6:.0f} MB of gradients, backward on '
          f'the {args.on}: ms a step, in the middle of {args.rounds}')
    for way, what in (('none', 'no exchange'), ('behind', 'exchange after the backward part'),
                      ('hidden', 'exchange while it runs')):
        print(f'  {what:34} {middle[way]:7.2f}   ({" ".join(f"{each:.1f}" for each in found[way])})')
    print(f'hidden: {(middle["behind"] - middle["hidden"]) / exchange:.2f} of the {exchange:.1f} ms that it takes'
          ' (bar: 0.6)')


if __name__ == '__main__':
    main()
