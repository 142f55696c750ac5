"""One training step of PyTorch on the workloads of bench/workloads.cc; one JSON line.

torch_step.py NAME [--reps N] [--secs S] [--batches N] [--channels_last] [--fused] [--compile]

--fused takes a recurrence in the form that PyTorch has as one layer, --compile compiles the loss
with its gradient and the optimizer's update.
"""

import os
import sys
from pathlib import Path

# Before OpenMP binds this thread to one core.
CORES = sorted(os.sched_getaffinity(0))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402
from torch_recurrences import recurrence  # noqa: E402


class NGram(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2073, 32)
        self.hidden = nn.Linear(128, 256)
        self.out = nn.Linear(256, 2073)

    def forward(self, words):
        return self.out(torch.sigmoid(self.hidden(self.table(words).flatten(1))))


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5147, 512)
        self.lstm = nn.LSTM(512, 512, batch_first=True)
        self.out = nn.Linear(512, 2)

    def forward(self, words):
        return self.out(self.lstm(self.table(words))[0].max(1)[0])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.into = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        each = width // self.heads
        query, key, value = (part.view(batch, length, self.heads, each).transpose(1, 2)
                             for part in self.into(x).chunk(3, -1))
        weights = torch.softmax(torch.matmul(query, key.transpose(-1, -2)) * each ** -0.5, -1)
        return self.out(torch.matmul(weights, value).transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = self.first(x + self.attention(x))
        return self.second(x + self.down(F.relu(self.up(x))))


class Encoder(nn.Sequential):
    def __init__(self):
        super().__init__(*[EncoderLayer(512, 8) for _ in range(6)])

    def forward(self, x):
        return super().forward(x).flatten(0, 1)


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000000, 10, sparse=True)
        self.wide = nn.Linear(13, 1)
        sizes = [nn.Linear(273, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU()]
        self.deep = nn.Sequential(*sizes, nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, batch):
        dense, slots = batch
        both = torch.cat([self.table(slots).flatten(1), dense], 1)
        return (self.deep(both) + self.wide(dense)).squeeze(1)


class Bottleneck(nn.Module):
    def __init__(self, given, maps, stride):
        super().__init__()

        def conv_bn(a, b, window, step):
            conv = nn.Conv2d(a, b, window, step, window // 2, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(b))

        self.first = conv_bn(given, maps, 1, 1)
        self.second = conv_bn(maps, maps, 3, stride)
        self.third = conv_bn(maps, 4 * maps, 1, 1)
        other = stride > 1 or given != 4 * maps
        self.way = conv_bn(given, 4 * maps, 1, stride) if other else nn.Identity()

    def forward(self, x):
        y = F.relu(self.second(F.relu(self.first(x), True)), True)
        return F.relu(self.third(y) + self.way(x), True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    given = 64
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(given, maps, stride if i == 0 else 1))
            given = 4 * maps
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def vgg16():
    layers, given = [], 3
    for maps in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if maps:
            conv = nn.Conv2d(given, maps, 3, padding=1)
            layers += [conv, nn.BatchNorm2d(maps), nn.ReLU(True)]
            given = maps
        else:
            layers.append(nn.MaxPool2d(2))
    hidden = [nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.Flatten(), *hidden, nn.Linear(512, 10))


def make(name, batches, fused):
    """The model, its optimizer's factory, its inputs, and the loss of its output."""

    def sgd(parameters):
        return torch.optim.SGD(parameters, 0.01)

    def momentum(parameters):
        return torch.optim.SGD(parameters, 0.01, momentum=0.9)

    def adam(parameters):
        return torch.optim.Adam(parameters, 1e-4 if name == 'transformer' else 1e-3)

    def adagrad(parameters):
        return torch.optim.Adagrad(parameters, 0.01)

    def noise(rows, *shape):
        return torch.randn(rows * batches, *shape)

    def whole(count, rows, *shape):
        return torch.randint(count, (rows * batches, *shape))

    def classes(count, rows):
        label = whole(count, rows)
        return lambda out: F.cross_entropy(out, label)

    loop = recurrence(name, batches, fused)
    if loop:
        return loop[0], sgd, loop[1], torch.mean
    if fused:
        raise SystemExit(f'{name} has no other form')
    if name == 'toy':
        return nn.Linear(1, 10), sgd, noise(10, 1), torch.mean
    if name == 'fit_a_line':
        y = noise(20, 1)
        return nn.Linear(13, 1), sgd, noise(20, 13), lambda out: F.mse_loss(out, y)
    if name == 'mlp':
        sizes = [nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)]
        return nn.Sequential(*sizes), sgd, noise(64, 784), classes(10, 64)
    if name == 'lenet':
        first = [nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2)]
        second = [nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2)]
        model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(800, 10))
        return model, adam, noise(64, 1, 28, 28), classes(10, 64)
    if name == 'ngram':
        return NGram(), sgd, whole(2073, 100, 4), classes(2073, 100)
    if name == 'vgg16':
        return vgg16(), momentum, noise(32, 3, 32, 32), classes(10, 32)
    if name == 'resnet50':
        return resnet50(), momentum, noise(8, 3, 224, 224), classes(1000, 8)
    if name == 'lstm':
        return Sentiment(), adam, whole(5147, 32, 100), classes(2, 32)
    if name == 'transformer':
        return Encoder(), adam, noise(8, 64, 512), classes(512, 512)
    if name in ('ctr_sgd', 'ctr_adagrad'):
        label = whole(2, 512).float()
        batch = noise(512, 13), whole(1000000, 512, 26)
        return (Clicks(), sgd if name == 'ctr_sgd' else adagrad, batch,
                lambda out: F.binary_cross_entropy_with_logits(out, label))
    raise SystemExit(f'there is no workload {name}')


def pin():
    """The main thread on the first core, the workers on the others in turn (not all work)."""
    others = CORES[1:] or CORES
    workers = [t for t in map(int, os.listdir('/proc/self/task')) if t != os.getpid()]
    os.sched_setaffinity(os.getpid(), {CORES[0]})
    for i, task in enumerate(workers):
        os.sched_setaffinity(task, {others[i % len(others)]})


def arguments():
    parser = clock.arguments()
    for option in ('--channels_last', '--fused', '--compile'):
        parser.add_argument(option, action='store_true')
    return parser


def prepare(args):
    """The model, and what makes one step of a model that computes the same."""
    torch.set_num_threads(clock.threads())
    torch.manual_seed(0)
    model, optimizer, x, loss_of = make(args.name, args.batches, args.fused)
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = optimizer(model.parameters())

    def step_of(forward):
        def loss(x):
            return loss_of(forward(x))

        update = optimizer.step
        if args.compile:
            loss, update = torch.compile(loss), torch.compile(update)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss(x).backward()
            update()
        return step

    return model, step_of


def main():
    args = arguments().parse_args()
    model, step_of = prepare(args)
    step = step_of(model)
    for _ in range(3):
        step()
    pin()
    clock.report(clock.measure(step, args), torch.__version__)


if __name__ == '__main__':
    main()
