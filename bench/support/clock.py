"""What the programs that time one step or call share: their arguments, the loop, the record.

Runs on Python 2.7 as well, for the original does.
"""

from __future__ import division

import argparse
import json
import os
import resource
import threading
import time

now = getattr(time, 'perf_counter', time.time)


def arguments():
    """A step takes --batches batches of the workload as one. Threads are OMP_NUM_THREADS."""
    parser = argparse.ArgumentParser()
    parser.add_argument('name')
    parser.add_argument('--reps', type=int, default=9)
    parser.add_argument('--secs', type=float, default=1.0)
    parser.add_argument('--batches', type=int, default=1)
    return parser


def threads():
    return int(os.environ['OMP_NUM_THREADS'])


def cpu_seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime


def peak_mb():
    """The largest resident set of this program (getrusage's may be that of who started it)."""
    with open('/proc/self/status') as status:
        peak, = (line for line in status if line.startswith('VmHWM'))
    return int(peak.split()[1]) / 1024


def seconds(step, times):
    start = now()
    for _ in range(times):
        step()
    return now() - start


def together(calls):
    """Seconds that callers take for so many calls each, in threads of their own."""
    def run(times):
        workers = [threading.Thread(target=seconds, args=(call, times)) for call in calls[1:]]
        start = now()
        for worker in workers:
            worker.start()
        seconds(calls[0], times)
        for worker in workers:
            worker.join()
        return now() - start
    return run


def measure_callers(calls, args):
    """As measure(), of callers that do not wait for each other: ms is the time over all their calls."""
    if len(calls) == 1:
        return measure(calls[0], args)
    run, times = together(calls), 1
    while run(times) < args.secs:
        times *= 2
    cpu, spent = cpu_seconds(), sorted(run(times) / (times * len(calls)) for _ in range(args.reps))
    cpu = (cpu_seconds() - cpu) / (times * len(calls) * args.reps)
    return dict(name=args.name, threads=threads(), ms=spent[len(spent) // 2] * 1e3, lo=spent[0] * 1e3,
                hi=spent[-1] * 1e3, cpu_ms=cpu * 1e3, steps=times * len(calls) * args.reps, peak_rss_mb=peak_mb())


def measure(step, args, agree=lambda value: value):
    """Times of warm steps, as one record. A repeat has as many steps as last --secs; where several
    processes step together, `agree` makes their clocks say the same."""
    steps, spent = 1, agree(seconds(step, 1))
    while spent < args.secs / 4:
        steps *= 4
        spent = agree(seconds(step, steps))
    steps = max(1, int(steps * args.secs / spent))
    cpu = cpu_seconds()
    times = sorted(seconds(step, steps) / steps for _ in range(args.reps))
    cpu = (cpu_seconds() - cpu) / (steps * args.reps)
    return dict(name=args.name, threads=threads(), ms=times[len(times) // 2] * 1e3,
                lo=times[0] * 1e3, hi=times[-1] * 1e3, cpu_ms=cpu * 1e3, steps=steps * args.reps,
                peak_rss_mb=peak_mb())


def report(record, version):
    print(json.dumps(dict(record, version=version.split('+')[0])))
