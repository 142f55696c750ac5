"""Ten kinds of small pictures by VGG or by a residual net.

    image_classification.py [vgg|resnet]
"""
import random
import sys
import tempfile

import numpy as np
import paddle
import paddle.fluid as fluid

import made_sets

BATCH_SIZE = 32
WIDTH = 8  # the book's nets have 64 (vgg) and 16 (resnet) channels in their first layers, and drop more
GOAL = {'vgg': 0.8, 'resnet': 0.9}


def resnet_cifar10(input, depth=14):
    def conv_bn_layer(input, ch_out, filter_size, stride, padding, act='relu', bias_attr=False):
        tmp = fluid.layers.conv2d(input=input, filter_size=filter_size, num_filters=ch_out,
                                  stride=stride, padding=padding, act=None, bias_attr=bias_attr)
        return fluid.layers.batch_norm(input=tmp, act=act)

    def shortcut(input, ch_in, ch_out, stride):
        if ch_in != ch_out:
            return conv_bn_layer(input, ch_out, 1, stride, 0, None)
        return input

    def basicblock(input, ch_in, ch_out, stride):
        tmp = conv_bn_layer(input, ch_out, 3, stride, 1)
        tmp = conv_bn_layer(tmp, ch_out, 3, 1, 1, act=None, bias_attr=True)
        short = shortcut(input, ch_in, ch_out, stride)
        return fluid.layers.elementwise_add(x=tmp, y=short, act='relu')

    def layer_warp(block_func, input, ch_in, ch_out, count, stride):
        tmp = block_func(input, ch_in, ch_out, stride)
        for i in range(1, count):
            tmp = block_func(tmp, ch_out, ch_out, 1)
        return tmp

    assert (depth - 2) % 6 == 0
    n = (depth - 2) // 6
    conv1 = conv_bn_layer(input=input, ch_out=WIDTH, filter_size=3, stride=1, padding=1)
    res1 = layer_warp(basicblock, conv1, WIDTH, WIDTH, n, 1)
    res2 = layer_warp(basicblock, res1, WIDTH, 2 * WIDTH, n, 2)
    res3 = layer_warp(basicblock, res2, 2 * WIDTH, 4 * WIDTH, n, 2)
    return fluid.layers.pool2d(input=res3, pool_size=8, pool_type='avg', pool_stride=1)


def vgg16_bn_drop(input):
    def conv_block(input, num_filter, groups, dropouts):
        return fluid.nets.img_conv_group(
            input=input, pool_size=2, pool_stride=2, conv_num_filter=[num_filter] * groups,
            conv_filter_size=3, conv_act='relu', conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=dropouts, pool_type='max')

    conv1 = conv_block(input, WIDTH, 2, [0.1, 0])
    conv2 = conv_block(conv1, 2 * WIDTH, 2, 0.0)
    conv3 = conv_block(conv2, 4 * WIDTH, 3, 0.0)
    conv4 = conv_block(conv3, 8 * WIDTH, 3, 0.0)
    conv5 = conv_block(conv4, 8 * WIDTH, 3, 0.0)
    drop = fluid.layers.dropout(x=conv5, dropout_prob=0.1)
    fc1 = fluid.layers.fc(input=drop, size=16 * WIDTH, act=None)
    bn = fluid.layers.batch_norm(input=fc1, act='relu')
    drop2 = fluid.layers.dropout(x=bn, dropout_prob=0.1)
    return fluid.layers.fc(input=drop2, size=16 * WIDTH, act=None)


def train(net_type, save_dirname, epochs):
    images = fluid.layers.data(name='pixel', shape=[3, 32, 32], dtype='float32')
    label = fluid.layers.data(name='label', shape=[1], dtype='int64')
    net = vgg16_bn_drop(images) if net_type == 'vgg' else resnet_cifar10(images)
    predict = fluid.layers.fc(input=net, size=10, act='softmax')
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.mean(cost)
    acc = fluid.layers.accuracy(input=predict, label=label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.002).minimize(avg_cost)

    train_reader = paddle.batch(
        paddle.reader.shuffle(paddle.dataset.cifar.train10(), buf_size=128 * 10), batch_size=BATCH_SIZE)
    test_reader = paddle.batch(paddle.dataset.cifar.test10(), batch_size=BATCH_SIZE)
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    feeder = fluid.DataFeeder(place=place, feed_list=[images, label])

    exe.run(fluid.default_startup_program())
    for epoch in range(epochs):
        for data in train_reader():
            loss, = exe.run(feed=feeder.feed(data), fetch_list=[avg_cost])
        accs, weights = [], []
        for data in test_reader():
            value, = exe.run(program=test_program, feed=feeder.feed(data), fetch_list=[acc])
            accs.append(value[0])
            weights.append(len(data))
        test_acc = np.average(accs, weights=weights)
        print('epoch %d: loss %.4f, test accuracy %.3f' % (epoch + 1, loss[0], test_acc))
    fluid.io.save_inference_model(save_dirname, ['pixel'], [predict], exe)
    sample = np.stack([row[0] for row in paddle.dataset.cifar.test10()()][:8]).reshape(8, 3, 32, 32)
    expected, = exe.run(test_program, feed={'pixel': sample, 'label': np.zeros((8, 1), 'int64')},
                        fetch_list=[predict])
    return test_acc, sample, expected


def infer(save_dirname, sample):
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.core.Scope()):
        inference_program, feed_target_names, fetch_targets = fluid.io.load_inference_model(
            save_dirname, exe)
        results, = exe.run(inference_program, feed={feed_target_names[0]: sample},
                           fetch_list=fetch_targets)
    return results


def main(net_type):
    random.seed(1)  # the order of the samples
    fluid.default_main_program().random_seed = 1
    fluid.default_startup_program().random_seed = 1
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as save_dirname:
        made_sets.cifar10(home)
        acc, sample, expected = train(net_type, save_dirname, epochs=5)
        assert np.array_equal(infer(save_dirname, sample), expected), 'the loaded model differs'
    print('%s: test accuracy %.3f (goal %.2f); the loaded model predicts the same' % (net_type, acc, GOAL[net_type]))
    return 0 if acc >= GOAL[net_type] else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else 'resnet'))
