"""The next word from the four before it, with a shared sparse embedding.

    word2vec.py [sparse|dense]
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid

import datasets

EMBED_SIZE = 32
HIDDEN_SIZE = 128
N = 5
BATCH_SIZE = 32
GOAL = 0.6  # cross entropy per word; guessing evenly gives about 3.5


def ngram_net(words, dict_size, is_sparse):
    embeddings = [
        fluid.layers.embedding(input=word, size=[dict_size, EMBED_SIZE], dtype='float32',
                               is_sparse=is_sparse, param_attr='shared_w') for word in words[:-1]
    ]
    concat_embed = fluid.layers.concat(input=embeddings, axis=1)
    hidden1 = fluid.layers.fc(input=concat_embed, size=HIDDEN_SIZE, act='sigmoid')
    predict_word = fluid.layers.fc(input=hidden1, size=dict_size, act='softmax')
    cost = fluid.layers.cross_entropy(input=predict_word, label=words[-1])
    return predict_word, fluid.layers.mean(cost)


def train(is_sparse, save_dirname, epochs=6):
    dictionary = datasets.word_dict()
    names = ['firstw', 'secondw', 'thirdw', 'fourthw', 'nextw']
    words = [fluid.layers.data(name=name, shape=[1], dtype='int64') for name in names]
    predict_word, avg_cost = ngram_net(words, len(dictionary), is_sparse)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adagrad(learning_rate=0.1).minimize(avg_cost)

    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(feed_list=words, place=place)
    train_reader = paddle.batch(
        paddle.reader.shuffle(datasets.ngrams(dictionary, N), buf_size=8000), BATCH_SIZE)
    test_reader = paddle.batch(datasets.ngrams(dictionary, N, train=False), BATCH_SIZE)

    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        for data in train_reader():
            loss, = exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[avg_cost])
        losses = [
            exe.run(test_program, feed=feeder.feed(data), fetch_list=[avg_cost])[0][0]
            for data in test_reader()
        ]
        print('epoch %d: train loss %.3f, test loss %.3f' % (epoch + 1, loss[0], np.mean(losses)))
    fluid.io.save_inference_model(save_dirname, names[:-1], [predict_word], exe)
    sample = {name: np.array([[i]], 'int64') for name, i in zip(names, range(4))}
    expected, = exe.run(test_program, feed=dict(sample, nextw=np.zeros((1, 1), 'int64')),
                        fetch_list=[predict_word])
    return np.mean(losses), sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        program, _, fetch_targets = fluid.io.load_inference_model(save_dirname, exe)
        result, = exe.run(program, feed=sample, fetch_list=fetch_targets)
    return result


def main(kind):
    random.seed(1)  # the order of the samples
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as save_dirname:
        loss, sample, expected = train(kind == 'sparse', save_dirname)
        assert np.array_equal(infer(save_dirname, sample), expected), 'the loaded model differs'
    print('%s: test loss %.3f (goal %.2f); the loaded model predicts the same' % (kind, loss, GOAL))
    return 0 if loss < GOAL else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'sparse'))
