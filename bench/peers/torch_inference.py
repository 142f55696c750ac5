"""One call of PyTorch on the models of steps/fluid_inference.py; one JSON line.

torch_inference.py NAME [--reps N] [--secs S] [--callers N] [--channels_last] [--compile]
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


def conv_bn(given, maps, window, stride, act=True, groups=1):
    conv = nn.Conv2d(given, maps, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(maps), *([nn.ReLU(True)] if act else []))


class Bottleneck(nn.Module):
    def __init__(self, given, maps, stride):
        super().__init__()
        self.main = nn.Sequential(conv_bn(given, maps, 1, 1), conv_bn(maps, maps, 3, stride),
                                  conv_bn(maps, 4 * maps, 1, 1, act=False))
        other = stride > 1 or given != 4 * maps
        self.way = conv_bn(given, 4 * maps, 1, stride, act=False) if other else nn.Identity()

    def forward(self, x):
        return F.relu(self.main(x) + self.way(x), True)


def classes(given):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000), nn.Softmax(-1)]


def resnet50():
    layers, given = [conv_bn(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for maps, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(given, maps, stride if i == 0 else 1))
            given = 4 * maps
    return nn.Sequential(*layers, *classes(2048))


def mobilenet():
    layers, given = [conv_bn(3, 32, 3, 2)], 32
    for maps, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1),
                         (512, 1), (512, 1), (1024, 2), (1024, 1)):
        layers += [conv_bn(given, given, 3, stride, groups=given), conv_bn(given, maps, 1, 1)]
        given = maps
    return nn.Sequential(*layers, *classes(1024))


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5147, 512)
        self.lstm = nn.LSTM(512, 512, batch_first=True)
        self.out = nn.Linear(512, 2)

    def forward(self, words):
        return torch.softmax(self.out(self.lstm(self.table(words))[0].max(1)[0]), -1)


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.into, self.attended = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in self.into(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(x.shape)
        x = self.first(x + self.attended(mixed))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30522, 768)
        self.places = nn.Parameter(torch.zeros(128, 768))
        self.norm, self.out = nn.LayerNorm(768), nn.Linear(768, 2)
        self.layers = nn.Sequential(*[EncoderLayer(768, 12) for _ in range(12)])

    def forward(self, words):
        x = self.layers(self.norm(self.words(words) + self.places))
        return torch.softmax(self.out(x[:, 0]), -1)


class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000000, 10)
        self.wide = nn.Linear(13, 1)
        self.deep = nn.Sequential(nn.Linear(273, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(),
                                  nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 1))

    def forward(self, dense, slots):
        both = torch.cat([self.table(slots).flatten(1), dense], 1)
        return torch.sigmoid(self.deep(both) + self.wide(dense))


def make(model, rows):
    """The model and what it is given."""
    if model in ('resnet50', 'mobilenet'):
        return (resnet50 if model == 'resnet50' else mobilenet)(), (torch.randn(rows, 3, 224, 224),)
    if model == 'lstm':
        return Sentiment(), (torch.randint(5147, (rows, 100)),)
    if model == 'bert':
        return Bert(), (torch.randint(30522, (rows, 128)),)
    if model == 'ctr':
        return Clicks(), (torch.randn(rows, 13), torch.randint(1000000, (rows, 26)))
    raise SystemExit(f'there is no model {model}')


def pin():
    """The main thread on the first core, the workers on the others in turn."""
    others = CORES[1:] or CORES
    workers = [t for t in map(int, os.listdir('/proc/self/task')) if t != os.getpid()]
    os.sched_setaffinity(os.getpid(), {CORES[0]})
    for i, task in enumerate(workers):
        os.sched_setaffinity(task, {others[i % len(others)]})


def main():
    parser = clock.arguments()
    parser.add_argument('--callers', type=int, default=1)
    for option in ('--channels_last', '--compile'):
        parser.add_argument(option, action='store_true')
    args = parser.parse_args()
    torch.set_num_threads(clock.threads())
    torch.manual_seed(0)
    name, _, rows = args.name.partition('_b')
    model, given = make(name, int(rows))
    model.eval()
    if args.channels_last:
        model = model.to(memory_format=torch.channels_last)
        given = tuple(x.contiguous(memory_format=torch.channels_last) for x in given)
    if args.compile:
        model = torch.compile(model)

    def call():
        with torch.inference_mode():
            return model(*given)

    for _ in range(3):
        call()
    if args.callers == 1:
        pin()
    elif len(os.sched_getaffinity(0)) < len(CORES):
        os.sched_setaffinity(0, CORES)
    clock.report(clock.measure_callers([call] * args.callers, args), torch.__version__)


if __name__ == '__main__':
    main()
