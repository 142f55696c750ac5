"""The recurrences of bench/steps/fluid_recurrences.py as users of PyTorch write them, and, where
there is one, in the form that PyTorch has fused. For torch_step.py.
"""

import torch
from torch import nn
from torch.nn import functional as F

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000


class Cells(nn.Module):
    """A cell in a loop; an LSTM's state has two parts, of which the first comes out."""

    def __init__(self, cell, parts):
        super().__init__()
        self.cell, self.parts = cell, parts

    def forward(self, x):
        state, outs = [x.new_zeros(x.shape[1], WIDTH) for _ in range(self.parts)], []
        for word in x:
            state = self.cell(word, tuple(state)) if self.parts == 2 else [self.cell(word, *state)]
            outs.append(state[0])
        return torch.stack(outs)


class Fused(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, state):
        for _ in range(STEPS):
            state = torch.tanh(self.layer(state))
        return state


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.queries = nn.Linear(WIDTH, WIDTH, bias=False)
        self.keys = nn.Linear(WIDTH, WIDTH, bias=False)
        self.step = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, given):
        x, states = given
        keys, before, outs = self.keys(states).transpose(1, 2), x.new_zeros(x.shape[1:]), []
        for word in x:
            shares = F.softmax(torch.bmm(self.queries(before).unsqueeze(1), keys), -1)
            seen = torch.bmm(shares, states).squeeze(1)
            before = torch.tanh(self.step(torch.cat([word, seen, before], 1)))
            outs.append(before)
        return torch.stack(outs)


class LanguageModel(nn.Module):
    """Words and classes are inside the loop, or outside: then only the state is left in it."""

    def __init__(self, fused):
        super().__init__()
        self.table, self.classes = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.fused = fused
        self.step = nn.RNN(WIDTH, WIDTH) if fused else nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, given):
        ids, labels = given
        if self.fused:
            out = self.classes(self.step(self.table(ids))[0])
            return F.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction='none')
        before, losses = torch.zeros(ids.shape[1], WIDTH), []
        for word, label in zip(ids, labels):
            before = torch.tanh(self.step(torch.cat([self.table(word), before], 1)))
            losses.append(F.cross_entropy(self.classes(before), label, reduction='none'))
        return torch.stack(losses)


def recurrence(name, batches, fused):
    """The model and its input; None where there is no such recurrence."""
    rows = BATCH * batches
    x = torch.randn(STEPS, rows, WIDTH)
    if name in ('static_rnn', 'dynamic_rnn'):
        return Fused(nn.LSTM(WIDTH, WIDTH)) if fused else Cells(nn.LSTMCell(WIDTH, WIDTH), 2), x
    if name == 'gru_cells':
        return Fused(nn.GRU(WIDTH, WIDTH)) if fused else Cells(nn.GRUCell(WIDTH, WIDTH), 1), x
    if name == 'words':
        return LanguageModel(fused), torch.randint(0, WORDS, (2, STEPS, rows))
    if fused:
        return None
    if name == 'while_loop':
        return Loop(), x[0]
    if name == 'dynamic_gru':
        return Fused(nn.GRU(WIDTH, WIDTH)), x
    if name == 'lstm_layers':
        return Fused(nn.LSTM(WIDTH, WIDTH, 2)), x
    if name == 'attention':
        return Decoder(), (x, torch.randn(rows, STEPS, WIDTH))
    return None
