"""The net that the data-parallel tests run, how they train it and how they look at it."""
import numpy as np

import paddle.fluid as fluid


class Toy:
    """X [n, 1] -> fc of 10 -> mean, SGD 0.01; started in the global scope of now."""

    def __init__(self, train=True, seed=5, rate=0.01):
        fluid.default_startup_program().random_seed = seed
        self.hidden = fluid.layers.fc(fluid.layers.data('X', [1]), 10)
        self.loss = fluid.layers.mean(self.hidden)
        self.test_program = fluid.default_main_program().clone(for_test=True)
        if train:
            fluid.optimizer.SGD(learning_rate=rate).minimize(self.loss)
        self.main, self.startup = fluid.default_main_program(), fluid.default_startup_program()
        self.exe = started()

    def parallel(self, places=2, program=None, **options):
        if program is None and 'loss_name' not in options:
            options['loss_name'] = self.loss.name
        return on_places(places, program or self.main, **options)

    def run(self, compiled, feed=None, fetch=None, **options):
        return self.exe.run(compiled, feed={'X': batch()} if feed is None else feed,
                            fetch_list=[self.loss] if fetch is None else fetch, **options)


def started():
    """An executor that has run the startup program of now."""
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    return executor


def on_places(count=2, program=None, loss=None, **options):
    """A program, or the main one of now, compiled for so many CPU places."""
    if loss is not None:
        options['loss_name'] = loss.name
    compiled = fluid.CompiledProgram(program or fluid.default_main_program())
    return compiled.with_data_parallel(places=[fluid.CPUPlace()] * count, **options)


def batch(n=10):
    return np.random.RandomState(n).random_sample((n, 1)).astype('float32')


def value(name, scope=None):
    return np.array((scope or fluid.global_scope()).find_var(name).get_tensor())


def strategy(**fields):
    build = fluid.BuildStrategy()
    for name, value_ in fields.items():
        setattr(build, name, value_)
    return build


def trained(places, sizes=(7, 8, 9), build=None, net=Toy):
    """The weight after a few steps of one net on so many places."""
    with fluid.unique_name.guard(), fluid.program_guard(fluid.Program(), fluid.Program()), \
            fluid.scope_guard(fluid.Scope()):
        toy = net()
        program = toy.parallel(places, build_strategy=build)
        for n in sizes:
            toy.run(program, {'X': batch(n)}, [])
        return value('fc_0.w_0')
