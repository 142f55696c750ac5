"""The toy of the documents through paddle.fluid: what one step costs from Python. One JSON line.

fluid_step.py toy_python [--threads N] [--reps N] [--secs S]
"""

import json
import sys
from pathlib import Path

import numpy
import paddle.fluid as fluid

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402


def main():
    args = clock.arguments().parse_args()
    x = fluid.layers.data('x', [1])
    loss = fluid.layers.mean(fluid.layers.fc(x, 10))
    fluid.optimizer.SGD(0.01).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.default_main_program()
    feed = {'x': numpy.random.rand(10, 1).astype('float32')}

    def step():
        exe.run(program, feed=feed, fetch_list=[loss])

    print(json.dumps(clock.measure(step, args, probe=1000)))


main()
