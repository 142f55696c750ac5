"""Small whole models: ten losses each, and the parameters after them."""
import paddle.fluid as fluid
from case import L, case

O = fluid.optimizer
N = fluid.nets


def _classified(c, scores, classes, batch):
    loss = L.mean(L.cross_entropy(L.softmax(scores), c.ids([batch, 1], classes)))
    return loss


@case
def fit_a_line(c):
    guess = L.fc(c.x([8, 13]), 1)
    return c.train(L.mean(L.square_error_cost(guess, c.x([8, 1]))), O.SGD(0.05))


@case
def mlp_of_digits(c):
    hidden = L.fc(L.fc(c.x([6, 16]), 10, act='relu'), 8, act='relu')
    scores = L.fc(hidden, 4)
    label = c.ids([6, 1], 4)
    loss = L.mean(L.softmax_with_cross_entropy(scores, label))
    rate = L.accuracy(L.softmax(scores), label)
    c.train(loss, O.Adam(0.01))
    return [loss, rate]


@case
def lenet(c):
    hidden = N.simple_img_conv_pool(c.x([3, 1, 12, 12]), 3, 3, 2, 2, act='relu')
    hidden = N.simple_img_conv_pool(hidden, 4, 3, 2, 1, act='relu')
    return c.train(_classified(c, L.fc(hidden, 5), 5, 3), O.Momentum(0.05, 0.9))


@case
def vgg_small(c):
    hidden = N.img_conv_group(c.x([4, 2, 8, 8]), [3, 3], pool_size=2, conv_act='relu', conv_with_batchnorm=True,
                              pool_stride=2)
    hidden = L.batch_norm(L.fc(hidden, 6), act='relu')
    # Not Adam: biases before a batch_norm have gradients of rounding errors, which it makes large.
    return c.train(_classified(c, L.fc(hidden, 4), 4, 4), O.Momentum(0.05, 0.9))


@case
def resnet_small(c):
    def block(x, filters, stride):
        first = L.batch_norm(L.conv2d(x, filters, 3, stride=stride, padding=1, bias_attr=False), act='relu')
        second = L.batch_norm(L.conv2d(first, filters, 3, padding=1, bias_attr=False))
        short = x if stride == 1 else L.batch_norm(L.conv2d(x, filters, 1, stride=stride, bias_attr=False))
        return L.elementwise_add(short, second, act='relu')
    hidden = block(block(c.x([4, 2, 6, 6]), 2, 1), 3, 2)
    hidden = L.pool2d(hidden, pool_type='avg', global_pooling=True)
    return c.train(_classified(c, L.fc(hidden, 3), 3, 4),
                   O.Momentum(0.05, 0.9, regularization=fluid.regularizer.L2Decay(1e-3)))


@case
def squeeze_and_excitation(c):
    x = L.conv2d(c.x([3, 2, 6, 6]), 4, 3, padding=1, groups=2, act='relu')
    squeezed = L.fc(L.pool2d(x, pool_type='avg', global_pooling=True), 2, act='relu')
    excited = L.elementwise_mul(x, L.fc(squeezed, 4, act='sigmoid'), axis=0)
    return c.train(_classified(c, L.fc(excited, 3), 3, 3))


@case
def mobilenet_block(c):
    x = L.conv2d(c.x([2, 3, 8, 8]), 4, 3, stride=2, padding=1, act='relu6')
    x = L.conv2d(x, 4, 3, padding=1, groups=4, bias_attr=False)
    x = L.conv2d(L.batch_norm(x, act='relu6'), 6, 1)
    return c.train(_classified(c, L.fc(x, 3), 3, 2), O.RMSProp(0.005))


@case
def word2vec(c):
    words = [L.embedding(c.ids([5, 1], 12), [12, 4], param_attr='shared_w') for _ in range(4)]
    hidden = L.fc(L.concat(words, axis=1), 8, act='sigmoid')
    return c.train(_classified(c, L.fc(hidden, 12), 12, 5), O.SGD(0.2))


@case
def word2vec_hsigmoid(c):
    words = [L.embedding(c.ids([5, 1], 12), [12, 4], param_attr='shared_w', is_sparse=True) for _ in range(2)]
    hidden = L.fc(L.concat(words, axis=1), 6, act='tanh')
    return c.train(L.mean(L.hsigmoid(hidden, c.ids([5, 1], 12), 12)), O.SGD(0.2))


@case
def recommender(c):
    def tower(*sizes):
        parts = [L.fc(L.embedding(c.ids([4, 1], size), [size, 4]), 4) for size in sizes]
        return L.fc(L.concat(parts, axis=1), 6, act='tanh')
    title = L.embedding(c.ids([7, 1], 10, lod=[[2, 1, 3, 1]]), [10, 4])
    film = L.fc([tower(6), N.sequence_conv_pool(title, 4, 3, act='tanh', pool_type='sum')], 6, act='tanh')
    similar = L.scale(L.cos_sim(tower(5, 3), film), 5.0)
    return c.train(L.mean(L.square_error_cost(similar, c.x([4, 1], 1.0, 5.0))), O.SGD(0.1))


