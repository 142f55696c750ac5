"""Linear regression: how far diabetes goes in a year, from ten measurements of a patient.

    fit_a_line.py [--seed N]

Teaches what every program has: variables that are fed, a layer, a loss, an optimizer, a training loop,
a check on data that was held out, a model in a folder that another program can load.
Data: 442 real patients, brought along by scikit-learn; 90 of them are held out.
Quality over seeds 1 to 10, a root mean square error (least squares solved exactly: 58.50; always answering
the mean: 71.60):
    rmse at most 59.1 (58.69 to 58.94)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import datasets

EPOCHS = 30
BATCH = 32


def rmse(estimates, truth):
    return float(np.sqrt(np.mean((estimates - truth) ** 2)))


def train(folder, training, held_out, seed):
    """Trains a model and saves it; returns its estimates for the held-out patients."""
    patients, outcomes = training
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = seed
    with fluid.program_guard(main, startup):
        measured = fluid.data('measured', [None, 10], 'float32')
        progress = fluid.data('progress', [None, 1], 'float32')
        # Scaled inside the program: whoever loads the model feeds measurements as they are.
        mean = fluid.layers.assign(patients.mean(axis=0))
        deviation = fluid.layers.assign(patients.std(axis=0))
        estimate = fluid.layers.fc((measured - mean) / deviation, size=1)
        loss = fluid.layers.mean(fluid.layers.square_error_cost(estimate, progress))
        evaluation = main.clone(for_test=True)  # before minimize: running it changes no parameter
        fluid.optimizer.SGD(learning_rate=0.02).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)  # gives the parameters their first values
    order = np.random.RandomState(seed)
    for epoch in range(1, EPOCHS + 1):
        for rows in np.array_split(order.permutation(len(patients)), len(patients) // BATCH):
            exe.run(main, feed={'measured': patients[rows], 'progress': outcomes[rows]}, fetch_list=[])
        if epoch % 10 == 0:
            on_known, = exe.run(evaluation, feed={'measured': patients, 'progress': outcomes},
                                fetch_list=[estimate])
            on_new, = exe.run(evaluation, feed={'measured': held_out[0], 'progress': held_out[1]},
                              fetch_list=[estimate])
            print('epoch %2d: rmse %.2f in training, %.2f held out' %
                  (epoch, rmse(on_known, outcomes), rmse(on_new, held_out[1])))
    fluid.io.save_inference_model(folder, ['measured'], [estimate], exe, main_program=main)
    return on_new


def predict(folder, patients):
    """What a program that has only the folder does."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):  # parameters of its own
        model, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return exe.run(model, feed={feeds[0]: patients}, fetch_list=fetches)[0]


def least_squares(training, patients):
    """The exact solution, to compare with."""
    with_constant = [np.hstack([rows, np.ones((len(rows), 1))]) for rows in (training[0], patients)]
    weights = np.linalg.lstsq(with_constant[0], training[1], rcond=None)[0]
    return with_constant[1] @ weights


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    training, (patients, outcomes) = datasets.diabetes()
    with tempfile.TemporaryDirectory() as folder:
        trained = train(folder, training, (patients, outcomes), seed)
        estimates = predict(folder, patients)
    assert np.array_equal(estimates, trained)
    print('the loaded model answers as the trained one')
    for estimate, outcome in list(zip(estimates, outcomes))[:3]:
        print('a patient with %3d: estimated %3d' % (outcome.item(), estimate.item()))
    print('always the mean: rmse %.2f' % rmse(training[1].mean(), outcomes))
    print('least squares: rmse %.2f' % rmse(least_squares(training, patients), outcomes))
    print('held-out rmse %.2f' % rmse(estimates, outcomes))


if __name__ == '__main__':
    main()
