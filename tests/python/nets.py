"""Eight small nets, one of each kind that people train, and batches of any size for them.

Each is (build, batch): build() appends the net with its optimizer to the default programs and
returns the loss; batch(n, seed) is a feed of n samples.
"""
import numpy as np

import paddle.fluid as fluid

layers = fluid.layers


def _lod(rows, dtype='int64'):
    lengths = [len(row) for row in rows]
    flat = np.concatenate(rows).reshape(-1, 1).astype(dtype)
    return fluid.create_lod_tensor(flat, [lengths], fluid.CPUPlace())


def _classified(features, label, classes):
    prediction = layers.fc(input=features, size=classes, act='softmax')
    return layers.mean(layers.cross_entropy(input=prediction, label=label))


def mlp():
    x = layers.data(name='x', shape=[12])
    label = layers.data(name='label', shape=[1], dtype='int64')
    hidden = layers.fc(input=layers.fc(input=x, size=16, act='relu'), size=8, act='tanh')
    loss = _classified(hidden, label, 4)
    fluid.optimizer.Adam(learning_rate=layers.exponential_decay(0.01, 2, 0.5),
                         regularization=fluid.regularizer.L2Decay(1e-3),
                         grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5)).minimize(loss)
    return loss


def mlp_batch(n, seed):
    random = np.random.RandomState(seed)
    return {'x': random.rand(n, 12).astype('float32'), 'label': random.randint(0, 4, (n, 1))}


def _conv_bn(x, filters, size, stride=1, groups=1, act=None):
    conv = layers.conv2d(x, filters, size, stride=stride, padding=(size - 1) // 2, groups=groups,
                         bias_attr=False)
    return layers.batch_norm(conv, act=act)


def lenet():
    image = layers.data(name='image', shape=[1, 12, 12])
    label = layers.data(name='label', shape=[1], dtype='int64')
    x = layers.pool2d(_conv_bn(image, 4, 5, act='relu'), 2, 'max', 2)
    x = layers.pool2d(_conv_bn(x, 8, 5, act='relu'), 2, 'max', 2)
    loss = _classified(x, label, 10)
    fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
    return loss


def lenet_batch(n, seed):
    random = np.random.RandomState(seed)
    return {'image': random.rand(n, 1, 12, 12).astype('float32'),
            'label': random.randint(0, 10, (n, 1))}


