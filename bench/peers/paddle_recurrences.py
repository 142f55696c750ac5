"""The recurrences of bench/steps/fluid_recurrences.py in today's PaddlePaddle: its layers where it
has them, loops written out where not. For paddle_step.py.
"""

import paddle
from paddle import nn
from paddle.nn import functional as F

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000


class Layer(nn.Layer):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Loop(nn.Layer):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, state):
        for _ in range(STEPS):
            state = paddle.tanh(self.layer(state))
        return state


class Decoder(nn.Layer):
    def __init__(self):
        super().__init__()
        self.queries = nn.Linear(WIDTH, WIDTH, bias_attr=False)
        self.keys = nn.Linear(WIDTH, WIDTH, bias_attr=False)
        self.step = nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, x, states):
        keys, before, outs = self.keys(states), paddle.zeros(x.shape[1:]), []
        for i in range(STEPS):
            query = self.queries(before).unsqueeze(1)
            shares = F.softmax(paddle.matmul(query, keys, transpose_y=True))
            seen = paddle.matmul(shares, states).squeeze(1)
            before = paddle.tanh(self.step(paddle.concat([x[i], seen, before], 1)))
            outs.append(before)
        return paddle.stack(outs)


class LanguageModel(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table, self.classes = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.step = nn.SimpleRNN(WIDTH, WIDTH, time_major=True)

    def forward(self, ids):
        return self.classes(self.step(self.table(ids))[0]).flatten(0, 1)


def recurrence(name, random, batches):
    """The model, its inputs and, of the language model, its labels; None where there is none."""
    rows = BATCH * batches
    if name == 'words':
        ids, labels = random.integers(WORDS, size=(2, STEPS, rows))
        return LanguageModel(), [ids], [labels.reshape(-1)]
    layers = {'static_rnn': (nn.LSTM, 1), 'dynamic_rnn': (nn.LSTM, 1), 'gru_cells': (nn.GRU, 1),
              'dynamic_gru': (nn.GRU, 1), 'lstm_layers': (nn.LSTM, 2)}
    x = random.standard_normal((STEPS, rows, WIDTH), 'float32')
    if name in layers:
        layer, count = layers[name]
        return Layer(layer(WIDTH, WIDTH, count, time_major=True)), [x], []
    if name == 'while_loop':
        return Loop(), [x[0]], []
    if name == 'attention':
        return Decoder(), [x, random.standard_normal((rows, STEPS, WIDTH), 'float32')], []
    return None