@case
def sentiment_conv(c):
    words = L.embedding(c.ids([9, 1], 15, lod=[[4, 2, 3]]), [15, 4])
    first = N.sequence_conv_pool(words, 4, 3, act='tanh', pool_type='sqrt')
    second = N.sequence_conv_pool(words, 4, 4, act='tanh', pool_type='sqrt')
    return c.train(_classified(c, L.fc([first, second], 2), 2, 3), O.Adagrad(0.05))


@case
def sentiment_stacked_lstm(c):
    words = L.embedding(c.ids([9, 1], 15, lod=[[4, 2, 3]]), [15, 4])
    forward = L.fc(words, 8)
    lstm, _ = L.dynamic_lstm(forward, 8)
    second = L.fc([forward, lstm], 8)
    lstm2, _ = L.dynamic_lstm(second, 8, is_reverse=True)
    pools = [L.sequence_pool(second, 'max'), L.sequence_pool(lstm2, 'max')]
    return c.train(_classified(c, L.fc(pools, 2), 2, 3), O.Adam(0.01))


@case
def sentiment_dynamic_rnn(c):
    words = L.embedding(c.ids([9, 1], 15, lod=[[4, 2, 3]]), [15, 4])
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(words)
        before = rnn.memory(shape=[5], value=0.0)
        hidden = L.fc([word, before], 5, act='tanh')
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    return c.train(_classified(c, L.fc(L.sequence_last_step(rnn()), 2), 2, 3), O.SGD(0.3))


@case
def labels_of_roles_crf(c):
    lengths = [[4, 3]]
    words = L.embedding(c.ids([7, 1], 15, lod=lengths), [15, 4])
    mark = L.embedding(c.ids([7, 1], 2, lod=lengths), [2, 3])
    hidden = L.sums([L.fc(words, 8), L.fc(mark, 8)])
    lstm, _ = L.dynamic_lstm(hidden, 8, use_peepholes=False, candidate_activation='relu')
    emission = L.sums([L.fc(hidden, 4), L.fc(lstm, 4)])
    cost = L.linear_chain_crf(emission, c.ids([7, 1], 4, lod=lengths), param_attr=fluid.ParamAttr(name='crfw'))
    return c.train(L.mean(cost), O.SGD(L.exponential_decay(0.05, 4, 0.5, staircase=True)))


@case
def transformer_layer(c):
    x = L.embedding(c.ids([2, 4, 1], 11), [11, 8])
    x = L.elementwise_add(L.reshape(x, [-1, 4, 8]), c.x([1, 4, 8], fixed=True, grad=False))

    def heads(v):
        return L.transpose(L.reshape(L.fc(v, 8, num_flatten_dims=2, bias_attr=False), [0, 0, 2, 4]), [0, 2, 1, 3])
    weights = L.softmax(L.matmul(heads(x), heads(x), transpose_y=True, alpha=0.5))
    joined = L.reshape(L.transpose(L.matmul(weights, heads(x)), [0, 2, 1, 3]), [0, 0, 8])
    x = L.layer_norm(L.elementwise_add(x, L.fc(joined, 8, num_flatten_dims=2)), begin_norm_axis=2)
    wide = L.fc(L.fc(x, 12, num_flatten_dims=2, act='relu'), 8, num_flatten_dims=2)
    x = L.layer_norm(L.elementwise_add(x, wide), begin_norm_axis=2)
    scores = L.fc(x, 11, num_flatten_dims=2)
    smooth = L.label_smooth(L.reshape(L.one_hot(c.ids([8, 1], 11), 11), [2, 4, 11]), epsilon=0.1)
    cost = L.softmax_with_cross_entropy(scores, smooth, soft_label=True)
    return c.train(L.reduce_mean(cost), O.Adam(L.noam_decay(8, 5), beta1=0.9, beta2=0.98, epsilon=1e-9))


@case
def wide_and_deep(c):
    dense = c.x([5, 3])
    slots = [c.ids([7, 1], 20, lod=[[2, 1, 1, 2, 1]]) for _ in range(2)]
    wide = L.sums([L.sequence_pool(L.embedding(s, [20, 1], is_sparse=True), 'sum') for s in slots])
    deep = L.concat([L.sequence_pool(L.embedding(s, [20, 3], is_sparse=True), 'sum') for s in slots] + [dense], axis=1)
    for size in (6, 4):
        deep = L.fc(deep, size, act='relu')
    score = L.elementwise_add(L.fc(deep, 1), wide)
    label = c.ids([5, 1], 2)
    loss = L.mean(L.sigmoid_cross_entropy_with_logits(score, L.cast(label, 'float32')))
    return c.train(loss, O.Adagrad(0.1))