def se_resnext():
    image = layers.data(name='image', shape=[3, 8, 8])
    label = layers.data(name='label', shape=[1], dtype='int64')
    x = _conv_bn(image, 8, 3, act='relu')
    for stride in (1, 2):
        block = _conv_bn(x, 8, 1, act='relu')
        block = _conv_bn(block, 8, 3, stride, groups=4, act='relu')
        block = _conv_bn(block, 16, 1)
        squeezed = layers.fc(layers.pool2d(block, pool_type='avg', global_pooling=True), 4, act='relu')
        block = layers.elementwise_mul(block, layers.fc(squeezed, 16, act='sigmoid'), axis=0)
        x = layers.elementwise_add(_conv_bn(x, 16, 1, stride), block, act='relu')
    loss = _classified(layers.pool2d(x, pool_type='avg', global_pooling=True), label, 4)
    fluid.optimizer.Momentum(layers.cosine_decay(0.05, 4, 2), 0.9,
                             regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
    return loss


def se_resnext_batch(n, seed):
    random = np.random.RandomState(seed)
    return {'image': random.rand(n, 3, 8, 8).astype('float32'), 'label': random.randint(0, 4, (n, 1))}


WORDS, LENGTH, WIDTH, HEADS = 20, 5, 16, 2


def _attention(queries, keys, bias):
    def heads(x):
        x = layers.fc(x, WIDTH, num_flatten_dims=2, bias_attr=False)
        return layers.transpose(layers.reshape(x, [0, 0, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])
    weights = layers.matmul(heads(queries), heads(keys), transpose_y=True, alpha=(WIDTH // HEADS) ** -0.5)
    weights = layers.softmax(layers.elementwise_add(weights, bias))
    context = layers.transpose(layers.matmul(weights, heads(keys)), [0, 2, 1, 3])
    return layers.fc(layers.reshape(context, [0, 0, WIDTH]), WIDTH, num_flatten_dims=2, bias_attr=False)


def _add_norm(x, y):
    return layers.layer_norm(layers.elementwise_add(x, y), begin_norm_axis=2)


def transformer():
    """The loss is a quotient of sums, and labels and weights have a row per word, not per sample."""
    def words(name):
        ids = layers.data(name=name, shape=[LENGTH, 1], dtype='int64')
        return layers.scale(layers.embedding(ids, size=[WORDS, WIDTH]), WIDTH ** 0.5)
    bias = layers.data(name='bias', shape=[HEADS, LENGTH, LENGTH])
    source, target = words('source'), words('target')
    source = _add_norm(source, _attention(source, source, bias))
    target = _add_norm(target, _attention(target, target, bias))
    target = _add_norm(target, _attention(target, source, bias))
    hidden = layers.fc(target, 2 * WIDTH, num_flatten_dims=2, act='relu')
    target = _add_norm(target, layers.fc(hidden, WIDTH, num_flatten_dims=2))
    predict = layers.reshape(layers.fc(target, WORDS, num_flatten_dims=2), [-1, WORDS])
    label = layers.data(name='next', shape=[1], dtype='int64')
    weights = layers.data(name='weights', shape=[1])
    smooth = layers.label_smooth(layers.one_hot(label, WORDS), epsilon=0.1)
    cost = layers.softmax_with_cross_entropy(predict, smooth, soft_label=True)
    loss = layers.reduce_sum(cost * weights) / layers.reduce_sum(weights)
    fluid.optimizer.Adam(layers.noam_decay(WIDTH, 4), beta2=0.98, epsilon=1e-9).minimize(loss)
    return loss


def transformer_batch(n, seed):
    random = np.random.RandomState(seed)
    words = lambda: random.randint(0, WORDS, (n, LENGTH, 1))
    weights = np.ones((n, LENGTH, 1), 'float32')
    weights[:, -1] = 0  # every sample has as many words that count
    return {'source': words(), 'target': words(), 'next': words().reshape(-1, 1),
            'weights': weights.reshape(-1, 1),
            'bias': random.rand(n, HEADS, LENGTH, LENGTH).astype('float32')}


def stacked_lstm():
    sentence = layers.data(name='words', shape=[1], lod_level=1, dtype='int64')
    label = layers.data(name='label', shape=[1], dtype='int64')
    inputs = [layers.fc(layers.embedding(sentence, size=[30, 8]), 32)]
    inputs.append(layers.dynamic_lstm(inputs[0], size=32)[0])
    for reverse in (True, False):
        fc = layers.fc(inputs, 32)
        inputs = [fc, layers.dynamic_lstm(fc, size=32, is_reverse=reverse)[0]]
    loss = _classified([layers.sequence_pool(x, 'max') for x in inputs], label, 2)
    fluid.optimizer.Adagrad(0.05).minimize(loss)
    return loss


def stacked_lstm_batch(n, seed):
    random = np.random.RandomState(seed)
    return {'words': _lod([random.randint(0, 30, random.randint(1, 7)) for _ in range(n)]),
            'label': random.randint(0, 2, (n, 1))}


def ctr():
    deep = layers.data(name='deep', shape=[1], lod_level=1, dtype='int64')
    wide = layers.data(name='wide', shape=[1], lod_level=1, dtype='int64')
    label = layers.data(name='label', shape=[1], dtype='int64')
    hidden = layers.sequence_pool(layers.embedding(deep, size=[50, 8], is_sparse=True), 'sum')
    hidden = layers.fc(layers.fc(hidden, 16, act='relu'), 8, act='relu')
    linear = layers.sequence_pool(layers.embedding(wide, size=[20, 1], is_sparse=True), 'sum')
    loss = _classified(layers.concat([hidden, linear], axis=1), label, 2)
    fluid.optimizer.SGD(0.1).minimize(loss)
    return loss


def ctr_batch(n, seed):
    random = np.random.RandomState(seed)
    ids = lambda height: _lod([random.randint(0, height, random.randint(1, 5)) for _ in range(n)])
    return {'deep': ids(50), 'wide': ids(20), 'label': random.randint(0, 2, (n, 1))}


def word2vec():
    names = ['first', 'second', 'third', 'fourth', 'next']
    ids = [layers.data(name=name, shape=[1], dtype='int64') for name in names]
    table = fluid.ParamAttr(name='shared_w')
    context = layers.concat([layers.embedding(word, size=[30, 8], is_sparse=True, param_attr=table)
                             for word in ids[:4]], axis=1)
    loss = _classified(layers.fc(context, 16, act='sigmoid'), ids[4], 30)
    fluid.optimizer.Adam(0.01, lazy_mode=True).minimize(loss)
    return loss


def word2vec_batch(n, seed):
    random = np.random.RandomState(seed)
    return {name: random.randint(0, 30, (n, 1))
            for name in ['first', 'second', 'third', 'fourth', 'next']}


def crf_tagger():
    word = layers.data(name='word', shape=[1], lod_level=1, dtype='int64')
    target = layers.data(name='target', shape=[1], lod_level=1, dtype='int64')
    hidden = layers.fc(layers.embedding(word, size=[30, 8]), 16, act='tanh')
    emission = layers.fc(hidden, 5)
    cost = layers.linear_chain_crf(emission, target,
                                   param_attr=fluid.ParamAttr(name='crfw', learning_rate=0.5))
    loss = layers.mean(cost)
    fluid.optimizer.SGD(layers.exponential_decay(0.05, 10, 0.5, staircase=True)).minimize(loss)
    return loss


def crf_tagger_batch(n, seed):
    random = np.random.RandomState(seed)
    lengths = [random.randint(1, 6) for _ in range(n)]
    return {'word': _lod([random.randint(0, 30, k) for k in lengths]),
            'target': _lod([random.randint(0, 5, k) for k in lengths])}


NETS = {
    'mlp': (mlp, mlp_batch),
    'lenet': (lenet, lenet_batch),
    'se_resnext': (se_resnext, se_resnext_batch),
    'transformer': (transformer, transformer_batch),
    'stacked_lstm': (stacked_lstm, stacked_lstm_batch),
    'ctr': (ctr, ctr_batch),
    'word2vec': (word2vec, word2vec_batch),
    'crf_tagger': (crf_tagger, crf_tagger_batch),
}
