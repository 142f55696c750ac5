"""Vectors for words, learnt by guessing the next word from the four before it.

    word2vec.py [sparse|dense] [--seed N]

Teaches embeddings: one table looked up at four places, its gradient kept as the few rows that were used
(sparse) or as a whole table (dense), the table read back from the scope, the nearest neighbours of a word.
Data: a text made by rules, 20,000 words to learn from and 2,000 held out. The rules say how likely each
word was, so the best possible perplexity of the held-out text is known: 3.133.
Quality over seeds 1 to 10; the nearest neighbour of 38 to 43 of 43 words is a word of the same kind:
    sparse: perplexity at most 3.27 (3.199 to 3.237)
    dense: perplexity at most 3.27 (3.199 to 3.237)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import made_sets

BEFORE = 4
WIDTH = 24
EPOCHS = 5
BATCH = 100


def windows(words, vocabulary):
    """(the words before, the word that follows) for every place in a text, as numbers."""
    numbers = np.array(vocabulary.encode(words), 'int64')
    return (np.stack([numbers[i:len(numbers) - BEFORE + i] for i in range(BEFORE)], axis=1),
            numbers[BEFORE:].reshape(-1, 1))


def train(folder, training, held_out, words, is_sparse, seed):
    """Trains a model and saves it; returns its guesses for the held-out text and the table of vectors."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = seed
    with fluid.program_guard(main, startup):
        before = fluid.data('before', [None, BEFORE], 'int64')
        following = fluid.data('following', [None, 1], 'int64')
        vectors = fluid.embedding(before, size=[words, WIDTH], is_sparse=is_sparse,
                                  param_attr=fluid.ParamAttr(name='vectors'))
        hidden = fluid.layers.fc(fluid.layers.flatten(vectors), size=64, act='tanh')
        guess = fluid.layers.fc(hidden, size=words, act='softmax')
        loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, following))
        evaluation = main.clone(for_test=True)
        fluid.optimizer.Adagrad(learning_rate=0.05).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    order = np.random.RandomState(seed)
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for rows in np.array_split(order.permutation(len(training[0])), len(training[0]) // BATCH):
            value, = exe.run(main, feed={'before': training[0][rows], 'following': training[1][rows]},
                             fetch_list=[loss])
            losses.append(value.item())
        on_new, answers = exe.run(evaluation, feed={'before': held_out[0], 'following': held_out[1]},
                                  fetch_list=[loss, guess])
        print('epoch %d: perplexity %.3f in training, %.3f held out' %
              (epoch, np.exp(np.mean(losses)), np.exp(on_new.item())))
    fluid.io.save_inference_model(folder, ['before'], [guess], exe, main_program=main)
    return answers, np.array(fluid.global_scope().find_var('vectors').get_tensor())


def predict(folder, before):
    """The probabilities of all words after each row of `before`."""
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return exe.run(model, feed={feeds[0]: before}, fetch_list=fetches)[0]


def nearest(table):
    """For every row the other row that points most nearly the same way."""
    directions = table / np.linalg.norm(table, axis=1, keepdims=True)
    closeness = directions @ directions.T
    np.fill_diagonal(closeness, -1)
    return closeness.argmax(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('gradient', nargs='?', choices=['sparse', 'dense'], default='sparse')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    kinds = made_sets.kind_of_word()
    vocabulary = made_sets.text_words()
    known_text, _ = made_sets.text(20000, seed=1)
    new_text, likelihood = made_sets.text(2000, seed=2)
    held_out = windows(new_text, vocabulary)

    with tempfile.TemporaryDirectory() as folder:
        trained, table = train(folder, windows(known_text, vocabulary), held_out, len(vocabulary),
                               args.gradient == 'sparse', args.seed)
        guess = predict(folder, held_out[0])
    assert np.array_equal(guess, trained)
    print('the loaded model answers as the trained one')
    reached = np.exp(-np.log(np.take_along_axis(guess, held_out[1], axis=1)).mean())
    print('after "%s":' % ' '.join(new_text[:BEFORE]))
    for number in guess[0].argsort()[::-1][:3]:
        print('    %-10s %.2f' % (vocabulary.words[number], guess[0, number]))
    neighbours = dict(zip(vocabulary.words, vocabulary.decode(nearest(table))))
    for word in ('gull', 'trireme', 'steals'):
        print('nearest to "%s": %s' % (word, neighbours[word]))
    print('neighbours of their own kind: %d of %d' %
          (sum(kinds[word] == kinds.get(neighbours[word]) for word in kinds), len(kinds)))
    print('best possible perplexity %.3f' % np.exp(-np.log(likelihood[BEFORE:]).mean()))
    print('held-out perplexity %.3f' % reached)


if __name__ == '__main__':
    main()