@case
def factorization_machine(c):
    ids, values = c.ids([4, 3, 1], 20), c.x([4, 3, 1], 0.1, 1.0)
    vectors = L.elementwise_mul(L.reshape(L.embedding(ids, [20, 4]), [-1, 3, 4]), values)
    squared = L.square(L.reduce_sum(vectors, 1))
    crossed = L.scale(L.reduce_sum(L.elementwise_sub(squared, L.reduce_sum(L.square(vectors), 1)), 1, keep_dim=True),
                      0.5)
    label = L.cast(c.ids([4, 1], 2), 'float32')
    loss = L.mean(L.log_loss(L.sigmoid(crossed), label))
    return c.train(loss, O.Ftrl(0.05, l1=0.001, l2=0.001))


@case
def autoencoder(c):
    x = c.x([3, 1, 6, 6])
    code = L.conv2d(x, 3, 3, stride=2, padding=1, act='relu')
    back = L.conv2d_transpose(code, 1, filter_size=4, stride=2, padding=1, act='tanh')
    return c.train(L.mean(L.square_error_cost(back, x)), O.Adamax(0.02))


@case
def siamese(c):
    def side(x):
        return L.fc(L.fc(x, 5, act='relu', param_attr='a', bias_attr='ab'), 3, param_attr='b', bias_attr='bb')
    near = L.reduce_sum(L.square(L.elementwise_sub(side(c.x([4, 6])), side(c.x([4, 6])))), 1, keep_dim=True)
    far = L.relu(L.scale(near, -1.0, bias=1.0))
    label = L.cast(c.ids([4, 1], 2), 'float32')
    loss = L.mean(L.elementwise_add(L.elementwise_mul(label, near),
                                    L.elementwise_mul(L.scale(label, -1.0, bias=1.0), far)))
    return c.train(loss, O.DecayedAdagrad(0.02))


@case
def generative_pair(c):
    real, noise = c.x([4, 3]), c.x([4, 2])
    fake = L.fc(noise, 3, act='tanh', param_attr='g', bias_attr='gb')

    def judge(x):
        return L.fc(L.fc(x, 4, act='leaky_relu', param_attr='d', bias_attr='db'), 1, param_attr='e', bias_attr='eb')
    ones, zeros = L.fill_constant([4, 1], 'float32', 1.0), L.fill_constant([4, 1], 'float32', 0.0)
    real_loss = L.sigmoid_cross_entropy_with_logits(judge(real), ones)
    fake_loss = L.sigmoid_cross_entropy_with_logits(judge(fake), zeros)
    judged = L.mean(L.elementwise_add(real_loss, fake_loss))
    O.Adam(0.01).minimize(judged, parameter_list=['d', 'db', 'e', 'eb'])
    fooled = L.mean(L.sigmoid_cross_entropy_with_logits(judge(fake), ones))
    O.Adam(0.01).minimize(fooled, parameter_list=['g', 'gb'])
    c.steps = 10
    return [judged, fooled]


@case
def ocr_ctc(c):
    image = c.x([2, 1, 6, 8])
    hidden = L.conv2d(image, 2, 3, padding=1, act='relu')
    steps = L.im2sequence(L.pool2d(hidden, 2, 'max', 2), filter_size=[3, 1], stride=[1, 1])
    gates = L.fc(steps, 9)
    hidden = L.dynamic_gru(gates, 3)
    label = c.ids([4, 1], 5, low=1, lod=[[2, 2]], dtype='int32')
    cost = L.warpctc(L.fc(hidden, 6), label, blank=0)
    return c.train(L.reduce_sum(cost), O.Momentum(0.01, 0.9))


@case
def static_rnn_language_model(c):
    words = L.embedding(c.ids([2, 5, 1], 10), [10, 4], param_attr='embedding')
    steps = L.transpose(L.reshape(words, [-1, 5, 4]), [1, 0, 2])
    rnn = L.StaticRNN()
    with rnn.step():
        word = rnn.step_input(steps)
        hidden_before = rnn.memory(shape=[-1, 4], batch_ref=word, init_value=0.0)
        cell_before = rnn.memory(shape=[-1, 4], batch_ref=word, init_value=0.0)
        hidden, cell = L.lstm_unit(word, hidden_before, cell_before)
        rnn.update_memory(hidden_before, hidden)
        rnn.update_memory(cell_before, cell)
        rnn.step_output(hidden)
    out = L.reshape(L.transpose(rnn(), [1, 0, 2]), [-1, 4])
    cost = L.softmax_with_cross_entropy(L.fc(out, 10), c.ids([10, 1], 10))
    return c.train(L.reduce_mean(cost), O.SGD(0.5, grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0)))


@case
def seq2seq_of_cells(c):
    source = fluid.embedding(c.ids([2, 4], 9), [9, 4], param_attr='s')
    _, state = L.rnn(L.GRUCell(4), source)
    target = fluid.embedding(c.ids([2, 3], 9), [9, 4], param_attr='t')
    out, _ = L.rnn(L.GRUCell(4, name='decoder'), target, initial_states=state)
    cost = L.softmax_with_cross_entropy(L.fc(out, 9, num_flatten_dims=2), c.ids([2, 3, 1], 9))
    return c.train(L.reduce_mean(cost), O.Adagrad(0.1))
