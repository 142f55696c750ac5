"""Data parallelism on two CPU places."""
import paddle.fluid as fluid
from case import L, case

O = fluid.optimizer


def _two_places(program, loss):
    return fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, places=[fluid.CPUPlace()] * 2)


def _two_places_reduce(program, loss):
    strategy = fluid.BuildStrategy()
    strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    return fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, build_strategy=strategy,
                                                             places=[fluid.CPUPlace()] * 2)


def _two_places_one(program, loss):
    strategy = fluid.BuildStrategy()
    strategy.gradient_scale_strategy = fluid.BuildStrategy.GradientScaleStrategy.One
    return fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name, build_strategy=strategy,
                                                             places=[fluid.CPUPlace()] * 2)


def _net(c):
    hidden = L.fc(c.x([6, 5]), 4, act='tanh')
    return L.mean(L.square_error_cost(L.fc(hidden, 1), c.x([6, 1])))


def _parallel(name, make, net=_net, run=_two_places):
    def build(c):
        c.compiled = run
        return c.train(net(c), make())
    build.__module__ = __name__
    case(build, 'two_places_' + name)


def _words(c):
    words = L.embedding(c.ids([6, 1], 9), [9, 3], is_sparse=True)
    return L.mean(L.square_error_cost(L.fc(words, 1), c.x([6, 1])))


def _convolution(c):
    hidden = fluid.nets.simple_img_conv_pool(c.x([4, 1, 8, 8]), 2, 3, 2, 2, act='relu')
    return L.mean(L.cross_entropy(L.fc(hidden, 3, act='softmax'), c.ids([4, 1], 3)))


def _normed(c):
    hidden = L.batch_norm(L.fc(c.x([6, 5]), 4), momentum=0.5)
    return L.mean(L.square_error_cost(L.fc(hidden, 1), c.x([6, 1])))


def _five_rows(c):
    hidden = L.fc(c.x([5, 4]), 3, act='tanh')
    return L.mean(L.square_error_cost(L.fc(hidden, 1), c.x([5, 1])))


_parallel('sgd', lambda: O.SGD(0.1))
_parallel('momentum', lambda: O.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)))
_parallel('adam', lambda: O.Adam(0.01))
_parallel('adam_reduce', lambda: O.Adam(0.01), run=_two_places_reduce)
_parallel('scale_one', lambda: O.SGD(0.05), run=_two_places_one)
_parallel('sparse', lambda: O.SGD(0.1), net=_words)
_parallel('convolution', lambda: O.Momentum(0.05, 0.9), net=_convolution)
_parallel('schedule', lambda: O.SGD(L.exponential_decay(0.1, 3, 0.5)))
_parallel('clipped', lambda: O.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05)))
_parallel('uneven', lambda: O.SGD(0.1), net=_five_rows)
_parallel('batch_norm', lambda: O.SGD(0.1), net=_normed)
