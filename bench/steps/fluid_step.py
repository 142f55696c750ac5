"""The toy of the documents through paddle.fluid: what one step costs from Python. One JSON line.

fluid_step.py toy_python [--threads N] [--reps N] [--secs S]
"""

import argparse
import json
import resource
import statistics
import time

import numpy
import paddle.fluid as fluid


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('name')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--reps', type=int, default=9)
    parser.add_argument('--secs', type=float, default=1.0)
    args = parser.parse_args()
    x = fluid.layers.data('x', [1])
    loss = fluid.layers.mean(fluid.layers.fc(x, 10))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program()
    feed = {'x': numpy.random.rand(10, 1).astype('float32')}

    def step():
        exe.run(program, feed=feed, fetch_list=[loss])

    start = time.perf_counter()
    for _ in range(1000):
        step()
    steps = max(1, int(args.secs / (time.perf_counter() - start) * 1000))
    times, cpu = [], time.process_time()
    for _ in range(args.reps):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps)
    cpu = (time.process_time() - cpu) / (steps * args.reps)
    print(json.dumps(dict(
        name=args.name, threads=args.threads, ms=statistics.median(times) * 1e3,
        lo=min(times) * 1e3, hi=max(times) * 1e3, cpu_ms=cpu * 1e3, steps=steps * args.reps,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)))


main()
