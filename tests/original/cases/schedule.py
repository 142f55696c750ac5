"""Learning-rate schedules, each over ten steps."""
import paddle.fluid as fluid
from case import L, case


def _schedule(name, make):
    def build(c):
        rate = make()
        loss = L.reduce_mean(L.square(L.fc(c.x([3, 4]), 2)))
        c.train(loss, fluid.optimizer.SGD(rate))
        return [loss, rate]
    build.__module__ = __name__
    case(build, name)


_schedule('exponential_decay', lambda: L.exponential_decay(0.1, 3, 0.5))
_schedule('exponential_decay_stairs', lambda: L.exponential_decay(0.1, 3, 0.5, staircase=True))
_schedule('natural_exp_decay', lambda: L.natural_exp_decay(0.1, 3, 0.5))
_schedule('natural_exp_decay_stairs', lambda: L.natural_exp_decay(0.1, 4, 0.5, staircase=True))
_schedule('inverse_time_decay', lambda: L.inverse_time_decay(0.1, 3, 0.5))
_schedule('inverse_time_decay_stairs', lambda: L.inverse_time_decay(0.1, 3, 0.5, staircase=True))
_schedule('polynomial_decay', lambda: L.polynomial_decay(0.1, 6, 0.01, power=2.0))
_schedule('polynomial_decay_cycle', lambda: L.polynomial_decay(0.1, 4, 0.01, power=1.0, cycle=True))
_schedule('piecewise_decay', lambda: L.piecewise_decay([3, 6], [0.1, 0.05, 0.01]))
_schedule('noam_decay', lambda: L.noam_decay(16, 4))
_schedule('noam_decay_scaled', lambda: L.noam_decay(16, 4, learning_rate=0.5))
_schedule('cosine_decay', lambda: L.cosine_decay(0.1, 2, 5))
_schedule('linear_lr_warmup', lambda: L.linear_lr_warmup(0.1, 4, 0.01, 0.1))
_schedule('linear_lr_warmup_of_a_decay', lambda: L.linear_lr_warmup(L.exponential_decay(0.1, 3, 0.5), 4, 0.01, 0.1))
