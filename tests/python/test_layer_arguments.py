"""Layers take the arguments of fluid 1.8, in its order, where they are not those of their op."""
import inspect

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

SIGNATURES = {
    'scatter': 'input index updates name overwrite',
    'strided_slice': 'input axes starts ends strides',
    'gather_nd': 'input index name',
    'argsort': 'input axis descending name',
    'cumsum': 'x axis exclusive reverse',
    'huber_loss': 'input label delta',
    'bpr_loss': 'input label name',
    'cross_entropy2': 'input label ignore_index',
    'sequence_slice': 'input offset length name',
    'sequence_enumerate': 'input win_size pad_value name',
    'sampling_id': 'x min max seed dtype',
    'uniform_random_batch_size_like':
        'input shape dtype input_dim_idx output_dim_idx min max seed',
    'logical_xor': 'x y out name',
    'resize_bilinear': 'input out_shape scale name actual_shape align_corners align_mode data_format',
    'resize_nearest': 'input out_shape scale name actual_shape align_corners data_format',
    'image_resize':
        'input out_shape scale name resample actual_shape align_corners align_mode data_format',
    'image_resize_short': 'input out_short_len resample',
    'im2sequence': 'input filter_size stride padding input_image_size out_stride name',
    'crop': 'x shape offsets name',
    'pool3d': 'input pool_size pool_type pool_stride pool_padding global_pooling use_cudnn '
              'ceil_mode name exclusive data_format',
    'adaptive_pool2d': 'input pool_size pool_type require_index name',
}


@pytest.mark.parametrize('name', SIGNATURES)
def test_signature(name):
    assert list(inspect.signature(getattr(layers, name)).parameters) == SIGNATURES[name].split()


def run(exe, feed, *fetches):
    results = exe.run(feed=feed, fetch_list=list(fetches), return_numpy=False)
    return [np.array(result) for result in results]


def test_images_of_another_size(exe):
    x = fluid.data('x', [1, 1, 2, 2])
    two = fluid.layers.fill_constant([1], 'int32', 3)
    size = fluid.data('size', [2], dtype='int32')
    times = fluid.data('times', [1])
    image = np.arange(4, dtype='float32').reshape(1, 1, 2, 2)
    found = run(exe, {'x': image, 'size': np.array([3, 3], 'int32'), 'times': np.array([1.5], 'float32')},
                layers.resize_bilinear(x, [3, 3]), layers.resize_bilinear(x, out_shape=size),
                layers.resize_bilinear(x, [two, 3]), layers.resize_bilinear(x, scale=1.5),
                layers.resize_bilinear(x, scale=times), layers.image_resize(x, (3, 3)),
                layers.resize_bilinear(x, actual_shape=size),
                layers.resize_nearest(x, scale=2.0, align_corners=False),
                layers.image_resize(x, [4, 4], resample='NEAREST', align_corners=False))
    three = np.array([[0, .5, 1], [1, 1.5, 2], [2, 2.5, 3]], 'float32')
    for result in found[:7]:
        np.testing.assert_allclose(result[0, 0], three)
    for result in found[7:]:
        np.testing.assert_allclose(result[0, 0], image[0, 0].repeat(2, 0).repeat(2, 1))
    wide = fluid.data('wide', [1, 1, 4, 10])
    assert layers.image_resize_short(wide, 6).shape == (1, 1, 6, 15)
    with pytest.raises(ValueError, match='needs out_shape or scale'):
        layers.resize_nearest(x)
    with pytest.raises(ValueError, match='trilinear_interp takes NCDHW or NDHWC'):
        layers.image_resize(x, [3, 3], resample='TRILINEAR')
    with pytest.raises(ValueError, match='there are BILINEAR, NEAREST, TRILINEAR'):
        layers.image_resize(x, [3, 3], resample='BICUBIC')


