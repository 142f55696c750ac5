"""SE-ResNeXt-50 with narrow layers on small pictures."""
import numpy as np

import paddle.fluid as fluid
from model_checks import check_model

layers = fluid.layers

FILTERS = [8, 16, 32, 64]  # 128 to 1024 in the paper's net
CARDINALITY = 4
REDUCTION_RATIO = 4
CLASSES = 4


def conv_bn_layer(input, num_filters, filter_size, stride=1, groups=1, act=None):
    conv = layers.conv2d(input=input, num_filters=num_filters, filter_size=filter_size, stride=stride,
                         padding=(filter_size - 1) // 2, groups=groups, act=None, bias_attr=False)
    return layers.batch_norm(input=conv, act=act)


def squeeze_excitation(input, num_channels, reduction_ratio):
    pool = layers.pool2d(input=input, pool_size=0, pool_type='avg', global_pooling=True)
    squeeze = layers.fc(input=pool, size=num_channels // reduction_ratio, act='relu')
    excitation = layers.fc(input=squeeze, size=num_channels, act='sigmoid')
    return layers.elementwise_mul(x=input, y=excitation, axis=0)


def shortcut(input, ch_out, stride):
    if input.shape[1] != ch_out or stride != 1:
        return conv_bn_layer(input, ch_out, 1, stride)
    return input


def bottleneck_block(input, num_filters, stride):
    conv0 = conv_bn_layer(input, num_filters, 1, act='relu')
    conv1 = conv_bn_layer(conv0, num_filters, 3, stride, groups=CARDINALITY, act='relu')
    conv2 = conv_bn_layer(conv1, num_filters * 2, 1)
    scale = squeeze_excitation(conv2, num_filters * 2, REDUCTION_RATIO)
    return layers.elementwise_add(x=shortcut(input, num_filters * 2, stride), y=scale, act='relu')


def se_resnext50():
    image = layers.data(name='image', shape=[3, 32, 32])
    label = layers.data(name='label', shape=[1], dtype='int64')
    conv = conv_bn_layer(image, 8, 7, stride=2, act='relu')
    conv = layers.pool2d(input=conv, pool_size=3, pool_stride=2, pool_padding=1, pool_type='max')
    for block, depth in enumerate([3, 4, 6, 3]):
        for i in range(depth):
            conv = bottleneck_block(conv, FILTERS[block], 2 if i == 0 and block != 0 else 1)
    pool = layers.pool2d(input=conv, pool_size=7, pool_type='avg', global_pooling=True)
    prediction = layers.fc(input=layers.dropout(x=pool, dropout_prob=0.2), size=CLASSES, act='softmax')
    loss = layers.mean(layers.cross_entropy(input=prediction, label=label))

    def minimize(loss):
        rate = layers.cosine_decay(learning_rate=0.05, step_each_epoch=20, epochs=2)
        fluid.optimizer.Momentum(learning_rate=rate, momentum=0.9,
                                 regularization=fluid.regularizer.L2Decay(1e-4)).minimize(loss)
    return loss, prediction, minimize


def pictures():
    """Four kinds, told apart by the bright corner."""
    random = np.random.RandomState(1)
    for _ in range(2):
        label = np.arange(8).reshape(8, 1) % CLASSES
        image = random.uniform(-0.5, 0.5, (8, 3, 32, 32)).astype('float32')
        for i, kind in enumerate(label[:, 0]):
            top, left = 16 * (kind // 2), 16 * (kind % 2)
            image[i, :, top:top + 16, left:left + 16] += 1
        yield {'image': image, 'label': label}


def test_se_resnext50(tmp_path):
    check_model(se_resnext50, list(pictures()), ['image'], tmp_path, falls_to=0.7)
