"""Optimizers, clips and regularizers, each over ten steps; dense and sparse."""
import numpy as np

import paddle.fluid as fluid
from case import L, case

O = fluid.optimizer


def _net(c, **attributes):
    attr = fluid.ParamAttr(**attributes) if attributes else None
    hidden = L.fc(c.x([4, 5]), 4, act='tanh', param_attr=attr)
    return L.reduce_mean(L.square_error_cost(L.fc(hidden, 1), c.x([4, 1])))


def _sparse_net(c):
    words = L.embedding(c.ids([4, 1], 9), [9, 3], is_sparse=True)
    return L.reduce_mean(L.square_error_cost(L.fc(words, 1), c.x([4, 1])))


def _trained(name, make, net=_net):
    def build(c):
        return c.train(net(c), make())
    build.__module__ = __name__
    case(build, name)


_trained('sgd', lambda: O.SGD(0.1))
_trained('momentum', lambda: O.Momentum(0.1, 0.9))
_trained('momentum_nesterov', lambda: O.Momentum(0.1, 0.8, use_nesterov=True))
_trained('lars_momentum', lambda: O.LarsMomentum(0.1, 0.9, lars_coeff=0.01, lars_weight_decay=0.002))
_trained('adagrad', lambda: O.Adagrad(0.1))
_trained('adagrad_started', lambda: O.Adagrad(0.1, epsilon=1e-3, initial_accumulator_value=0.2))
_trained('adam', lambda: O.Adam(0.01))
_trained('adam_large_epsilon', lambda: O.Adam(0.01, beta1=0.8, beta2=0.9, epsilon=1e-2))
_trained('adamax', lambda: O.Adamax(0.01))
_trained('adamax_settings', lambda: O.Adamax(0.01, beta1=0.8, beta2=0.9, epsilon=1e-3))
_trained('decayed_adagrad', lambda: O.DecayedAdagrad(0.1))
_trained('decayed_adagrad_settings', lambda: O.DecayedAdagrad(0.1, decay=0.8, epsilon=1e-3))
_trained('adadelta', lambda: O.Adadelta(0.5, epsilon=1e-3, rho=0.9))
_trained('rmsprop', lambda: O.RMSProp(0.01))
_trained('rmsprop_momentum', lambda: O.RMSProp(0.01, rho=0.9, epsilon=1e-3, momentum=0.5))
_trained('rmsprop_centered', lambda: O.RMSProp(0.01, rho=0.9, epsilon=1e-3, momentum=0.3, centered=True))
_trained('ftrl', lambda: O.Ftrl(0.1))
_trained('ftrl_settings', lambda: O.Ftrl(0.1, l1=0.01, l2=0.01, lr_power=-0.4))
_trained('lamb', lambda: O.LambOptimizer(0.01, lamb_weight_decay=0.02))
_trained('dpsgd_quiet', lambda: O.Dpsgd(0.1, clip=100.0, batch_size=4.0, sigma=0.0))


def _table(name, make, sparse):
    """Two cases with the same numbers: one with a sparse gradient, one with a dense gradient."""
    def build(c):
        c.name = name + '_table'
        words = L.embedding(c.ids([4, 1], 9), [9, 3], is_sparse=sparse)
        return c.train(L.reduce_mean(L.square_error_cost(L.fc(words, 1), c.x([4, 1]))), make())
    build.__module__ = __name__
    case(build, name + ('_sparse' if sparse else '_dense'))


for _name, _make in (('sgd', lambda: O.SGD(0.1)), ('momentum', lambda: O.Momentum(0.1, 0.9)),
                     ('adagrad', lambda: O.Adagrad(0.1)), ('adam', lambda: O.Adam(0.01)),
                     ('adam_lazy', lambda: O.Adam(0.01, lazy_mode=True)), ('rmsprop', lambda: O.RMSProp(0.01))):
    _table(_name, _make, True)
    _table(_name, _make, False)

_trained('l2_decay', lambda: O.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)))
_trained('l1_decay', lambda: O.SGD(0.1, regularization=fluid.regularizer.L1Decay(0.05)))
_trained('l2_decay_sparse', lambda: O.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)), _sparse_net)
_trained('regularizer_of_a_parameter', lambda: O.Momentum(0.1, 0.9, regularization=fluid.regularizer.L1Decay(0.02)),
         lambda c: _net(c, regularizer=fluid.regularizer.L2Decay(0.1)))
_trained('learning_rate_of_a_parameter', lambda: O.SGD(0.1), lambda c: _net(c, learning_rate=0.25))
_trained('clip_by_value', lambda: O.SGD(0.5, grad_clip=fluid.clip.GradientClipByValue(0.02, -0.03)))
_trained('clip_by_norm', lambda: O.SGD(0.5, grad_clip=fluid.clip.GradientClipByNorm(0.05)))
_trained('clip_by_global_norm', lambda: O.Adam(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05)))
_trained('clip_by_global_norm_sparse', lambda: O.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.05)),
         _sparse_net)


