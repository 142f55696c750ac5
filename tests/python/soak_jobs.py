"""A long job of two servers and two trainers in sync mode: `soak_jobs.py STEPS`. 100,000 is the full one.

Looks at every process ten times on the way, and prints its memory, descriptors and threads. Between the second look
and the last no process may have grown: the exit code is 1 where one has."""
import os
import subprocess
import sys
import time

import ps_job

LOOKS = 10
SLACK_KB, SLACK_SHARE = 2048, 0.02  # of memory: the allocator keeps what it once had


def job(role, index, servers, steps):
    import numpy as np
    import paddle.fluid as fluid
    ids = fluid.layers.data('ids', [1], dtype='int64')
    row = fluid.layers.embedding(ids, [5000, 8], is_sparse=True, is_distributed=True, param_attr='table')
    hidden = fluid.layers.fc(fluid.layers.concat([row, fluid.layers.data('x', [16])], axis=1), 32, act='tanh')
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(hidden, 1)))
    fluid.optimizer.Adagrad(0.01).minimize(loss)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(index, pservers=servers, trainers=2)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == 'server':
        program, startup = transpiler.get_pserver_programs(servers.split(',')[index])
        exe.run(startup)
        exe.run(program)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    draw = np.random.RandomState(index)
    for step in range(1, steps + 1):
        exe.run(program, {'ids': draw.randint(0, 5000, (4, 1)).astype('int64'),
                          'x': draw.rand(4, 16).astype('float32')}, [loss])
        if index == 0 and step % (steps // LOOKS) == 0:
            print(step, flush=True)
    exe.close()


def look(pid):
    """(memory in KB, descriptors, threads)"""
    with open(f'/proc/{pid}/status') as status:
        lines = dict(line.split(':', 1) for line in status)
    return int(lines['VmRSS'].split()[0]), len(os.listdir(f'/proc/{pid}/fd')), int(lines['Threads'])


def grown(seen):
    first, last = seen[1], seen[-1]
    return last[0] > first[0] * (1 + SLACK_SHARE) + SLACK_KB or last[1] > first[1] or last[2] > first[2]


def main(steps):
    servers = ','.join('127.0.0.1:%d' % port for port in ps_job.free_ports(2))
    names = ['server 0', 'server 1', 'trainer 0', 'trainer 1']
    processes = [subprocess.Popen([sys.executable, __file__, *name.split(), servers, str(steps)], text=True,
                                  stdout=subprocess.PIPE, env={**os.environ, 'OMP_NUM_THREADS': '1'})
                 for name in names]
    seen, began = {name: [] for name in names}, time.monotonic()
    try:
        for _ in range(LOOKS):
            step = processes[2].stdout.readline().strip()
            if not step:
                break
            if int(step) == steps:  # they may be gone in a moment
                continue
            for name, process in zip(names, processes):
                seen[name].append(look(process.pid))
        codes = [process.wait(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert codes == [0] * 4, codes
    print(f'{steps} steps, {steps / (time.monotonic() - began):.0f} a second')
    for name in names:
        print(f'{name}: ' + '; '.join('%d KB %d descriptors %d threads' % each for each in seen[name]))
    bad = [name for name in names if grown(seen[name])]
    print('grown: ' + (', '.join(bad) or 'none'))
    return 1 if bad else 0


if __name__ == '__main__':
    if len(sys.argv) == 2:
        sys.exit(main(int(sys.argv[1])))
    job(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
