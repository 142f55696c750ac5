"""The recurrences of bench/steps/fluid_recurrence.py, as users of PyTorch write them. One JSON line.

torch_recurrence.py NAME [--threads N] [--reps N] [--secs S]
"""

import json
import sys
from pathlib import Path

import torch_step  # before torch: it notes the cores

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'support'))
import clock  # noqa: E402

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000


def unrolled_lstm():
    cell, x = nn.LSTMCell(WIDTH, WIDTH), torch.randn(STEPS, BATCH, WIDTH)

    def forward():
        states, outs = (torch.zeros(BATCH, WIDTH), torch.zeros(BATCH, WIDTH)), []
        for word in x:
            states = cell(word, states)
            outs.append(states[0])
        return torch.stack(outs)
    return cell, forward


def while_loop():
    layer, x = nn.Linear(WIDTH, WIDTH), torch.randn(BATCH, WIDTH)

    def forward():
        state = x
        for _ in range(STEPS):
            state = torch.tanh(layer(state))
        return state
    return layer, forward


def gru_cells():
    cell, x = nn.GRUCell(WIDTH, WIDTH), torch.randn(STEPS, BATCH, WIDTH)

    def forward():
        state, outs = torch.zeros(BATCH, WIDTH), []
        for word in x:
            state = cell(word, state)
            outs.append(state)
        return torch.stack(outs)
    return cell, forward


def layers_of(module):
    x = torch.randn(STEPS, BATCH, WIDTH)
    return module, lambda: module(x)[0]


def attention():
    queries, keys = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
    step, x = nn.Linear(3 * WIDTH, WIDTH), torch.randn(STEPS, BATCH, WIDTH)
    states = torch.randn(BATCH, STEPS, WIDTH)

    def forward():
        known, before, outs = keys(states).transpose(1, 2), torch.zeros(BATCH, WIDTH), []
        for word in x:
            shares = F.softmax(torch.bmm(queries(before).unsqueeze(1), known), -1)
            seen = torch.bmm(shares, states).squeeze(1)
            before = torch.tanh(step(torch.cat([word, seen, before], 1)))
            outs.append(before)
        return torch.stack(outs)
    return nn.ModuleList([queries, keys, step]), forward


def words():
    table, step, classes = nn.Embedding(WORDS, WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WORDS)
    ids, labels = (torch.randint(0, WORDS, (STEPS, BATCH)) for _ in range(2))

    def forward():
        before, losses = torch.zeros(BATCH, WIDTH), []
        for word, label in zip(ids, labels):
            before = torch.tanh(step(torch.cat([table(word), before], 1)))
            losses.append(F.cross_entropy(classes(before), label, reduction='none'))
        return torch.stack(losses)
    return nn.ModuleList([table, step, classes]), forward


MAKE = {'static_rnn': unrolled_lstm, 'dynamic_rnn': unrolled_lstm, 'while_loop': while_loop,
        'gru_cells': gru_cells, 'attention': attention, 'words': words,
        'dynamic_gru': lambda: layers_of(nn.GRU(WIDTH, WIDTH)),
        'lstm_layers': lambda: layers_of(nn.LSTM(WIDTH, WIDTH, 2))}


def main():
    args = clock.arguments().parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model, forward = MAKE[args.name]()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward().mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    torch_step.pin()
    print(json.dumps(clock.measure(step, args)))


main()
