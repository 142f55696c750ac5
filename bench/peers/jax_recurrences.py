"""The recurrences of bench/steps/fluid_recurrences.py in JAX: scans over what has to be in a loop.
For jax_step.py.
"""

import jax
import numpy
from jax import lax
from jax import numpy as jnp

STEPS, BATCH, WIDTH, WORDS = 30, 32, 512, 5000


def affine(w, inputs, size):
    return w.uniform(inputs, inputs, size), w.uniform(inputs, size)


def zeros(x):
    return jnp.zeros((x.shape[1], WIDTH))


def lstm(w, x):
    (into, bias), (again, more) = affine(w, WIDTH, 4 * WIDTH), affine(w, WIDTH, 4 * WIDTH)

    def cell(state, given):
        hidden, memory = state
        entry, forget, value, exit_ = jnp.split(given + hidden @ again, 4, -1)
        memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(entry) * jnp.tanh(value)
        hidden = jax.nn.sigmoid(exit_) * jnp.tanh(memory)
        return (hidden, memory), hidden

    return lax.scan(cell, (zeros(x), zeros(x)), x @ into + (bias + more))[1]


def gru(w, x):
    (into, bias), (again, more) = affine(w, WIDTH, 3 * WIDTH), affine(w, WIDTH, 3 * WIDTH)

    def cell(hidden, given):
        reset, update, value = jnp.split(given, 3, -1)
        reset_again, update_again, value_again = jnp.split(hidden @ again + more, 3, -1)
        share = jax.nn.sigmoid(update + update_again)
        new = jnp.tanh(value + jax.nn.sigmoid(reset + reset_again) * value_again)
        hidden = share * hidden + (1 - share) * new
        return hidden, hidden

    return lax.scan(cell, zeros(x), x @ into + bias)[1]


def loop(w, x):
    weight, bias = affine(w, WIDTH, WIDTH)
    return lax.scan(lambda state, _: (jnp.tanh(state @ weight + bias), None), x, length=STEPS)[0]


def decoder(w, given):
    x, states = given
    queries, keys = (w.uniform(WIDTH, WIDTH, WIDTH) for _ in range(2))
    inside, (outside, bias) = w.uniform(3 * WIDTH, 2 * WIDTH, WIDTH), affine(w, WIDTH, WIDTH)
    keys = states @ keys

    def cell(before, word):
        shares = jax.nn.softmax(jnp.einsum('bw,bsw->bs', before @ queries, keys))
        seen = jnp.einsum('bs,bsw->bw', shares, states)
        after = jnp.tanh(word + jnp.concatenate([seen, before], 1) @ inside)
        return after, after

    return lax.scan(cell, zeros(x), x @ outside + bias)[1]


def language_model(w, ids):
    table, (into, bias) = w.normal(WORDS, WIDTH), affine(w, WIDTH, WIDTH)
    again, (classes, more) = w.uniform(WIDTH, WIDTH, WIDTH), affine(w, WIDTH, WORDS)

    def cell(before, given):
        after = jnp.tanh(given + before @ again)
        return after, after

    states = lax.scan(cell, jnp.zeros((ids.shape[1], WIDTH)), table[ids] @ into + bias)[1]
    return (states @ classes + more).reshape(-1, WORDS)


def recurrence(name, random, batches):
    """The model, its input and, of the language model, its labels; None where there is none."""
    rows = BATCH * batches
    if name == 'words':
        ids, labels = random.integers(WORDS, size=(2, STEPS, rows), dtype=numpy.int32)
        return language_model, ids, labels.reshape(-1)
    models = {'static_rnn': lstm, 'dynamic_rnn': lstm, 'while_loop': loop, 'gru_cells': gru,
              'dynamic_gru': gru, 'lstm_layers': lambda w, x: lstm(w, lstm(w, x)), 'attention': decoder}
    if name not in models:
        return None
    x = random.standard_normal((STEPS, rows, WIDTH), numpy.float32)
    states = random.standard_normal((rows, STEPS, WIDTH), numpy.float32)
    return models[name], {'while_loop': x[0], 'attention': (x, states)}.get(name, x), None
