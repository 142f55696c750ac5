"""How ill patients will be, by a net whose training stops and goes on elsewhere.

    save_and_load.py [--seed N]

Teaches paddle.save and paddle.load of states, static.save and static.load, the best state kept while training
goes on, and a pool of predictors.
Data: 442 patients, real: ten measurements and how far the illness had gone a year later; 90 of them are held out.
Quality over seeds 1 to 10:
    error at most 65.00 (57.28 to 62.64)
"""
import argparse
import os
import tempfile

import numpy as np
import paddle
import paddle.nn as nn
from paddle import inference, static

import common


class Trainer:
    """Programs and a scope of their own; names count from 0 in each, so that states fit."""

    def __init__(self, seed):
        self.main, self.startup, self.scope = static.Program(), static.Program(), static.Scope()
        self.startup.random_seed = seed
        with static.program_guard(self.main, self.startup), paddle.utils.unique_name.guard():
            self.x = static.data('x', [None, 10], 'float32')
            self.y = static.data('y', [None, 1], 'float32')
            net = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
            self.guess = net(self.x)
            self.loss = nn.MSELoss()(self.guess, self.y)
            self.evaluation = self.main.clone(for_test=True)
            paddle.optimizer.Adam(0.003, weight_decay=paddle.regularizer.L2Decay(1e-2)).minimize(self.loss)
        self.exe = static.Executor()
        self.run(self.startup)

    def run(self, program, **how):
        with static.scope_guard(self.scope):
            return self.exe.run(program, **how)

    def train(self, loader, epochs):
        for _ in range(epochs):
            for x, y in loader:
                self.run(self.main, feed={'x': x, 'y': y}, fetch_list=[self.loss])

    def guesses(self, x):
        return self.run(self.evaluation, feed={'x': x, 'y': x[:, :1]}, fetch_list=[self.guess])[0]

    def state(self):
        return self.main.state_dict('all', self.scope)

    def set_state(self, state):
        self.main.set_state_dict(state, self.scope)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seed', type=int, default=1)
    seed = parser.parse_args().seed
    common.begin(seed)
    (x, y), (held_x, held_y) = common.datasets.diabetes()
    middle, spread, top = x.mean(0), x.std(0), y.mean()
    x, held_x, y = (x - middle) / spread, (held_x - middle) / spread, (y - top) / 100
    fitted, checked = paddle.io.random_split(paddle.io.TensorDataset([x, y]), [0.85, 0.15])
    loader = paddle.io.DataLoader(fitted, batch_size=32, shuffle=True)
    apart = [np.stack(column) for column in zip(*checked)]

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'state.pdparams')
        trainer, best = Trainer(seed), np.inf
        for epoch in range(0, 60, 3):
            trainer.train(loader, 3)
            error = float(np.sqrt(np.mean((trainer.guesses(apart[0]) - apart[1]) ** 2)) * 100)
            if error < best:
                best = error
                paddle.save({'epoch': epoch, 'values': trainer.state()}, path)
            if epoch == 30:  # the next steps are another trainer's
                before = trainer.guesses(held_x)
                with static.scope_guard(trainer.scope):
                    static.save(trainer.main, os.path.join(folder, 'half'))
                trainer = Trainer(seed + 1)
                with static.scope_guard(trainer.scope):
                    static.load(trainer.main, os.path.join(folder, 'half'), trainer.exe)
                assert np.array_equal(trainer.guesses(held_x), before)
                print('the checkpoint holds all that was learnt')
        kept = paddle.load(path)
        trainer.set_state(kept['values'])
        print('the best state is that of epoch %d, with an error of %.2f on what was kept apart' % (kept['epoch'], best))
        wanted = trainer.guesses(held_x)
        prefix = os.path.join(folder, 'deployed')
        with static.scope_guard(trainer.scope):
            static.save_inference_model(prefix, [trainer.x], [trainer.guess], trainer.exe, program=trainer.main)
        pool = inference.PredictorPool(inference.Config(prefix + '.pdmodel', prefix + '.pdiparams'), 2)
        found, again = (pool.retrieve(i).run([held_x])[0] for i in range(2))
    assert np.array_equal(found, wanted) and np.array_equal(again, wanted)
    print('the loaded model answers as the trained one')
    print('held-out error %.2f' % np.sqrt(np.mean((found * 100 + top - held_y) ** 2)))


if __name__ == '__main__':
    main()
