"""Clicks on advertisements: an embedding whose rows parameter servers keep, through fleet.

    python -m paddle.distributed.launch_ps --server_num 2 --worker_num 2 examples/distributed/ctr.py [DIRECTORY]

Trainers fetch the rows that a batch names, and send back their gradients; no trainer has the table. Reaches an
area under the curve above 0.80 on clicks held out; the rules that made them allow 0.89. With a directory the
first trainer saves there what servers keep, and servers begin with what is there."""
import os
import sys

import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import StrategyFactory, fleet

USERS, ADS, WIDTH = 3000, 1000, 8
STEPS, BATCH = 300, 256


def clicks(draw, count):
    """(users, advertisements, clicked): some users click more than others, some advertisements are better."""
    rule = np.random.RandomState(7)
    eager, good = rule.normal(0, 1.5, USERS), rule.normal(0, 1.5, ADS)
    users, ads = draw.randint(0, USERS, count), draw.randint(0, ADS, count)
    chance = 1 / (1 + np.exp(-(eager[users] + good[ads])))
    return (users.reshape(-1, 1).astype('int64'), ads.reshape(-1, 1).astype('int64') + USERS,
            (draw.uniform(size=count) < chance).reshape(-1, 1).astype('int64'))


def build():
    user = fluid.layers.data('user', [1], dtype='int64')
    ad = fluid.layers.data('ad', [1], dtype='int64')
    clicked = fluid.layers.data('clicked', [1], dtype='int64')
    rows = [fluid.layers.embedding(each, [USERS + ADS, WIDTH], is_sparse=True, is_distributed=True,
                                   param_attr=fluid.ParamAttr(
                                       'table', initializer=fluid.initializer.Uniform(-0.3, 0.3, seed=1)))
            for each in (user, ad)]
    together = fluid.layers.concat([rows[0], rows[1], rows[0] * rows[1]], axis=1)
    hidden = fluid.layers.fc(together, 32, act='relu')
    guess = fluid.layers.fc(hidden, 2, act='softmax')
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, clicked))
    return guess, loss


def area_under_curve(score, clicked):
    order = np.argsort(score)
    rank = np.empty(len(score))
    rank[order] = np.arange(1, len(score) + 1)
    ones = clicked.sum()
    return (rank[clicked == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(score) - ones))


def main():
    directory = sys.argv[1] if len(sys.argv) > 1 else None
    fleet.init(role_maker.PaddleCloudRoleMaker())
    guess, loss = build()
    fleet.distributed_optimizer(fluid.optimizer.Adam(0.01), StrategyFactory.create_sync_strategy()).minimize(loss)
    if fleet.is_server():
        fleet.init_server(directory if directory and os.path.isdir(directory) else None)
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    draw = np.random.RandomState(100 + fleet.worker_index())
    for _ in range(STEPS):
        user, ad, clicked = clicks(draw, BATCH)
        exe.run(fleet.main_program, {'user': user, 'ad': ad, 'clicked': clicked}, [loss])
    # A step on clicks that nobody has trained on: what it fetches was computed before its own update.
    user, ad, clicked = clicks(np.random.RandomState(9), 4000)
    score = exe.run(fleet.main_program, {'user': user, 'ad': ad, 'clicked': clicked}, [guess])[0][:, 1]
    print(f'trainer {fleet.worker_index()} of {fleet.worker_num()}: area under the curve '
          f'{area_under_curve(score, clicked.ravel()):.4f}')
    if directory:
        fleet.save_persistables(exe, directory)
    fleet.stop_worker()


if __name__ == '__main__':
    main()