def test_windows(exe):
    x = fluid.data('x', [1, 1, 2, 3])
    deep = fluid.data('deep', [1, 1, 2, 2, 2])
    image = np.arange(6, dtype='float32').reshape(1, 1, 2, 3)
    block = np.arange(8, dtype='float32').reshape(1, 1, 2, 2, 2)
    rows, padded, part, same, largest, mean, low, at = run(
        exe, {'x': image, 'deep': block},
        layers.im2sequence(x, filter_size=2, stride=[1, 1]),
        layers.im2sequence(x, [2, 3], padding=[1, 0]), layers.crop(x, [1, 1, 2, 2], [0, 0, 0, 1]),
        layers.crop(x, shape=x), layers.pool3d(deep, 2, pool_stride=2),
        layers.pool3d(deep, pool_type='avg', global_pooling=True),
        *layers.adaptive_pool2d(x, [2, 1], require_index=True))
    np.testing.assert_array_equal(rows, [[0, 1, 3, 4], [1, 2, 4, 5]])
    assert padded.shape == (3, 6)
    np.testing.assert_array_equal(part[0, 0], [[1, 2], [4, 5]])
    np.testing.assert_array_equal(same, image)
    assert largest.item() == 7 and mean.item() == 3.5
    np.testing.assert_array_equal(low[0, 0], [[2], [5]])
    np.testing.assert_array_equal(at[0, 0], [[2], [5]])
    with pytest.raises(ValueError, match='pool_size is -1'):
        layers.pool3d(deep)
    with pytest.raises(ValueError, match="goes with pool_type='max'"):
        layers.adaptive_pool2d(x, 1, 'avg', require_index=True)


def test_elements(exe):
    x = fluid.data('x', [3, 2])
    y = fluid.data('y', [3, 2])
    index = fluid.data('index', [2], dtype='int64')
    pairs = fluid.data('pairs', [2, 2], dtype='int64')
    two = layers.fill_constant([1], 'int32', 2)
    flag = layers.fill_constant([1], 'bool', True)
    other = layers.fill_constant([1], 'bool', False)
    kept = layers.logical_xor(flag, flag, other)
    feed = {'x': np.array([[3, 1], [2, 5], [4, 0]], 'float32'), 'y': np.ones((3, 2), 'float32'),
            'index': np.array([2, 0]), 'pairs': np.array([[0, 1], [2, 0]])}
    placed, taken, there, order, down, sums, before, loss, xor = run(
        exe, feed, layers.scatter(x, index, layers.slice(y, [0], [0], [2])),
        layers.strided_slice(x, [0], [0], [3], [two]), layers.gather_nd(x, pairs),
        *layers.argsort(x, axis=1, descending=True), layers.cumsum(x, 0),
        layers.cumsum(x, 0, True), layers.huber_loss(x, y, 1.0), kept)
    np.testing.assert_array_equal(placed, [[1, 1], [2, 5], [1, 1]])
    np.testing.assert_array_equal(taken, [[3, 1], [4, 0]])
    np.testing.assert_array_equal(there, [1, 4])
    np.testing.assert_array_equal(order, [[3, 1], [5, 2], [4, 0]])
    np.testing.assert_array_equal(down, [[0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(sums, [[3, 1], [5, 6], [9, 6]])
    np.testing.assert_array_equal(before, [[0, 0], [3, 1], [5, 6]])
    np.testing.assert_allclose(loss, [[1.5, 0], [.5, 3.5], [2.5, .5]])
    assert not xor.item()


def test_classes_and_sequences(exe):
    scores = fluid.data('scores', [2, 3])
    label = fluid.data('label', [2, 1], dtype='int64')
    words = fluid.data('words', [None, 1], dtype='int64', lod_level=1)
    offset = fluid.data('offset', [1, 1], dtype='int64')
    probabilities = np.array([[0, 1, 0], [0, 0, 1]], 'float32')
    feed = {'scores': probabilities, 'label': np.array([[1], [2]]), 'offset': np.array([[1]]),
            'words': fluid.create_lod_tensor(np.array([[4], [5], [6]]), [[3]], fluid.CPUPlace())}
    ids, as_int32, entropy, ranked, noise, windows, part = run(
        exe, feed, layers.sampling_id(scores), layers.sampling_id(scores, dtype='int32'),
        layers.cross_entropy2(scores, label), layers.bpr_loss(scores, label),
        layers.uniform_random_batch_size_like(scores, [-1, 4], 'float32', 0, 0, 2.0, 3.0),
        layers.sequence_enumerate(words, 2, 9),
        layers.sequence_slice(words, offset=offset, length=offset))
    np.testing.assert_array_equal(ids, [1, 2])
    assert ids.dtype == np.int64 and as_int32.dtype == np.int32
    np.testing.assert_allclose(entropy, [[0], [0]], atol=1e-6)
    np.testing.assert_allclose(ranked, np.full((2, 1), np.log1p(np.exp(-1))), rtol=1e-5)
    assert noise.shape == (2, 4) and noise.min() >= 2 and noise.max() < 3
    np.testing.assert_array_equal(windows, [[4, 5], [5, 6], [6, 9]])
    np.testing.assert_array_equal(part, [[5]])
