"""What the programs that time one training step share: their arguments, the loop, the record."""

import argparse
import resource
import statistics
import time


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('name')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--reps', type=int, default=9)
    parser.add_argument('--secs', type=float, default=1.0)
    return parser


def measure(step, args, probe=1, agree=lambda steps: steps):
    """Times of warm steps, as one record. A repeat has as many steps as last --secs, judged by
    `probe` steps; `agree` settles how many."""
    start = time.perf_counter()
    for _ in range(probe):
        step()
    steps = agree(max(1, int(args.secs / (time.perf_counter() - start) * probe)))
    times, cpu = [], time.process_time()
    for _ in range(args.reps):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        times.append((time.perf_counter() - start) / steps)
    cpu = (time.process_time() - cpu) / (steps * args.reps)
    return dict(
        name=args.name, threads=args.threads, ms=statistics.median(times) * 1e3,
        lo=min(times) * 1e3, hi=max(times) * 1e3, cpu_ms=cpu * 1e3, steps=steps * args.reps,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
