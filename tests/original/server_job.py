"""Small jobs of 2 parameter servers and 2 trainers that run in the original (Python 2.7) and in ours.

    server_job.py NET ROLE INDEX SERVERS      one process: ROLE is server or trainer

A trainer prints its losses, one line each."""
from __future__ import print_function

import sys

import numpy as np
import paddle.fluid as fluid

from server_job_names import TRAINERS

STEPS, BATCH = 20, 8



def constant(value):
    return fluid.initializer.Constant(value)


def drawn(seed, shape):
    return fluid.initializer.NumpyArrayInitializer(
        np.random.RandomState(seed).uniform(-0.3, 0.3, shape).astype('float32'))


def build(net):
    """The loss. Servers of the original start cut parameters alike only from constants."""
    if net == 'sparse':
        ids = fluid.layers.data('ids', [1], dtype='int64')
        first = fluid.layers.embedding(ids, [2000, 16], is_sparse=True,
                                       param_attr=fluid.ParamAttr('table', initializer=constant(0.05)))
    else:
        first = fluid.layers.data('x', [200])
    w1, w2 = ((drawn(1, (200, 100)), drawn(2, (100, 1))) if net == 'dense_whole' else
              (constant(0.02), constant(0.1)))
    hidden = fluid.layers.fc(first, 100, act='tanh', param_attr=fluid.ParamAttr('w1', initializer=w1),
                             bias_attr=fluid.ParamAttr('b1', initializer=constant(0.01)))
    out = fluid.layers.fc(hidden, 1, param_attr=fluid.ParamAttr('w2', initializer=w2),
                          bias_attr=fluid.ParamAttr('b2', initializer=constant(0.0)))
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, fluid.layers.data('y', [1])))
    {'dense_cut': lambda: fluid.optimizer.Momentum(0.01, 0.9),
     'dense_whole': lambda: fluid.optimizer.Adam(0.01, regularization=fluid.regularizer.L2Decay(0.01)),
     'sparse': lambda: fluid.optimizer.Adagrad(0.05)}[net]().minimize(loss)
    return loss


def feed(net, step, trainer):
    draw = np.random.RandomState(1000 + step * TRAINERS + trainer)
    batch = {'y': draw.uniform(-1, 1, (BATCH, 1)).astype('float32')}
    if net == 'sparse':
        batch['ids'] = draw.randint(0, 2000, (BATCH, 1)).astype('int64')
    else:
        batch['x'] = draw.uniform(-1, 1, (BATCH, 200)).astype('float32')
    return batch


def main(net, role, index, servers):
    loss = build(net)
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = net != 'dense_whole'
    transpiler = fluid.DistributeTranspiler(config)
    transpiler.transpile(index, pservers=servers, trainers=TRAINERS)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == 'server':
        program, startup = transpiler.get_pserver_programs(servers.split(',')[index])
        exe.run(startup)
        exe.run(program)
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    for step in range(STEPS):
        print('%.9g' % float(exe.run(program, feed=feed(net, step, index), fetch_list=[loss])[0][0]))
    sys.stdout.flush()
    exe.close()


if __name__ == '__main__':
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
