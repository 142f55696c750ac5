"""A trainer or server of a fleet: `fleet_worker.py STRATEGY STEPS [DIRECTORY]`, started by launch_ps.

With a directory what servers keep is saved there at the end, or where it is there already, loaded."""
import json
import os
import sys

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

BATCH = 8


def uniform(seed):
    return fluid.initializer.Uniform(-0.2, 0.2, seed=seed)


def build(optimizer):
    ids = fluid.layers.data('ids', [1], dtype='int64')
    row = fluid.layers.embedding(ids, [600, 32], is_sparse=True,
                                 param_attr=fluid.ParamAttr('table', initializer=uniform(5)))
    hidden = fluid.layers.fc(row, 160, act='tanh', bias_attr='b1',
                             param_attr=fluid.ParamAttr('w1', initializer=uniform(3)))
    out = fluid.layers.fc(hidden, 1, bias_attr='b2', param_attr=fluid.ParamAttr('w2', initializer=uniform(4)))
    label = fluid.layers.data('y', [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, label))
    optimizer.minimize(loss)
    return loss


def feed(step, part, parts):
    draw = np.random.RandomState(100 + step % 4)
    batch = {'y': draw.uniform(-1, 1, (BATCH, 1)).astype('float32'),
             'ids': draw.randint(0, 600, (BATCH, 1)).astype('int64')}
    share = BATCH // parts
    return {name: value[part * share:(part + 1) * share] for name, value in batch.items()}


def strategy_and_optimizer(name):
    if name == 'geo':
        return StrategyFactory.create_geo_strategy(5), fluid.optimizer.SGD(0.05)
    if name in ('async', 'half_async'):
        return getattr(StrategyFactory, f'create_{name}_strategy')(), fluid.optimizer.SGD(0.02)
    return {'sync': StrategyFactory.create_sync_strategy, 'config': fluid.DistributeTranspilerConfig,
            'none': lambda: None}[name](), fluid.optimizer.Momentum(0.05, 0.9)


def main():
    name, begin, end = sys.argv[1], *map(int, sys.argv[2].split('-'))
    directory = sys.argv[3] if len(sys.argv) > 3 else None
    fleet.init(role_maker.PaddleCloudRoleMaker())
    strategy, optimizer = strategy_and_optimizer(name)
    loss = build(fleet.distributed_optimizer(optimizer, strategy))
    if fleet.is_server():
        fleet.init_server(directory if directory and os.path.exists(directory) else None)
        fleet.run_server()
        print(json.dumps({'served': fleet.server_index()}))
        return
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    losses = [exe.run(fleet.main_program, feed(step, fleet.worker_index(), fleet.worker_num()),
                      [loss])[0].item() for step in range(begin, end)]
    if directory:
        fleet.save_persistables(exe, directory)
    fleet.stop_worker()
    exe.close()
    print(json.dumps({'losses': losses}), flush=True)


main()
