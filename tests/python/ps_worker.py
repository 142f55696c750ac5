"""One process of a small job: `ps_worker.py ROLE INDEX SERVERS TRAINERS MODE STEPS [OUT]`.

Prints what the tests look at as one line of JSON."""
import json
import os
import signal
import sys

import numpy as np
import paddle.fluid as fluid

BATCH, MANY, TABLE = 8, 4000, 30000  # modes with a table larger than memory look many rows up


def uniform(seed):
    return fluid.initializer.Uniform(-0.2, 0.2, seed=seed)


def build(mode):
    sparse = mode.endswith('sparse')
    if mode.endswith('table'):
        ids = fluid.layers.data('ids', [1], dtype='int64')
        row = fluid.layers.embedding(ids, [TABLE, 8], is_sparse=True, is_distributed=True,
                                     param_attr=fluid.ParamAttr('table', initializer=uniform(5)))
    elif sparse:
        ids = fluid.layers.data('ids', [1], dtype='int64')
        row = fluid.layers.embedding(ids, [600, 32], is_sparse=True,
                                     param_attr=fluid.ParamAttr('table', initializer=uniform(5)))
    else:
        row = fluid.layers.data('x', [128])
    hidden = fluid.layers.fc(row, 160, act='tanh', bias_attr='b1',
                             param_attr=fluid.ParamAttr('w1', initializer=uniform(3)))
    out = fluid.layers.fc(hidden, 1, bias_attr='b2',
                          param_attr=fluid.ParamAttr('w2', initializer=uniform(4)))
    label = fluid.layers.data('y', [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, label))
    if mode.startswith('async'):  # every gradient counts whole, and some are old
        fluid.optimizer.SGD(0.02).minimize(loss)
    elif mode == 'adam_table':
        fluid.optimizer.Adam(0.02).minimize(loss)
    elif mode.startswith('decay'):
        rate = fluid.layers.exponential_decay(0.02, 2, 0.5)
        fluid.optimizer.Adam(rate).minimize(loss)
    elif mode.endswith('table'):
        fluid.optimizer.Adagrad(0.05).minimize(loss)
    else:
        fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
    return loss


def feed(step, part, parts, mode):
    draw = np.random.RandomState(100 + step % 4)
    count = MANY if mode.endswith('table') else BATCH
    batch = {'y': draw.uniform(-1, 1, (count, 1)).astype('float32')}
    if mode.endswith('table'):
        batch['ids'] = draw.randint(0, TABLE, (count, 1)).astype('int64')
    elif mode.endswith('sparse'):
        batch['ids'] = draw.randint(0, 600, (BATCH, 1)).astype('int64')
    else:
        batch['x'] = draw.uniform(-1, 1, (BATCH, 128)).astype('float32')
    share = count // parts
    return {name: value[part * share:(part + 1) * share] for name, value in batch.items()}


def end_by(how):
    if how == 'kill':
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == 'stop':
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == 'raise':
        raise ValueError('the data ended')
    elif how.isdigit():  # another process
        os.kill(int(how), signal.SIGKILL)


def main():
    role, index, servers, trainers, mode, steps = sys.argv[1:7]
    index, trainers, steps = int(index), int(trainers), int(steps)
    ends_at = int(os.environ.get('END_AT', -1))
    loss = build(mode)
    exe = fluid.Executor(fluid.CPUPlace())
    if role == 'local':
        exe.run(fluid.default_startup_program())
        losses = [exe.run(feed=feed(step, 0, 1, mode), fetch_list=[loss])[0].item()
                  for step in range(steps)]
        print(json.dumps({'losses': losses}), flush=True)
        return
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = 'whole' not in mode
    config.sync_mode = not mode.startswith('async')
    config.enable_dc_asgd = mode == 'async_dc'
    t = fluid.DistributeTranspiler(config)
    t.transpile(index if role == 'trainer' else 0, pservers=servers, trainers=trainers, sync_mode=config.sync_mode)
    if role == 'server':
        program, startup = t.get_pserver_programs(servers.split(',')[index])
        exe.run(startup)
        if os.environ.get('LOAD_FROM'):
            fluid.io.load_persistables(exe, os.environ['LOAD_FROM'], program)
        exe.run(program)
        print(json.dumps({'served': index}), flush=True)
        return
    program = t.get_trainer_program()
    exe.run(fluid.default_startup_program())
    losses = []
    for step in range(int(os.environ.get('FIRST_STEP', 0)), steps):
        if step == ends_at:
            end_by(os.environ['END_BY'])
            if os.environ['END_BY'] == 'leave':
                break
        losses.append(exe.run(program, feed=feed(step, index, trainers, mode),
                              fetch_list=[loss])[0].item())
    if os.environ.get('SAVE_TO') and index == 0:
        fluid.io.save_persistables(exe, os.environ['SAVE_TO'], program)
    weights = {} if mode.endswith(('sparse', 'table')) else {name: fluid.global_scope().find_var(name).get_tensor().__array__().tobytes().hex()
                                 for name in ('b1', 'w2')}
    exe.close()
    print(json.dumps({'losses': losses, 'weights': weights}), flush=True)


main()
