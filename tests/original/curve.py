"""An old program with a seed: its initial parameters and ten losses, as numbers that JSON keeps bit for bit.

Runs in the original (python2.7 tests/original/curve.py > tests/original/records/curve.json) and in ours.
"""
from __future__ import print_function
import json

import numpy as np
import paddle.fluid as fluid


def build():
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 90
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x, label = fluid.data('x', [-1, 12]), fluid.data('label', [-1, 1], 'int64')
        hidden = fluid.layers.fc(x, 16, act='tanh', param_attr=fluid.initializer.Normal(0.0, 0.3))
        hidden = fluid.layers.dropout(hidden, 0.3)
        hidden = fluid.layers.fc(hidden, 16, act='relu', param_attr=fluid.initializer.TruncatedNormal(0.0, 0.3))
        scores = fluid.layers.fc(hidden, 4, param_attr=fluid.initializer.MSRA())
        loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(scores, label))
        fluid.optimizer.SGD(0.2).minimize(loss)
    return main, startup, loss


def run():
    main, startup, loss = build()
    numbers = np.random.RandomState(5)
    x, label = numbers.rand(32, 12).astype('float32'), numbers.randint(0, 4, (32, 1)).astype('int64')
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        scope = fluid.global_scope()
        parameters = {p.name: np.array(scope.find_var(p.name).get_tensor()).reshape(-1).tolist()
                      for p in main.all_parameters()}
        losses = [float(np.asarray(exe.run(main, feed={'x': x, 'label': label}, fetch_list=[loss])[0]).reshape(-1)[0])
                  for _ in range(10)]
    return {'parameters': parameters, 'losses': losses}


if __name__ == '__main__':
    print(json.dumps(run(), sort_keys=True))
