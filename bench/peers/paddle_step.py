"""One training step of PaddlePaddle on the workloads of bench/workloads.cc; one JSON line.

paddle_step.py NAME [--reps N] [--secs S] [--batches N]

The whole step is one static program whose operators run one after another, each on all threads
that OMP_NUM_THREADS gives. That is its fastest here: several operators at a time have threads each,
too many; its oneDNN kernels are slower, or crash on gradients that nobody wants.
"""

import sys
from pathlib import Path

import numpy
import paddle
from paddle import nn
from paddle.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402
from paddle_recurrences import recurrence  # noqa: E402


class NGram(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2073, 32)
        self.hidden = nn.Linear(128, 256)
        self.out = nn.Linear(256, 2073)

    def forward(self, words):
        return self.out(F.sigmoid(self.hidden(self.table(words).flatten(1))))


class Sentiment(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5147, 512)
        self.lstm = nn.LSTM(512, 512)
        self.out = nn.Linear(512, 2)

    def forward(self, words):
        return self.out(self.lstm(self.table(words))[0].max(1))


class Attention(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        each = width // self.heads
        query, key, value = (part.reshape([batch, length, self.heads, each]).transpose([0, 2, 1, 3])
                             for part in self.into(x).chunk(3, -1))
        weights = F.softmax(paddle.matmul(query, key, transpose_y=True) * each ** -0.5)
        return self.out(paddle.matmul(weights, value).transpose([0, 2, 1, 3]).reshape(x.shape))


class EncoderLayer(nn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.first(x + self.attention(x))
        return self.second(x + self.down(F.relu(self.up(x))))


class Clicks(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000000, 10, sparse=True)
        self.wide = nn.Linear(13, 1)
        sizes = [nn.Linear(273, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU()]
        self.deep = nn.Sequential(*sizes, nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, dense, slots):
        both = paddle.concat([self.table(slots).flatten(1), dense], 1)
        return (self.deep(both) + self.wide(dense)).squeeze(1)


class Bottleneck(nn.Layer):
    def __init__(self, given, maps, stride):
        super().__init__()

        def conv_bn(a, b, window, step):
            conv = nn.Conv2D(a, b, window, step, window // 2, bias_attr=False)
            return nn.Sequential(conv, nn.BatchNorm2D(b))

        self.first = conv_bn(given, maps, 1, 1)
        self.second = conv_bn(maps, maps, 3, stride)
        self.third = conv_bn(maps, 4 * maps, 1, 1)
        other = stride > 1 or given != 4 * maps
        self.way = conv_bn(given, 4 * maps, 1, stride) if other else nn.Identity()

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x))))
        return F.relu(self.third(y) + self.way(x))


def resnet50():
    layers = [nn.Conv2D(3, 64, 7, 2, 3, bias_attr=False), nn.BatchNorm2D(64), nn.ReLU()]
    layers.append(nn.MaxPool2D(3, 2, 1))
    given = 64
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(given, maps, stride if i == 0 else 1))
            given = 4 * maps
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16():
    layers, given = [], 3
    for maps in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if maps:
            conv = nn.Conv2D(given, maps, 3, padding=1)
            layers += [conv, nn.BatchNorm2D(maps), nn.ReLU()]
            given = maps
        else:
            layers.append(nn.MaxPool2D(2))
    hidden = [nn.Linear(512, 512), nn.BatchNorm1D(512), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *hidden, nn.Linear(512, 10))


def make(name, batches):
    """The model, its optimizer, its inputs, the loss of its output, and the loss's other input."""
    random = numpy.random.default_rng(0)
    sgd = paddle.optimizer.SGD(0.01)
    momentum = paddle.optimizer.Momentum(0.01, 0.9)
    adam = paddle.optimizer.Adam(1e-4 if name == 'transformer' else 1e-3)

    def noise(rows, *shape):
        return random.standard_normal((rows * batches, *shape), numpy.float32)

    def choices(count, rows, *shape):
        return random.integers(count, size=(rows * batches, *shape))

    def classes(model, optimizer, x, count, rows):
        return model, optimizer, [x], F.cross_entropy, [choices(count, rows)]

    loop = recurrence(name, random, batches)
    if loop:
        model, inputs, labels = loop
        return model, sgd, inputs, F.cross_entropy if labels else paddle.mean, labels
    if name == 'toy':
        return nn.Linear(1, 10), sgd, [noise(10, 1)], paddle.mean, []
    if name == 'fit_a_line':
        return nn.Linear(13, 1), sgd, [noise(20, 13)], F.mse_loss, [noise(20, 1)]
    if name == 'mlp':
        sizes = [nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)]
        return classes(nn.Sequential(*sizes), sgd, noise(64, 784), 10, 64)
    if name == 'lenet':
        first = [nn.Conv2D(1, 20, 5), nn.ReLU(), nn.MaxPool2D(2)]
        second = [nn.Conv2D(20, 50, 5), nn.ReLU(), nn.MaxPool2D(2)]
        model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(800, 10))
        return classes(model, adam, noise(64, 1, 28, 28), 10, 64)
    if name == 'ngram':
        return classes(NGram(), sgd, choices(2073, 100, 4), 2073, 100)
    if name == 'vgg16':
        return classes(vgg16(), momentum, noise(32, 3, 32, 32), 10, 32)
    if name == 'resnet50':
        return classes(resnet50(), momentum, noise(8, 3, 224, 224), 1000, 8)
    if name == 'lstm':
        return classes(Sentiment(), adam, choices(5147, 32, 100), 2, 32)
    if name == 'transformer':
        model = nn.Sequential(*[EncoderLayer(512, 8) for _ in range(6)], nn.Flatten(0, 1))
        return classes(model, adam, noise(8, 64, 512), 512, 512)
    if name in ('ctr_sgd', 'ctr_adagrad'):
        optimizer = sgd if name == 'ctr_sgd' else paddle.optimizer.Adagrad(0.01)
        batch = [noise(512, 13), choices(1000000, 512, 26)]
        label = choices(2, 512).astype(numpy.float32)
        return Clicks(), optimizer, batch, F.binary_cross_entropy_with_logits, [label]
    raise SystemExit(f'there is no workload {name}')


def prepare(name, batches):
    """One step, which gives the loss."""
    paddle.set_flags({'FLAGS_new_executor_serial_run': True})
    paddle.enable_static()
    paddle.seed(0)
    model, optimizer, inputs, loss_of, target = make(name, batches)
    feed = {f'given{i}': array for i, array in enumerate([*inputs, *target])}
    given = [paddle.static.data(key, array.shape, str(array.dtype)) for key, array in feed.items()]
    loss = loss_of(model(*given[:len(inputs)]), *given[len(inputs):])
    optimizer.minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    program = paddle.static.default_main_program()

    def step():
        return exe.run(program, feed=feed, fetch_list=[loss])[0]

    return step


def main():
    args = clock.arguments().parse_args()
    step = prepare(args.name, args.batches)
    for _ in range(3):
        step()
    clock.report(clock.measure(step, args), paddle.__version__)


if __name__ == '__main__':
    main()
