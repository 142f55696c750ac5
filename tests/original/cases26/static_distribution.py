"""Distributions of paddle.distribution."""
import paddle
from case import case
from paddle.distribution import Categorical, Normal, Uniform


@case
def d_normal(c):
    p, q = Normal(c.x([3, 4]), c.x([3, 4], 0.5, 2.0)), Normal(c.x([3, 4]), c.x([3, 4], 0.5, 2.0))
    value = c.x([3, 4], -2.0, 2.0)
    return p.entropy(), p.log_prob(value), p.probs(value), paddle.distribution.kl_divergence(p, q)


@case
def d_uniform(c):
    p = Uniform(c.x([3, 4], -2.0, -1.0, grad=False), c.x([3, 4], 1.0, 2.0, grad=False))
    c.gradients = False
    return p.entropy(), p.log_prob(c.x([3, 4], -0.9, 0.9))


@case
def d_categorical(c):
    p, q = Categorical(c.x([3, 4], 0.1, 2.0)), Categorical(c.x([3, 4], 0.1, 2.0))
    c.gradients = False
    return paddle.reshape(p.entropy(), [3]), paddle.reshape(p.kl_divergence(q), [3]), p.probs(c.ids([3, 2], 4))


@case
def d_drawn(c):
    c.random = True
    return (Normal(0.0, 1.0).sample([3, 2]), Uniform(-1.0, 2.0).sample([3]),
            Categorical(c.x([3, 4], 0.1, 2.0, grad=False, fixed=True)).sample([5]))
