"""One training step of JAX on the workloads of bench/workloads.cc; one JSON line.

jax_step.py NAME [--reps N] [--secs S] [--batches N]

The whole step is one compiled function that overwrites its state. XLA has a thread for each core
this process may use.
"""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Callable, NamedTuple

os.environ['JAX_PLATFORMS'] = 'cpu'

import jax  # noqa: E402
import numpy  # noqa: E402
from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402
from jax_recurrences import lstm, recurrence  # noqa: E402


class Weights:
    """What a model asks for, in the order it asks: drawn in the first call, given in the others.

    Statistics are running means, which a step overwrites but no optimizer sees.
    """

    def __init__(self, random=None, given=(), statistics=()):
        self.random, self.given, self.statistics = random, iter(given), iter(statistics)
        self.drawn, self.updated = [], []

    def take(self, draw):
        if not self.random:
            return next(self.given)
        self.drawn.append(draw().astype(numpy.float32))
        return jnp.asarray(self.drawn[-1])

    def uniform(self, inputs, *shape):
        return self.take(lambda: self.random.uniform(-1, 1, shape) * inputs ** -0.5)

    def normal(self, *shape):
        return self.take(lambda: self.random.standard_normal(shape, numpy.float32))

    def full(self, value, *shape):
        return self.take(lambda: numpy.full(shape, value))

    def running(self, first, now):
        if self.random:
            self.updated.append(numpy.full(now.shape, first, numpy.float32))
        else:
            before = next(self.statistics)
            self.updated.append(0.9 * before + 0.1 * lax.stop_gradient(now))


def dense(w, x, size):
    inputs = x.shape[-1]
    return x @ w.uniform(inputs, inputs, size) + w.uniform(inputs, size)


def conv(w, x, maps, window, stride=1, padding=0, bias=True):
    """Images have their channels last, as XLA's library for processors wants them. It is slow with
    windows of one pixel and with windows larger than the image: those are products here."""
    height, depth = x.shape[1], x.shape[-1]
    inputs = window * window * depth
    kernel = w.uniform(inputs, window, window, depth, maps)
    if window == 1:
        y = x[:, ::stride, ::stride] @ kernel[0, 0]
    elif height < window:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        last = x.shape[1] - window + 1
        shifted = [x[:, i:last + i:stride, j:last + j:stride] for i in range(window)
                   for j in range(window)]
        y = jnp.concatenate(shifted, -1) @ kernel.reshape(inputs, maps)
    else:
        y = lax.conv_general_dilated(x, kernel, (stride, stride), [(padding, padding)] * 2,
                                     dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
    return y + w.uniform(inputs, maps) if bias else y


def batch_norm(w, x):
    axes = tuple(range(x.ndim - 1))
    mean, square = x.mean(axes), jnp.square(x).mean(axes)
    variance = square - jnp.square(mean)
    count = x.size // x.shape[-1]
    w.running(0, mean)
    w.running(1, variance * (count / (count - 1)))
    scale = w.full(1, x.shape[-1]) * lax.rsqrt(variance + 1e-5)
    return (x - mean) * scale + w.full(0, x.shape[-1])


def layer_norm(w, x):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    normal = (x - mean) * lax.rsqrt(variance + 1e-5)
    return normal * w.full(1, x.shape[-1]) + w.full(0, x.shape[-1])


def halved(x):
    """The largest of each 2 x 2. As a reduction it has a cheaper gradient than as a window."""
    batch, height, width, maps = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, maps).max((2, 4))


def mlp(w, x):
    for _ in range(2):
        x = jax.nn.relu(dense(w, x, 200))
    return dense(w, x, 10)


def lenet(w, x):
    for maps in (20, 50):
        x = halved(jax.nn.relu(conv(w, x, maps, 5)))
    return dense(w, x.reshape(len(x), -1), 10)


def ngram(w, words):
    context = w.normal(2073, 32)[words].reshape(len(words), -1)
    return dense(w, jax.nn.sigmoid(dense(w, context, 256)), 2073)


def sentiment(w, words):
    return dense(w, lstm(w, w.normal(5147, 512)[words.T]).max(0), 2)