@case
def ftrl_l2(c):
    c.name = 'ftrl_of_two'
    return c.train(_net(c), O.Ftrl(0.1, l1=0.01, l2=0.02))


@case
def ftrl_equal_l1_l2(c):
    c.name = 'ftrl_of_two'
    return c.train(_net(c), O.Ftrl(0.1, l1=0.01, l2=0.01))


@case
def set_gradient_clip(c):
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(0.05))
    loss = _net(c)
    c.train(loss)
    return loss


@case
def exponential_moving_average(c):
    loss = c.train(_net(c))
    average = O.ExponentialMovingAverage(0.5)
    average.update()
    parameters = [p.name for p in fluid.default_main_program().all_parameters()]

    def averaged(exe):
        with average.apply(exe):
            scope = fluid.global_scope()
            return {name: np.array(scope.find_var(name).get_tensor()) for name in parameters}
    c.after = averaged
    return loss


@case
def model_average(c):
    loss = c.train(_net(c))
    average = O.ModelAverage(0.5, min_average_window=2, max_average_window=4)
    parameters = [p.name for p in fluid.default_main_program().all_parameters()]

    def averaged(exe):
        with average.apply(exe):
            scope = fluid.global_scope()
            return {name: np.array(scope.find_var(name).get_tensor()) for name in parameters}
    c.after = averaged
    return loss


@case
def lookahead(c):
    # Its slow copies are made by the startup program, so that has to give the parameters.
    weight = fluid.initializer.NumpyArrayInitializer(np.linspace(-0.4, 0.5, 20).reshape(5, 4).astype('float32'))
    guess = L.fc(c.x([4, 5]), 4, act='tanh', param_attr=fluid.ParamAttr(name='w', initializer=weight), bias_attr=False)
    loss = L.reduce_mean(L.square_error_cost(L.reduce_sum(guess, 1, keep_dim=True), c.x([4, 1])))
    c.initial['w'] = np.linspace(-0.4, 0.5, 20).reshape(5, 4)
    return c.train(loss, O.LookaheadOptimizer(O.SGD(0.1), alpha=0.5, k=3))


@case
def dpsgd_noise(c):
    c.random = True
    parameter = L.create_parameter([4], 'float32', name='w')
    loss = L.elementwise_mul(L.reduce_sum(parameter), L.reduce_mean(c.given(np.ones([1, 1], 'float32'))))
    return c.train(loss, O.Dpsgd(0.1, clip=10.0, batch_size=4.0, sigma=2.0))


@case
def recompute(c):
    first = L.fc(c.x([4, 5]), 4, act='tanh')
    second = L.fc(first, 4, act='tanh')
    loss = L.reduce_mean(L.square_error_cost(L.fc(second, 1), c.x([4, 1])))
    optimizer = O.RecomputeOptimizer(O.Adam(0.01))
    optimizer._set_checkpoints([first, second])
    return c.train(loss, optimizer)


@case
def two_optimizers_of_one_net(c):
    x = c.x([4, 5])
    one = L.reduce_mean(L.square(L.fc(x, 2, param_attr='a', bias_attr=False)))
    two = L.reduce_mean(L.square(L.fc(L.fc(x, 2, param_attr='a', bias_attr=False), 1, param_attr='b',
                                      bias_attr=False)))
    O.SGD(0.1).minimize(one, parameter_list=['a'])
    return [c.train(two, O.Adam(0.01)), one]


@case
def minimize_without_some(c):
    x = c.x([4, 5])
    hidden = L.fc(x, 3, param_attr='kept', bias_attr=False)
    loss = L.reduce_mean(L.square(L.fc(hidden, 1, param_attr='moved', bias_attr=False)))
    fluid.optimizer.SGD(0.1).minimize(loss, no_grad_set=set(['kept']))
    c.steps = 10
    return loss


@case
def backward_then_apply(c):
    loss = _net(c)
    optimizer = O.Momentum(0.1, 0.9)
    pairs = optimizer.backward(loss)
    optimizer.apply_gradients([(p, L.scale(g, 0.5)) for p, g in pairs])
    c.steps = 10
    return loss


@case
def gradients_of_two_targets(c):
    x, y = c.x([3, 4]), c.x([3, 4])
    z = L.elementwise_mul(x, L.tanh(y))
    w = L.square(x)
    c.gradients = False
    return fluid.gradients([z, w], [x, y])


@case
def gradients_with_given_ones(c):
    x = c.x([3, 4])
    y = L.square(x)
    c.gradients = False
    return fluid.gradients([y], [x], target_gradients=[c.x([3, 4], grad=False)])
