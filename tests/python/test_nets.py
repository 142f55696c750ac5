"""fluid.nets: compositions of layers, against numpy where they compute something of their own."""
import numpy as np
import pytest

import paddle.fluid as fluid

layers, nets = fluid.layers, fluid.nets


def op_types(program):
    return [op.type for op in program.global_block().ops]


def test_simple_img_conv_pool(exe, fresh):
    image = layers.data('image', [1, 8, 8])
    out = nets.simple_img_conv_pool(input=image, filter_size=5, num_filters=3, pool_size=2, pool_stride=2,
                                    pool_type='avg', act='relu')
    assert out.shape == (-1, 3, 2, 2)
    assert op_types(fresh[0]) == ['conv2d', 'elementwise_add', 'relu', 'pool2d']
    whole = nets.simple_img_conv_pool(input=image, filter_size=3, num_filters=3, pool_size=1, pool_stride=1,
                                      global_pooling=True, conv_padding=1)
    assert whole.shape == (-1, 3, 1, 1)


def test_img_conv_group_takes_one_setting_or_one_for_each(fresh):
    image = layers.data('image', [1, 8, 8])
    out = nets.img_conv_group(input=image, conv_num_filter=[4, 6], pool_size=2, pool_stride=2,
                              conv_act='relu', conv_with_batchnorm=[True, False],
                              conv_batchnorm_drop_rate=[0.3, 0.0], pool_type='max')
    assert out.shape == (-1, 6, 4, 4)
    assert op_types(fresh[0]) == ['conv2d', 'elementwise_add', 'batch_norm', 'relu', 'dropout',
                                  'conv2d', 'elementwise_add', 'relu', 'pool2d']
    with pytest.raises(Exception, match='conv_padding'):
        nets.img_conv_group(input=image, conv_num_filter=[4, 6], pool_size=2, conv_padding=[1, 1, 1])


def test_sequence_conv_pool(exe, fresh):
    words = layers.data('words', [2], lod_level=1)
    out = nets.sequence_conv_pool(input=words, num_filters=4, filter_size=3, act='tanh', pool_type='sqrt')
    assert op_types(fresh[0]) == ['sequence_conv', 'elementwise_add', 'tanh', 'sequence_pool']
    exe.run(fresh[1])
    fed = fluid.create_lod_tensor(np.ones((5, 2), 'float32'), [[2, 3]], fluid.CPUPlace())
    assert exe.run(feed={'words': fed}, fetch_list=[out])[0].shape == (2, 4)


def test_glu_gates_one_half_with_the_other(exe):
    x = layers.data('x', [6])
    value = np.random.RandomState(1).randn(2, 6).astype('float32')
    out, = exe.run(feed={'x': value}, fetch_list=[nets.glu(x, dim=-1)])
    np.testing.assert_allclose(out, value[:, :3] / (1 + np.exp(-value[:, 3:])), rtol=1e-5)


@pytest.mark.parametrize('heads', [1, 2])
def test_scaled_dot_product_attention(exe, fresh, heads):
    random = np.random.RandomState(2)
    q, k, v = (random.randn(2, rows, 4).astype('float32') for rows in (3, 5, 5))
    names = {'q': q, 'k': k, 'v': v}
    feeds = [layers.data(name, list(a.shape), append_batch_size=False) for name, a in names.items()]
    out = nets.scaled_dot_product_attention(*feeds, num_heads=heads)
    if heads > 1:
        exe.run(fresh[1])
    found, = exe.run(feed=names, fetch_list=[out])
    # With several heads the layer projects first: its three weights are what the startup program drew.
    weights = [np.array(fluid.global_scope().find_var(p.name).get_tensor()) for p in fresh[0].all_parameters()]
    if heads > 1:
        biases, weights = weights[1::2], weights[::2]
        q, k, v = (a @ w + b for a, w, b in zip((q, k, v), weights, biases))
    split = lambda a: a.reshape(2, -1, heads, 4 // heads).transpose(0, 2, 1, 3)
    scores = np.exp(split(q) @ split(k).transpose(0, 1, 3, 2) / np.sqrt(4 // heads))
    expected = (scores / scores.sum(-1, keepdims=True)) @ split(v)
    np.testing.assert_allclose(found, expected.transpose(0, 2, 1, 3).reshape(2, 3, 4), rtol=1e-4, atol=1e-6)
