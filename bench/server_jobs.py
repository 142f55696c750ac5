"""Samples a second of small jobs with 2 servers and 2 trainers in sync mode: ours, and another interpreter's beside it.

    .venv/bin/python bench/server_jobs.py [INTERPRETER]     e.g. of a PaddlePaddle 1.8.5, for the ratio

Both sides run this file, in turns. A trainer's rate is that of its steps after the first 20; the job's is their sum."""
from __future__ import print_function

import os
import socket
import subprocess
import sys
import time

import numpy as np

SERVERS, TRAINERS, TURNS = 2, 2, 2
WARM, STEPS = 20, 150
BATCH = {'mlp': 64, 'ctr': 512}
SLOTS, ROWS, WIDTH = 8, 200000, 10


def build(net):
    import paddle.fluid as fluid
    label = fluid.layers.data('label', [1], dtype='int64')
    if net == 'mlp':
        hidden = fluid.layers.data('x', [784])
        for _ in range(2):
            hidden = fluid.layers.fc(hidden, 200, act='relu')
        guess = fluid.layers.fc(hidden, 10, act='softmax')
    else:
        ids = [fluid.layers.data('slot%d' % i, [1], dtype='int64') for i in range(SLOTS)]
        rows = [fluid.layers.embedding(each, [ROWS, WIDTH], is_sparse=True, param_attr='table') for each in ids]
        hidden = fluid.layers.concat(rows, axis=1)
        for _ in range(2):
            hidden = fluid.layers.fc(hidden, 128, act='relu')
        guess = fluid.layers.fc(hidden, 2, act='softmax')
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, label))
    fluid.optimizer.SGD(0.01).minimize(loss)
    return loss


def feed(net, draw):
    count = BATCH[net]
    if net == 'mlp':
        return {'x': draw.rand(count, 784).astype('float32'), 'label': draw.randint(0, 10, (count, 1)).astype('int64')}
    batch = dict(('slot%d' % i, draw.randint(0, ROWS, (count, 1)).astype('int64')) for i in range(SLOTS))
    batch['label'] = draw.randint(0, 2, (count, 1)).astype('int64')
    return batch


def one(net, role, index, servers):
    import paddle.fluid as fluid
    loss = build(net)
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(index, pservers=servers, trainers=TRAINERS)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == 'server':
        program, startup = transpiler.get_pserver_programs(servers.split(',')[index])
        exe.run(startup)
        exe.run(program)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    draw = np.random.RandomState(index)
    batches = [feed(net, draw) for _ in range(10)]
    for step in range(WARM + STEPS):
        if step == WARM:
            begin = time.time()
        exe.run(program, feed=batches[step % 10], fetch_list=[loss])
    print('%.3f' % (STEPS * BATCH[net] / (time.time() - begin)))
    sys.stdout.flush()
    exe.close()


def free_endpoints(count):
    taken = [socket.socket() for _ in range(count)]
    for each in taken:
        each.bind(('127.0.0.1', 0))
    found = ['127.0.0.1:%d' % each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return found


def job(interpreter, net):
    """Samples a second of all trainers."""
    endpoints = ','.join(free_endpoints(SERVERS))
    env = dict(os.environ, OMP_NUM_THREADS='1')

    def start(role, index):
        return subprocess.Popen(interpreter + [os.path.abspath(__file__), net, role, str(index), endpoints],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    servers = [start('server', i) for i in range(SERVERS)]
    trainers = [start('trainer', i) for i in range(TRAINERS)]
    rate = 0.0
    try:
        for each in trainers:
            out, err = each.communicate()
            if each.returncode != 0:
                raise RuntimeError(err.decode()[-2000:])
            rate += float(out.decode().split()[-1])
    finally:
        for each in servers + trainers:
            if each.poll() is None:
                each.kill()
            each.communicate()
    return rate


def compare(other):
    for net in ('mlp', 'ctr'):
        ours, theirs = 0.0, 0.0
        for _ in range(TURNS):
            ours = max(ours, job([sys.executable], net))
            if other:
                theirs = max(theirs, job(other, net))
        print('%s, %d servers, %d trainers, sync: %.0f samples/s' % (net, SERVERS, TRAINERS, ours) +
              ('; the other %.0f; ratio %.2f' % (theirs, ours / theirs) if other else ''))
        sys.stdout.flush()


if __name__ == '__main__':
    if len(sys.argv) == 5:
        one(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        compare(sys.argv[1:])
