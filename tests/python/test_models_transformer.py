"""Transformer base, narrow: multi-head attention, smoothed labels, noam decay, padded batches."""
import numpy as np

import paddle.fluid as fluid
from model_checks import check_model

layers = fluid.layers

N_LAYER, N_HEAD, D_MODEL, D_INNER = 6, 4, 32, 64
D_KEY = D_VALUE = D_MODEL // N_HEAD
VOCAB, LENGTH, BATCH = 20, 6, 8
DROPOUT = 0.1


def position_encoding_init(n_position, d_pos_vec):
    position, i = np.arange(n_position)[:, None], np.arange(d_pos_vec)[None]
    angle = position / np.power(10000, 2 * (i // 2) / d_pos_vec)
    return np.where(i % 2, np.cos(angle), np.sin(angle)).astype('float32')


def multi_head_attention(queries, keys, values, attn_bias):
    q = layers.fc(input=queries, size=D_KEY * N_HEAD, bias_attr=False, num_flatten_dims=2)
    k = layers.fc(input=keys, size=D_KEY * N_HEAD, bias_attr=False, num_flatten_dims=2)
    v = layers.fc(input=values, size=D_VALUE * N_HEAD, bias_attr=False, num_flatten_dims=2)

    def split_heads(x):
        reshaped = layers.reshape(x=x, shape=[0, 0, N_HEAD, x.shape[-1] // N_HEAD])
        return layers.transpose(x=reshaped, perm=[0, 2, 1, 3])

    product = layers.matmul(x=layers.scale(x=split_heads(q), scale=D_KEY**-0.5), y=split_heads(k),
                            transpose_y=True)
    weights = layers.softmax(layers.elementwise_add(x=product, y=attn_bias))
    weights = layers.dropout(weights, dropout_prob=DROPOUT, is_test=False)
    context = layers.transpose(layers.matmul(weights, split_heads(v)), perm=[0, 2, 1, 3])
    combined = layers.reshape(x=context, shape=[0, 0, context.shape[2] * context.shape[3]])
    return layers.fc(input=combined, size=D_MODEL, bias_attr=False, num_flatten_dims=2)


def feed_forward(x):
    hidden = layers.fc(input=x, size=D_INNER, num_flatten_dims=2, act='relu')
    return layers.fc(input=hidden, size=D_MODEL, num_flatten_dims=2)


def post_process(prev_out, out):
    """Residual connection and layer normalisation, after dropout."""
    out = layers.dropout(out, dropout_prob=DROPOUT, is_test=False)
    return layers.layer_norm(out + prev_out if prev_out is not None else out,
                             begin_norm_axis=len(out.shape) - 1,
                             param_attr=fluid.initializer.Constant(1.),
                             bias_attr=fluid.initializer.Constant(0.))


def prepare(word, pos, name):
    word_emb = layers.embedding(word, size=[VOCAB, D_MODEL], padding_idx=0,
                                param_attr=fluid.ParamAttr(name=name + '_word_emb',
                                                           initializer=fluid.initializer.Normal(0., D_MODEL**-0.5)))
    word_emb = layers.scale(word_emb, scale=D_MODEL**0.5)
    pos_enc = layers.embedding(pos, size=[LENGTH, D_MODEL],
                               param_attr=fluid.ParamAttr(
                                   name=name + '_pos_enc', trainable=False,
                                   initializer=fluid.initializer.NumpyArrayInitializer(
                                       position_encoding_init(LENGTH, D_MODEL))))
    return layers.dropout(word_emb + pos_enc, dropout_prob=DROPOUT, is_test=False)


def transformer():
    def data(name, shape, dtype='int64'):
        return layers.data(name=name, shape=[BATCH] + shape, dtype=dtype, append_batch_size=False)
    src_word, src_pos = data('src_word', [LENGTH, 1]), data('src_pos', [LENGTH, 1])
    trg_word, trg_pos = data('trg_word', [LENGTH, 1]), data('trg_pos', [LENGTH, 1])
    square = [N_HEAD, LENGTH, LENGTH]
    src_slf_attn_bias = data('src_slf_attn_bias', square, 'float32')
    trg_slf_attn_bias = data('trg_slf_attn_bias', square, 'float32')
    trg_src_attn_bias = data('trg_src_attn_bias', square, 'float32')

    enc = prepare(src_word, src_pos, 'src')
    for _ in range(N_LAYER):
        enc = post_process(enc, multi_head_attention(enc, enc, enc, src_slf_attn_bias))
        enc = post_process(enc, feed_forward(enc))
    dec = prepare(trg_word, trg_pos, 'trg')
    for _ in range(N_LAYER):
        dec = post_process(dec, multi_head_attention(dec, dec, dec, trg_slf_attn_bias))
        dec = post_process(dec, multi_head_attention(dec, enc, enc, trg_src_attn_bias))
        dec = post_process(dec, feed_forward(dec))
    predict = layers.reshape(x=layers.fc(input=dec, size=VOCAB, num_flatten_dims=2), shape=[-1, VOCAB])

    label = layers.data(name='lbl_word', shape=[BATCH * LENGTH, 1], dtype='int64', append_batch_size=False)
    weights = layers.data(name='lbl_weight', shape=[BATCH * LENGTH, 1], append_batch_size=False)
    smoothed = layers.label_smooth(label=layers.one_hot(input=label, depth=VOCAB), epsilon=0.1)
    cost = layers.softmax_with_cross_entropy(logits=predict, label=smoothed, soft_label=True)
    loss = layers.reduce_sum(cost * weights) / layers.reduce_sum(weights)

    def minimize(loss):
        rate = layers.noam_decay(D_MODEL, warmup_steps=10)
        fluid.optimizer.Adam(learning_rate=rate, beta1=0.9, beta2=0.98, epsilon=1e-9).minimize(loss)
    return loss, predict, minimize


def batches(count=2):
    """The target is the source turned round; 0 fills up, 1 starts, 2 ends."""
    random = np.random.RandomState(4)
    for _ in range(count):
        src, trg, label = (np.zeros((BATCH, LENGTH), 'int64') for _ in range(3))
        lengths = random.randint(2, LENGTH, BATCH)
        for row, length in enumerate(lengths):
            words = random.randint(3, 8, length)
            src[row, :length] = words
            trg[row, :length + 1] = [1, *words[::-1]]
            label[row, :length + 1] = [*words[::-1], 2]
        pos = np.tile(np.arange(LENGTH), (BATCH, 1))
        padding = np.where(src == 0, -1e9, 0).astype('float32')[:, None, None, :]
        later = np.triu(np.full((LENGTH, LENGTH), -1e9, 'float32'), 1)
        shape = (BATCH, N_HEAD, LENGTH, LENGTH)
        yield {'src_word': src[:, :, None], 'src_pos': pos[:, :, None], 'trg_word': trg[:, :, None],
               'trg_pos': pos[:, :, None],
               'src_slf_attn_bias': np.broadcast_to(padding, shape).copy(),
               'trg_slf_attn_bias': np.broadcast_to(later, shape).copy(),
               'trg_src_attn_bias': np.broadcast_to(padding, shape).copy(),
               'lbl_word': label.reshape(-1, 1), 'lbl_weight': (label > 0).astype('float32').reshape(-1, 1)}


def test_transformer(tmp_path):
    names = ['src_word', 'src_pos', 'trg_word', 'trg_pos', 'src_slf_attn_bias', 'trg_slf_attn_bias',
             'trg_src_attn_bias']
    check_model(transformer, list(batches()), names, tmp_path, falls_to=0.8)
