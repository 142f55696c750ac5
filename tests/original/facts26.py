"""What 2.6.2 says without running a program: parameters of layers, learning rates, metrics, samplers.

    python tests/original/facts26.py    in 2.6.2: writes records/facts26.jsonl

Each fact is an expression; tests/python/test_static_facts.py asks ours the same.
"""
import json
import os
import sys

import numpy as np
import paddle
import paddle.nn as nn  # noqa: F401 - expressions name it

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'records', 'facts26.jsonl')

LAYERS = '''
nn.Linear(4, 5)
nn.Linear(4, 5, weight_attr=paddle.ParamAttr(name='w'), bias_attr=False)
nn.Conv1D(3, 4, 3)
nn.Conv2D(3, 4, 3)
nn.Conv2D(4, 8, (3, 5), groups=2)
nn.Conv2D(3, 4, 3, weight_attr=nn.initializer.KaimingNormal(), bias_attr=nn.initializer.Constant(0.5))
nn.Conv3D(3, 4, 3)
nn.Conv1DTranspose(3, 4, 3)
nn.Conv2DTranspose(3, 4, 3)
nn.Conv3DTranspose(3, 4, 3)
nn.BatchNorm(4)
nn.BatchNorm1D(4)
nn.BatchNorm2D(4)
nn.BatchNorm3D(4)
nn.BatchNorm2D(4, weight_attr=False, bias_attr=False)
nn.SyncBatchNorm(4)
nn.LayerNorm(4)
nn.LayerNorm([3, 4])
nn.LayerNorm(4, weight_attr=False, bias_attr=False)
nn.GroupNorm(2, 4)
nn.GroupNorm(2, 4, weight_attr=False, bias_attr=False)
nn.InstanceNorm1D(4)
nn.InstanceNorm2D(4)
nn.InstanceNorm3D(4)
nn.InstanceNorm2D(4, weight_attr=False, bias_attr=False)
nn.SpectralNorm([4, 5], dim=1)
nn.Embedding(7, 3)
nn.Embedding(7, 3, padding_idx=2)
nn.Bilinear(3, 4, 5)
nn.PReLU()
nn.PReLU(4, init=0.1)
nn.SimpleRNNCell(3, 4)
nn.LSTMCell(3, 4)
nn.GRUCell(3, 4)
nn.SimpleRNN(3, 4)
nn.LSTM(3, 4, num_layers=2, direction='bidirect')
nn.GRU(3, 4)
nn.RNN(nn.LSTMCell(3, 4))
nn.BiRNN(nn.GRUCell(3, 4), nn.GRUCell(3, 4))
nn.MultiHeadAttention(4, 2)
nn.MultiHeadAttention(4, 2, kdim=3, vdim=5)
nn.TransformerEncoderLayer(4, 2, 8)
nn.TransformerDecoderLayer(4, 2, 8)
nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2)
nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 2)
nn.Transformer(4, 2, 1, 1, 8)
nn.HSigmoidLoss(4, 5)
nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
nn.Sequential(('in', nn.Linear(2, 3)), ('out', nn.Linear(3, 2)))
nn.LayerList([nn.Linear(2, 3), nn.LayerDict({'a': nn.Linear(3, 2)})])
'''.strip().splitlines()

SCHEDULES = '''
lr.LinearLR(0.5, 5, 0.2, 0.9)
lr.CosineAnnealingWarmRestarts(0.5, 3, 2, 0.01)
lr.CyclicLR(0.1, 0.5, 3)
lr.CyclicLR(0.1, 0.5, 3, 2, 'triangular2')
lr.CyclicLR(0.1, 0.5, 2, 3, 'exp_range', 0.9)
lr.CyclicLR(0.1, 0.5, 2, 3, scale_fn=lambda x: 0.8 ** x, scale_mode='iterations')
lr.OneCycleLR(0.5, 13)
lr.OneCycleLR(0.5, 13, 10, 0.01, 0.4, 'linear', True)
lr.OneCycleLR(0.5, 13, three_phase=True, phase_pct=0.4)
'''.strip().splitlines()

