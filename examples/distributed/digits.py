"""Written digits, learned by processes that exchange gradients (nccl2 mode, over Gloo on CPUs).

    python -m paddle.distributed.launch --nproc_per_node 2 examples/distributed/digits.py

Each rank takes its part of every batch of 64. Reaches an accuracy above 0.95 on digits held out."""
import numpy as np
import paddle.distributed
import paddle.fluid as fluid
from sklearn.datasets import load_digits

EPOCHS, BATCH = 12, 64


def pictures():
    data = load_digits()
    x, y = (data.data / 16).astype('float32'), data.target.astype('int64').reshape(-1, 1)
    order = np.random.RandomState(0).permutation(len(x))
    x, y = x[order], y[order]
    return (x[:1400], y[:1400]), (x[1400:], y[1400:])


def build():
    x, y = fluid.layers.data('x', [64]), fluid.layers.data('y', [1], dtype='int64')
    guess = fluid.layers.fc(fluid.layers.fc(x, 64, act='relu'), 10, act='softmax')
    loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, y))
    accuracy = fluid.layers.accuracy(guess, y)
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(0.003).minimize(loss)
    return loss, accuracy, test


def main():
    env = paddle.distributed.ParallelEnv()  # of the launcher, of mpirun or of srun
    rank, ranks = env.rank, env.world_size
    loss, accuracy, test = build()
    strategy = fluid.BuildStrategy()
    if ranks > 1:
        config = fluid.DistributeTranspilerConfig()
        config.mode = 'nccl2'
        fluid.DistributeTranspiler(config).transpile(
            rank, trainers=','.join(env.trainer_endpoints), current_endpoint=env.current_endpoint)
        strategy.num_trainers, strategy.trainer_id = ranks, rank
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())  # the ranks meet
    train = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss.name, strategy)
    (x, y), (test_x, test_y) = pictures()
    for epoch in range(EPOCHS):
        order = np.random.RandomState(epoch).permutation(len(x))  # the same on all ranks
        for begin in range(0, len(x) - BATCH + 1, BATCH):
            mine = order[begin:begin + BATCH][rank::ranks]
            exe.run(train, {'x': x[mine], 'y': y[mine]}, [loss])
    found = exe.run(test, {'x': test_x, 'y': test_y}, [accuracy])[0].item()
    print(f'rank {rank} of {ranks}: accuracy {found:.4f}')


if __name__ == '__main__':
    main()