def attention(w, x, heads):
    batch, length, width = x.shape
    each = width // heads
    query, key, value = (part.reshape(batch, length, heads, each)
                         for part in jnp.split(dense(w, x, 3 * width), 3, -1))
    weights = jax.nn.softmax(jnp.einsum('bqhd,bkhd->bhqk', query, key) * each ** -0.5)
    mixed = jnp.einsum('bhqk,bkhd->bqhd', weights, value)
    return dense(w, mixed.reshape(x.shape), width)


def encoder(w, x):
    for _ in range(6):
        x = layer_norm(w, x + attention(w, x, 8))
        x = layer_norm(w, x + dense(w, jax.nn.relu(dense(w, x, 2048)), 512))
    return x.reshape(-1, 512)


def vgg16(w, x):
    for maps in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        x = jax.nn.relu(batch_norm(w, conv(w, x, maps, 3, padding=1))) if maps else halved(x)
    return dense(w, jax.nn.relu(batch_norm(w, dense(w, x.reshape(len(x), -1), 512))), 10)


def resnet50(w, x):
    def conv_bn(x, maps, window, stride):
        return batch_norm(w, conv(w, x, maps, window, stride, window // 2, bias=False))

    x = jax.nn.relu(conv_bn(x, 64, 7, 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1),
                          ((0, 0), (1, 1), (1, 1), (0, 0)))
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            step = stride if i == 0 else 1
            y = jax.nn.relu(conv_bn(x, maps, 1, 1))
            y = conv_bn(jax.nn.relu(conv_bn(y, maps, 3, step)), 4 * maps, 1, 1)
            x = jax.nn.relu(y + (conv_bn(x, 4 * maps, 1, step) if i == 0 else x))
    return dense(w, x.mean((1, 2)), 1000)


def clicks(w, features, rows):
    wide = dense(w, features, 1)
    deep = jnp.concatenate([rows.reshape(len(rows), -1), features], 1)
    for _ in range(3):
        deep = jax.nn.relu(dense(w, deep, 400))
    return (dense(w, deep, 1) + wide)[:, 0]


# An optimizer is what it keeps of a parameter, and its update of one.


def sgd(rate):
    return lambda p: (), lambda p, g, kept, t: (p - rate * g, ())


def momentum(rate, factor):
    def update(p, g, kept, t):
        speed = factor * kept + g
        return p - rate * speed, speed

    return jnp.zeros_like, update


def adam(rate):
    def update(p, g, kept, t):
        first, second = 0.9 * kept[0] + 0.1 * g, 0.999 * kept[1] + 0.001 * g * g
        root = jnp.sqrt(second / (1 - 0.999 ** t)) + 1e-8
        return p - rate / (1 - 0.9 ** t) * first / root, (first, second)

    return lambda p: (jnp.zeros_like(p), jnp.zeros_like(p)), update


def adagrad(rate):
    def update(p, g, kept, t):
        kept = kept + g * g
        return p - rate * g / (jnp.sqrt(kept) + 1e-10), kept

    return jnp.zeros_like, update


def mean(out, _):
    return out.mean()


def squared_error(out, y):
    return jnp.square(out - y).mean()


def cross_entropy(out, label):
    picked = jnp.take_along_axis(out, label[:, None], 1)[:, 0]
    return (jax.nn.logsumexp(out, 1) - picked).mean()


def click_error(out, label):
    return (jax.nn.softplus(out) - out * label).mean()


class Workload(NamedTuple):
    """The model, what it learns from, and how. With slots, it also reads those rows of a table."""
    model: Callable
    optimizer: tuple
    x: numpy.ndarray
    loss: Callable
    target: numpy.ndarray = None
    slots: numpy.ndarray = None


def make(name, random, batches):
    def noise(rows, *shape):
        return random.standard_normal((rows * batches, *shape), numpy.float32)

    def choices(count, rows, *shape):
        return random.integers(count, size=(rows * batches, *shape), dtype=numpy.int32)

    def classes(model, optimizer, x, count, rows):
        return Workload(model, optimizer, x, cross_entropy, choices(count, rows))

    loop = recurrence(name, random, batches)
    if loop:
        model, x, labels = loop
        return Workload(model, sgd(0.01), x, mean if labels is None else cross_entropy, labels)
    if name == 'toy':
        return Workload(partial(dense, size=10), sgd(0.01), noise(10, 1), mean)
    if name == 'fit_a_line':
        model = partial(dense, size=1)
        return Workload(model, sgd(0.01), noise(20, 13), squared_error, noise(20, 1))
    if name == 'mlp':
        return classes(mlp, sgd(0.01), noise(64, 784), 10, 64)
    if name == 'lenet':
        return classes(lenet, adam(1e-3), noise(64, 28, 28, 1), 10, 64)
    if name == 'ngram':
        return classes(ngram, sgd(0.01), choices(2073, 100, 4), 2073, 100)
    if name == 'vgg16':
        return classes(vgg16, momentum(0.01, 0.9), noise(32, 32, 32, 3), 10, 32)
    if name == 'resnet50':
        return classes(resnet50, momentum(0.01, 0.9), noise(8, 224, 224, 3), 1000, 8)
    if name == 'lstm':
        return classes(sentiment, adam(1e-3), choices(5147, 32, 100), 2, 32)
    if name == 'transformer':
        return classes(encoder, adam(1e-4), noise(8, 64, 512), 512, 512)
    if name in ('ctr_sgd', 'ctr_adagrad'):
        optimizer = sgd(0.01) if name == 'ctr_sgd' else adagrad(0.01)
        label = choices(2, 512).astype(numpy.float32)
        return Workload(clicks, optimizer, noise(512, 13), click_error, label,
                        choices(1000000, 512, 26))
    raise SystemExit(f'there is no workload {name}')


def update_rows(update, table, kept, slots, gradient, t):
    """Only the rows that were looked up change, each by the sum of its gradients."""
    count = slots.size
    rows, where = jnp.unique(slots, return_inverse=True, size=count, fill_value=len(table))
    gradient = jax.ops.segment_sum(gradient.reshape(count, -1), where.reshape(-1), count)

    def replaced(whole, part):
        return whole.at[rows].set(part, mode='drop', unique_indices=True)

    kept_rows = jax.tree.map(lambda whole: whole[rows], kept)
    new, kept_rows = update(table[rows], gradient, kept_rows, t)
    return replaced(table, new), jax.tree.map(replaced, kept, kept_rows)


def prepare(name, batches):
    """The first state, the step, and its batch. A step overwrites the state it is given; it
    returns the next one and the loss."""
    random = numpy.random.default_rng(0)
    model, (keep, update), x, loss_of, target, slots = make(name, random, batches)
    has_table = slots is not None
    tables = [random.standard_normal((1000000, 10), numpy.float32)] if has_table else []
    first = Weights(random)
    jax.eval_shape(partial(model, first), x, *[table[slots] for table in tables])
    state = dict(weights=first.drawn, kept=[keep(p) for p in first.drawn],
                 statistics=first.updated, tables=tables, kept_of_tables=[keep(p) for p in tables],
                 t=jnp.zeros(()))

    def step(state, x, target, slots):
        def loss(weights, rows):
            w = Weights(given=weights, statistics=state['statistics'])
            return loss_of(model(w, x, *rows), target), w.updated

        t = state['t'] + 1
        tables = state['tables']
        rows = [table[slots] for table in tables]
        (value, statistics), (gradients, gradients_of_rows) = jax.value_and_grad(
            loss, (0, 1), has_aux=True)(state['weights'], rows)
        updated = [update(p, g, kept, t)
                   for p, g, kept in zip(state['weights'], gradients, state['kept'])]
        updated_tables = [update_rows(update, table, kept, slots, g, t) for table, kept, g in
                          zip(tables, state['kept_of_tables'], gradients_of_rows)]
        return dict(weights=[p for p, _ in updated], kept=[kept for _, kept in updated],
                    statistics=statistics, tables=[p for p, _ in updated_tables],
                    kept_of_tables=[kept for _, kept in updated_tables], t=t), value

    batch = jax.device_put((x, target, slots))
    return jax.device_put(state), jax.jit(step, donate_argnums=0), batch


def main():
    args = clock.arguments().parse_args()
    state, train, batch = prepare(args.name, args.batches)

    def step():
        nonlocal state
        state, loss = train(state, *batch)
        loss.block_until_ready()

    for _ in range(3):
        step()
    clock.report(clock.measure(step, args), jax.__version__)


if __name__ == '__main__':
    main()