SAMPLERS = '''
io.BatchSampler(range(7), batch_size=3)
io.BatchSampler(range(7), batch_size=3, drop_last=True)
io.BatchSampler(sampler=io.SequenceSampler(range(4)), batch_size=2)
io.DistributedBatchSampler(range(10), 2, num_replicas=2, rank=0)
io.DistributedBatchSampler(range(10), 2, num_replicas=2, rank=1)
io.DistributedBatchSampler(range(11), 2, num_replicas=3, rank=1)
io.DistributedBatchSampler(range(11), 2, num_replicas=3, rank=2, drop_last=True)
io.DistributedBatchSampler(range(10), 3, num_replicas=2, rank=1, shuffle=True)
'''.strip().splitlines()

METRICS = '''
metric.Accuracy()
metric.Accuracy(topk=(1, 2))
metric.Accuracy(topk=(3,), name='mine')
metric.Precision()
metric.Recall()
metric.Auc()
metric.Auc(num_thresholds=15)
'''.strip().splitlines()

GAINS = ['relu', 'tanh', 'sigmoid', 'linear', 'conv2d', 'selu', 'leaky_relu']


def _number(value):
    return float(np.float32(value))


def layer(text):
    """Names under which a layer keeps its parameters, and what the startup program fills them with."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.utils.unique_name.guard(), paddle.static.program_guard(main, startup):
        made = eval(text)
        state = {key: [var.name, list(var.shape), bool(var.trainable), bool(var.stop_gradient)]
                 for key, var in made.state_dict().items()}
    names, filled = {found[0] for found in state.values()}, {}
    for op in startup.global_block().ops:
        # 2.6.2 puts the weights of a recurrent layer in a row as well.
        if op.type == 'coalesce_tensor' or op.output_arg_names[0] not in names:
            continue
        bounds = {key: _number(op.attr(key)) for key in ('min', 'max', 'mean', 'std', 'value') if op.has_attr(key)}
        filled[op.output_arg_names[0]] = [op.type, bounds]
    return {'full_name': made.full_name(), 'state': state, 'filled': filled}


def schedule(text):
    made, rates = eval(text, {'lr': paddle.optimizer.lr}), []
    for _ in range(12):
        rates.append(float(made()))
        made.step()
    return rates


def sampler(text):
    made = eval(text, {'io': paddle.io})
    return [len(made)] + [[list(map(int, batch)) for batch in made] for _ in range(2)]


def metric(text):
    """Its names, and what three batches come to."""
    made, generator, found = eval(text, {'metric': paddle.metric}), np.random.RandomState(3), []
    for _ in range(3):
        shares = generator.rand(8, 4).astype('float32')
        if isinstance(made, paddle.metric.Accuracy):
            order, label = np.argsort(-shares, -1)[:, :made.maxk], generator.randint(0, 4, [8, 1])
            made.update((order == label).astype('float32'))
        else:
            one = shares[:, :1]
            made.update(np.concatenate([1 - one, one], 1) if 'Auc' in text else one, generator.randint(0, 2, [8, 1]))
        value = made.accumulate()
        found.append([float(v) for v in value] if isinstance(value, (list, tuple)) else float(value))
    return [made.name(), found]


KINDS = {'layer': (layer, LAYERS), 'schedule': (schedule, SCHEDULES), 'sampler': (sampler, SAMPLERS),
         'metric': (metric, METRICS), 'gain': (lambda name: nn.initializer.calculate_gain(name), GAINS)}


def main():
    if paddle.version.full_version != '2.6.2':
        sys.exit('these facts are those of PaddlePaddle 2.6.2; this is ' + paddle.version.full_version)
    paddle.enable_static()
    with open(PATH, 'w') as file:  # a line for each fact
        for kind, (function, texts) in KINDS.items():
            for text in texts:
                file.write(json.dumps([kind, text, function(text)]) + '\n')


if __name__ == '__main__':
    main()
