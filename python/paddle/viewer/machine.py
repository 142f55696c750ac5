"""How fast this machine is at best: what floors of kernels are made of."""
import functools
import json
import os
import threading
import time

import numpy

import _trireme as _C

_SIZES = [64 << 10, 1 << 20, 64 << 20]  # bytes that a kernel touches: in the caches, and beyond them


def _copy_speed(size, threads):
    """Bytes a second that `threads` copies read and write, together `size` large."""
    arrays = [(numpy.ones(size // 2 // threads, 'int8'), numpy.empty(size // 2 // threads, 'int8')) for _ in range(threads)]
    rounds = max(1, (16 << 20) // size)
    best = []

    def work(pair, gate):
        for _ in range(3):
            gate.wait()
            start = time.perf_counter()
            for _ in range(rounds):
                numpy.copyto(pair[1], pair[0])
            best.append(time.perf_counter() - start)

    gate = threading.Barrier(threads)
    workers = [threading.Thread(target=work, args=(pair, gate)) for pair in arrays]
    for each in workers:
        each.start()
    for each in workers:
        each.join()
    return size * rounds / min(best)


def _product_speed(place, side=768):
    """Multiplications and additions a second of the engine's own matrix product."""
    from .. import fluid
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard('machine_'):
        x = fluid.data('machine_x', [side, side])
        y = fluid.layers.reduce_sum(fluid.layers.mul(x, x))
    engine = _C.Executor(place)  # not an Executor of the package: those may be watched
    feed = {'machine_x': numpy.ones((side, side), 'float32')}
    best = float('inf')
    for _ in range(6):
        start = time.perf_counter()
        engine.run(program, feed, [y.name], None, True, False, False)
        best = min(best, time.perf_counter() - start)
    engine.close()
    return 2 * side ** 3 / best


@functools.lru_cache(maxsize=None)
def speeds(kind='cpu'):
    """JSON: {"copies": [[bytes, bytes a second], ...], "flops": a second}; on a GPU nothing is known."""
    if kind != 'cpu':
        return 'null'
    was_on = _C.profiling_on()
    if was_on:
        return 'null'  # a measurement would stand among the events
    threads = len(os.sched_getaffinity(0))
    from .. import fluid
    return json.dumps({'copies': [[size, _copy_speed(size, threads)] for size in _SIZES],
                       'flops': _product_speed(fluid.CPUPlace())})
