"""Trainings in 2.x style: optimizers on layers of paddle.nn, ten losses each."""
import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from case import case


def _net():
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def _trained(name, make):
    """A small classifier by an optimizer."""
    def build(c):
        loss = F.cross_entropy(_net()(c.x([5, 4])), c.ids([5, 1], 3))
        return c.train(loss, make())
    case(build, name)


_trained('train_adamw', lambda: paddle.optimizer.AdamW(0.05))
_trained('train_adamw_decay', lambda: paddle.optimizer.AdamW(0.05, weight_decay=0.2, beta1=0.8, beta2=0.9, epsilon=1e-6))
_trained('train_adamw_some', lambda: paddle.optimizer.AdamW(
    0.05, weight_decay=0.3, apply_decay_param_fun=lambda name: name.endswith('w_0')))
_trained('train_adamw_clip', lambda: paddle.optimizer.AdamW(0.05, weight_decay=0.1,
                                                            grad_clip=nn.ClipGradByGlobalNorm(0.5)))
_trained('train_adam_decay', lambda: paddle.optimizer.Adam(0.05, weight_decay=0.1))
_trained('train_momentum', lambda: paddle.optimizer.Momentum(0.1, use_nesterov=True, weight_decay=1e-2))
_trained('train_rmsprop', lambda: paddle.optimizer.RMSProp(0.05))
_trained('train_lamb', lambda: paddle.optimizer.Lamb(0.05))


@case
def train_conv_net(c):
    net = nn.Sequential(nn.Conv2D(1, 3, 3, padding=1), nn.BatchNorm2D(3), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(),
                        nn.Linear(12, 3))
    loss = F.cross_entropy(net(c.x([4, 1, 4, 4], fixed=True)), c.ids([4, 1], 3))
    return c.train(loss, paddle.optimizer.Momentum(0.05))


@case
def train_lstm(c):
    out, (hidden, _) = nn.LSTM(4, 5)(c.x([4, 3, 4]))
    loss = F.cross_entropy(nn.Linear(5, 3)(out[:, -1]), c.ids([4, 1], 3))
    return c.train(loss, paddle.optimizer.Adam(0.05))


@case
def train_transformer(c):
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0), 1)
    tokens = nn.Embedding(9, 6)(c.ids([4, 3], 9))
    loss = F.cross_entropy(nn.Linear(6, 3)(encoder(tokens).mean(axis=1)), c.ids([4, 1], 3))
    return c.train(loss, paddle.optimizer.Momentum(0.05))
