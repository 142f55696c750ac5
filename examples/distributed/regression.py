"""A linear regression with parameter servers: every trainer reads its part of 442 patients' records.

    python -m paddle.distributed.launch_ps --server_num 2 --worker_num 2 examples/distributed/regression.py

Trains 60 epochs in step; reaches a root mean square error below 62 on the patients held out, as one process
does. Who a process is stands in its environment: PADDLE_PSERVERS_IP_PORT_LIST, TRAINING_ROLE and so on."""
import os

import numpy as np
import paddle.fluid as fluid
from sklearn.datasets import load_diabetes

EPOCHS, BATCH = 60, 16


def patients():
    """(records, progress) of those to train on, and of those held out."""
    data = load_diabetes()
    x, y = data.data.astype('float32') * 20, data.target.astype('float32').reshape(-1, 1)
    order = np.random.RandomState(0).permutation(len(x))
    x, y = x[order], y[order]
    return (x[:360], y[:360]), (x[360:], y[360:])


def build():
    x, y = fluid.layers.data('x', [10]), fluid.layers.data('y', [1])
    guess = fluid.layers.fc(x, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, y))
    test = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.SGD(0.05).minimize(loss)
    return loss, test


def main():
    servers = os.environ['PADDLE_PSERVERS_IP_PORT_LIST']
    trainers = int(os.environ['PADDLE_TRAINERS_NUM'])
    number = int(os.environ.get('PADDLE_TRAINER_ID', 0))
    loss, test = build()
    transpiler = fluid.DistributeTranspiler()
    transpiler.transpile(number, pservers=servers, trainers=trainers)
    exe = fluid.Executor(fluid.CPUPlace())
    if os.environ['TRAINING_ROLE'] == 'PSERVER':
        own = os.environ['POD_IP'] + ':' + os.environ['PADDLE_PORT']
        program, startup = transpiler.get_pserver_programs(own)
        exe.run(startup)
        exe.run(program)  # until the last trainer has left
        return
    program = transpiler.get_trainer_program()
    exe.run(fluid.default_startup_program())
    (x, y), (test_x, test_y) = patients()
    x, y = x[number::trainers], y[number::trainers]  # all have as many, so all take as many steps
    for _ in range(EPOCHS):
        for begin in range(0, len(x) - BATCH + 1, BATCH):
            exe.run(program, {'x': x[begin:begin + BATCH], 'y': y[begin:begin + BATCH]}, [loss])
    error = exe.run(test, {'x': test_x, 'y': test_y}, [loss])[0].item() ** 0.5
    print(f'trainer {number} of {trainers}: root mean square error {error:.2f}')
    exe.close()


if __name__ == '__main__':
    main()
