"""Programs of ten kinds are equal to themselves after a way through bytes, files and clones."""
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers


def data(name, shape, dtype='float32', lod_level=0):
    return layers.data(name=name, shape=shape, dtype=dtype, lod_level=lod_level)


def fit_a_line():
    cost = layers.square_error_cost(layers.fc(data('x', [13]), 1), data('y', [1]))
    return layers.mean(cost), fluid.optimizer.SGD(0.01)


def mlp():
    hidden = layers.fc(data('x', [784]), 32, act='relu')
    hidden = layers.dropout(hidden, 0.2)
    out = layers.fc(hidden, 10, act='softmax')
    return layers.mean(layers.cross_entropy(out, data('y', [1], 'int64'))), fluid.optimizer.Adam()


def conv_net():
    image = data('x', [1, 28, 28])
    block = fluid.nets.simple_img_conv_pool(image, 5, 4, 2, 2, act='relu')
    block = layers.batch_norm(layers.conv2d(block, 8, 3), act='relu')
    out = layers.fc(layers.pool2d(block, global_pooling=True), 10)
    loss = layers.softmax_with_cross_entropy(out, data('y', [1], 'int64'))
    return layers.mean(loss), fluid.optimizer.Momentum(
        layers.piecewise_decay([10, 20], [0.1, 0.01, 0.001]), 0.9,
        regularization=fluid.regularizer.L2Decay(1e-4))


def residual():
    image = data('x', [3, 8, 8])
    branch = layers.batch_norm(layers.conv2d(image, 3, 3, padding=1, bias_attr=False))
    out = layers.elementwise_add(image, branch, act='relu')
    return layers.reduce_mean(out), fluid.optimizer.RMSProp(0.1)


def word2vec():
    words = [data(f'w{i}', [1], 'int64') for i in range(4)]
    vectors = [layers.embedding(word, [50, 8], is_sparse=True,
                                param_attr=fluid.ParamAttr(name='shared')) for word in words]
    out = layers.fc(layers.concat(vectors, axis=1), 50, act='softmax')
    loss = layers.cross_entropy(out, data('next', [1], 'int64'))
    return layers.mean(loss), fluid.optimizer.Adagrad(0.1)


def stacked_lstm():
    emb = layers.embedding(data('words', [1], 'int64', 1), [30, 16])
    hidden, _ = layers.dynamic_lstm(layers.fc(emb, 32), 32)
    pooled = layers.sequence_pool(hidden, 'max')
    out = layers.fc([pooled, layers.sequence_last_step(hidden)], 2, act='softmax')
    return layers.mean(layers.cross_entropy(out, data('y', [1], 'int64'))), \
        fluid.optimizer.Adam(grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))


def tagger():
    emb = layers.embedding(data('words', [1], 'int64', 1), [30, 16])
    feature = layers.fc(emb, 5)
    cost = layers.linear_chain_crf(feature, data('tags', [1], 'int64', 1),
                                   param_attr=fluid.ParamAttr(name='crfw', learning_rate=0.1))
    return layers.mean(cost), fluid.optimizer.SGD(layers.exponential_decay(0.1, 100, 0.5))


def wide_and_deep():
    deep = layers.sequence_pool(
        layers.embedding(data('ids', [1], 'int64', 1), [100, 8], is_sparse=True), 'sum')
    out = layers.fc([layers.fc(deep, 8, act='relu'), data('wide', [4])], 2, act='softmax')
    label = data('y', [1], 'int64')
    layers.auc(out, label)
    return layers.mean(layers.cross_entropy(out, label)), fluid.optimizer.Adagrad(0.1)


def attention():
    x = data('x', [6, 16])
    q, k, v = (layers.fc(x, 16, num_flatten_dims=2, bias_attr=False) for _ in range(3))
    weights = layers.softmax(layers.matmul(q, k, transpose_y=True, alpha=0.25))
    out = layers.layer_norm(layers.matmul(weights, v) + x, begin_norm_axis=2)
    return layers.mean(out), fluid.optimizer.Lamb(layers.noam_decay(16, 10))


def branches():
    x = data('x', [4])
    step = layers.autoincreased_step_counter()
    rate = layers.create_global_var([1], 0.0, 'float32', persistable=True)
    with layers.Switch() as switch:
        with switch.case(layers.less_than(step, layers.fill_constant([1], 'int64', 5))):
            layers.assign(layers.fill_constant([1], 'float32', 0.5), rate)
        with switch.default():
            layers.assign(layers.fill_constant([1], 'float32', 0.1), rate)
    return layers.mean(layers.fc(x, 3, act='tanh')), fluid.optimizer.SGD(rate)


NETS = [fit_a_line, mlp, conv_net, residual, word2vec, stacked_lstm, tagger, wide_and_deep,
        attention, branches]


@pytest.mark.parametrize('net', NETS, ids=lambda net: net.__name__)
def test_a_program_is_itself_after_bytes_files_and_clones(net, tmp_path):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss, optimizer = net()
        test = main.clone(for_test=True)
        optimizer.minimize(loss)
    for program in (main, startup, test):
        content = program.desc.serialize_to_string()
        again = fluid.Program.parse_from_string(content)
        assert again.desc.serialize_to_string() == content
        assert again.to_string(True) == fluid.Program.parse_from_string(content).to_string(True)
        assert program.clone().desc.serialize_to_string() == content
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        before = main.desc.serialize_to_string()
        fluid.save(main, str(tmp_path / 'net'))
        fluid.io.save_persistables(exe, str(tmp_path / 'vars'), main)
        assert main.desc.serialize_to_string() == before, 'saving changed the program'
        with open(tmp_path / 'net.pdmodel', 'rb') as file:
            assert file.read() == before
