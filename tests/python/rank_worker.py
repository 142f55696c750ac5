"""One rank of a small job: `rank_worker.py MODE STEPS`. Who it is, the launcher says in the environment.

Prints what the tests look at as one line of JSON."""
import json
import os
import signal
import sys
import time

import numpy as np
import paddle.distributed
import paddle.fluid as fluid

BATCH = 16
COLLECTIVE = {'grad_allreduce': 'grad_allreduce', 'local_sgd': 'local_sgd', 'local_adagrad': 'local_sgd'}
OPTIMIZERS = {'local_sgd': lambda: fluid.optimizer.SGD(0.05), 'sgd': lambda: fluid.optimizer.SGD(0.05),
              'local_adagrad': lambda: fluid.optimizer.Adagrad(0.05)}


def uniform(seed):
    return fluid.initializer.Uniform(-0.2, 0.2, seed=seed)


def build(sparse, optimizer=None, dropout=False):
    if sparse:
        ids = fluid.layers.data('ids', [1], dtype='int64')
        row = fluid.layers.embedding(ids, [60, 8], is_sparse=True,
                                     param_attr=fluid.ParamAttr('table', initializer=uniform(5)))
    else:
        row = fluid.layers.data('x', [8])
    hidden = fluid.layers.fc(row, 16, act='tanh', bias_attr='b1',
                             param_attr=fluid.ParamAttr('w1', initializer=uniform(3)))
    if dropout:
        hidden = fluid.layers.dropout(hidden, 0.4)
    out = fluid.layers.fc(hidden, 1, bias_attr='b2', param_attr=fluid.ParamAttr('w2', initializer=uniform(4)))
    label = fluid.layers.data('y', [1])
    loss = fluid.layers.mean(fluid.layers.square_error_cost(out, label))
    (optimizer or fluid.optimizer.Momentum(0.05, 0.9)).minimize(loss)
    return loss


def feed(step, part, parts, sparse):
    draw = np.random.RandomState(100 + step % 4)
    batch = {'y': draw.uniform(-1, 1, (BATCH, 1)).astype('float32')}
    if sparse:
        batch['ids'] = draw.randint(0, 60, (BATCH, 1)).astype('int64')
    else:
        batch['x'] = draw.uniform(-1, 1, (BATCH, 8)).astype('float32')
    share = BATCH // parts
    return {name: value[part * share:(part + 1) * share] for name, value in batch.items()}


def end_by(how):
    if how == 'kill':
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == 'stop':
        os.kill(os.getpid(), signal.SIGSTOP)
    elif how == 'sleep':
        time.sleep(4)  # it lives, and is late
    elif how == 'raise':
        raise ValueError('the data ended')


def transpiled(mode, loss, env):
    """(main program, runner of a step)."""
    main, startup = fluid.default_main_program(), fluid.default_startup_program()
    exe = fluid.Executor(fluid.CPUPlace())
    if env.world_size > 1:
        config = fluid.DistributeTranspilerConfig()
        config.mode = 'collective' if mode in COLLECTIVE else 'nccl2'
        config.collective_mode = COLLECTIVE.get(mode)
        if mode == 'hierarchical':
            config.use_hierarchical_allreduce, config.hierarchical_allreduce_inter_nranks = True, 2
        config.nccl_comm_num = 2 if mode == 'grad_allreduce' else 1
        fluid.DistributeTranspiler(config).transpile(
            env.rank, main, trainers=','.join(env.trainer_endpoints), startup_program=startup,
            current_endpoint=env.current_endpoint)
    if mode != 'forgot_startup':
        exe.run(startup)
    if mode in COLLECTIVE or mode == 'alone':
        return lambda fed: exe.run(main, fed, [loss])[0].item()
    if mode == 'parallel_executor':
        parallel = fluid.ParallelExecutor(False, loss.name, num_trainers=env.world_size, trainer_id=env.rank)
        return lambda fed: parallel.run([loss.name], fed)[0].mean().item()
    strategy = fluid.BuildStrategy()
    strategy.num_trainers, strategy.trainer_id = env.world_size, env.rank
    if mode == 'miscounted':
        strategy.num_trainers += 1
    compiled = fluid.CompiledProgram(main).with_data_parallel(loss.name, strategy)
    return lambda fed: exe.run(compiled, fed, [loss])[0].mean().item()


def by_fleet(mode, env):
    from paddle.fluid.incubate.fleet.base import role_maker
    from paddle.fluid.incubate.fleet.collective import DistributedStrategy, fleet
    fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
    assert (fleet.worker_index(), fleet.worker_num()) == (env.rank, env.world_size)
    strategy = DistributedStrategy()
    strategy.use_local_sgd = mode == 'fleet_local_sgd'
    if mode == 'fleet_collective':
        strategy.mode = 'collective'
        strategy.collective_mode = 'grad_allreduce'
    rate = 0.05
    if mode == 'fleet_dropout':
        fluid.default_main_program().random_seed = 7
        rate = fluid.layers.exponential_decay(0.05, 2, 0.8)
    loss = build(False, fleet.distributed_optimizer(fluid.optimizer.Momentum(rate, 0.9), strategy),
                 dropout=mode == 'fleet_dropout')
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    return lambda fed: exe.run(fleet.main_program, fed, [loss])[0].mean().item()


def weights():
    find = fluid.global_scope().find_var
    return {name: find(name).get_tensor().__array__().tobytes().hex() for name in ('b1', 'w1', 'w2', 'b2')}


def save(path, steps_behind):
    from paddle.fluid.incubate.fleet.collective import TrainStatus, fleet
    fleet.save_check_point(fluid.Executor(fluid.CPUPlace()), path, TrainStatus(0, steps_behind))


def resume(path):
    """The step to go on with."""
    from paddle.fluid.incubate.fleet.collective import fleet
    status = fleet.load_check_point(fluid.Executor(fluid.CPUPlace()), path)
    return status.batch_no if status else 0


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    env = paddle.distributed.ParallelEnv()
    if mode == 'uneven':
        os.environ['CPU_NUM'] = str(1 + env.rank)
    sparse = mode == 'sparse'
    if mode.startswith('fleet'):
        run = by_fleet(mode, env)
    else:
        run = transpiled(mode, build(sparse, OPTIMIZERS.get(mode, lambda: None)()), env)
    ends = os.environ.get('END_BY', '').split(',')  # rank, step, how
    losses, first = [], 0
    initial = weights() if mode != 'forgot_startup' else None
    checkpoints = os.environ.get('CHECKPOINTS')
    if checkpoints:
        first = resume(checkpoints)
    for step in range(first, steps):
        if len(ends) == 3 and ends[:2] == [str(env.rank), str(step)]:
            if ends[2] == 'leave':
                break
            end_by(ends[2])
        losses.append(run(feed(step, env.rank, env.world_size, sparse)))
        if checkpoints and env.rank == 0 and step % 2:
            save(checkpoints, step + 1)
    print(json.dumps({'losses': losses, 'weights': weights(), 'initial': initial, 'first': first}), flush=True)


main()
