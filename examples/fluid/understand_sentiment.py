"""Good or bad: reviews of any length, by convolutions, by layers of LSTM or by a recurrence of one's own.

    understand_sentiment.py [conv|stacked_lstm|dynamic_rnn] [--seed N]

Teaches sequences: sentences of different lengths in one batch without padding, layers that know where each
begins and ends, a recurrent step written out in a DynamicRNN.
Data: 3,000 reviews made by rules and 600 others held out. 'not' turns an opinion round and 'but' outweighs
what came before it: counting kind and unkind words reaches an accuracy of 0.553. A convolution sees five
words at a time and learns 'not'; only a recurrence learns all of it.
Quality over seeds 1 to 10:
    conv: accuracy at least 0.89 (0.913 to 0.942)
    stacked_lstm: accuracy at least 0.962 (0.977 to 0.993)
    dynamic_rnn: accuracy at least 0.976 (0.985 to 0.995)
"""
import argparse
import tempfile

import numpy as np
import paddle.fluid as fluid

import made_sets

EPOCHS = 8
BATCH = 50
WIDTH = 32


def conv(words):
    """Runs of three and of five words, the strongest answer of each filter."""
    return [fluid.nets.sequence_conv_pool(words, num_filters=WIDTH, filter_size=length, act='tanh',
                                          pool_type='max') for length in (3, 5)]


def stacked_lstm(words):
    """A layer that reads forwards, above it one that reads backwards; the last word of each."""
    # dynamic_lstm takes what its four gates get from the input, so it is four times as wide.
    first, _ = fluid.layers.dynamic_lstm(fluid.layers.fc(words, size=4 * WIDTH), size=4 * WIDTH)
    second, _ = fluid.layers.dynamic_lstm(fluid.layers.fc([words, first], size=4 * WIDTH), size=4 * WIDTH,
                                          is_reverse=True)
    return [fluid.layers.sequence_last_step(first), fluid.layers.sequence_first_step(second)]


def dynamic_rnn(words):
    """A state of its own, replaced by a new one as far as a gate opens: a GRU without its reset."""
    walk = fluid.layers.DynamicRNN()
    with walk.block():
        word = walk.step_input(words)
        state = walk.memory(shape=[WIDTH], value=0.0)
        gate = fluid.layers.fc([word, state], size=WIDTH, act='sigmoid')
        proposal = fluid.layers.fc([word, state], size=WIDTH, act='tanh')
        following = state + gate * (proposal - state)
        walk.update_memory(state, following)
        walk.output(following)
    return [fluid.layers.sequence_last_step(walk())]


def batch_of(reviews, vocabulary):
    """Feeds for some reviews: all words below each other, and the length of each review."""
    numbers = [vocabulary.encode(words) for words, _ in reviews]
    column = np.concatenate(numbers).reshape(-1, 1).astype('int64')
    lengths = [[len(review) for review in numbers]]
    return {'words': fluid.create_lod_tensor(column, lengths, fluid.CPUPlace()),
            'good': np.array([[good] for _, good in reviews], 'int64')}


def train(net, folder, reviews, held_out, vocabulary, seed):
    """Trains a net and saves it; returns its probabilities for the held-out reviews."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = seed
    with fluid.program_guard(main, startup):
        words = fluid.data('words', [None, 1], 'int64', lod_level=1)
        good = fluid.data('good', [None, 1], 'int64')
        vectors = fluid.layers.embedding(words, size=[len(vocabulary), WIDTH], is_sparse=True)
        guess = fluid.layers.fc(net(vectors), size=2, act='softmax')
        loss = fluid.layers.mean(fluid.layers.cross_entropy(guess, good))
        evaluation = main.clone(for_test=True)
        fluid.optimizer.Adam(learning_rate=0.005).minimize(loss)

    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(startup)
    order = np.random.RandomState(seed)
    for epoch in range(1, EPOCHS + 1):
        losses = []
        for rows in order.permutation(len(reviews)).reshape(-1, BATCH):
            batch = batch_of([reviews[row] for row in rows], vocabulary)
            value, = exe.run(main, feed=batch, fetch_list=[loss])
            losses.append(value.item())
        answers, = exe.run(evaluation, feed=batch_of(held_out, vocabulary), fetch_list=[guess])
        print('epoch %d: loss %.4f, held out %.3f' % (epoch, np.mean(losses), accuracy(answers, held_out)))
    fluid.io.save_inference_model(folder, ['words'], [guess], exe, main_program=main)
    return answers


def accuracy(guess, reviews):
    return np.mean(guess.argmax(axis=1) == [good for _, good in reviews])


def predict(folder, words):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        model, feeds, fetches = fluid.io.load_inference_model(folder, exe)
        return exe.run(model, feed={feeds[0]: words}, fetch_list=fetches)[0]


def by_counting(words):
    """To compare with: more kind words than unkind ones."""
    balance = sum((word in made_sets.PRAISE) - (word in made_sets.BLAME) for word in words)
    return int(balance > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    nets = {'conv': conv, 'stacked_lstm': stacked_lstm, 'dynamic_rnn': dynamic_rnn}
    parser.add_argument('net', nargs='?', choices=list(nets), default='conv')
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    vocabulary = made_sets.review_words()
    reviews = made_sets.reviews(3600, seed=1)
    known, held_out = reviews[:3000], reviews[3000:]
    own_words = ['the plot is dull but the music is not really cold'.split(), 'the cast is fine'.split()]
    with tempfile.TemporaryDirectory() as folder:
        trained = train(nets[args.net], folder, known, held_out, vocabulary, args.seed)
        guess = predict(folder, batch_of(held_out, vocabulary)['words'])
        opinions = predict(folder, batch_of([(words, 0) for words in own_words], vocabulary)['words'])
    assert np.array_equal(guess, trained)
    print('the loaded model answers as the trained one')
    for words, (_, good) in zip(own_words, opinions):
        print('"%s": good with probability %.3f' % (' '.join(words), good))
    counted = np.mean([by_counting(words) == good for words, good in held_out])
    print('by counting words: accuracy %.3f' % counted)
    print('held-out accuracy %.3f' % accuracy(guess, held_out))


if __name__ == '__main__':
    main()
