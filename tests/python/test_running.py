"""Running results and windows (paddle.tensor.running), and small functions of 2.6 beside them: known values, gradients."""
import itertools

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle import static

X = np.float32([[3, -1, 2, 2, -4], [0.5, 2, 0, 7, 7]])


def run(build, *arrays, gradient=False):
    """What build makes of the arrays; with gradient also d(sum of it * its number)/d(the first)."""
    program = static.Program()
    with static.program_guard(program, static.Program()):
        given = [static.data(f'x{i}', array.shape, str(array.dtype)) for i, array in enumerate(arrays)]
        given[0].stop_gradient = False
        out = build(*given)
        fetches = list(out) if isinstance(out, (list, tuple)) else [out]
        if gradient:
            weights = paddle.to_tensor(np.arange(1, 1 + np.prod(fetches[0].shape)).reshape(fetches[0].shape).astype('float32'))
            fetches = fetches[:1] + static.gradients([paddle.sum(fetches[0] * weights)], [given[0]])
    feed = {f'x{i}': array for i, array in enumerate(arrays)}
    return static.Executor().run(program, feed=feed, fetch_list=fetches)


def differences(function, array):
    """The gradient of sum(function(array) * 1, 2, ...) by central differences in float64."""
    array = array.astype('float64')
    found = np.zeros_like(array)
    for at in np.ndindex(*array.shape):
        step = np.zeros_like(array)
        step[at] = 1e-5
        up, down = function(array + step), function(array - step)
        found[at] = ((up - down) * np.arange(1, 1 + up.size).reshape(up.shape)).sum() / 2e-5
    return found


def logcumsumexp(x, axis):
    return np.log(np.cumsum(np.exp(x), axis=axis))


@pytest.mark.parametrize('ours, numpys', [
    (lambda x: paddle.cumprod(x, 1), lambda x: np.cumprod(x, 1)),
    (lambda x: paddle.cumprod(x, 0), lambda x: np.cumprod(x, 0)),
    (lambda x: paddle.cumprod(x), lambda x: np.cumprod(x)),
    (lambda x: paddle.logcumsumexp(x, -1), lambda x: logcumsumexp(x, -1)),
    (lambda x: paddle.logcumsumexp(x), lambda x: logcumsumexp(x.reshape(-1), 0)),
    (lambda x: paddle.unfold(x, 1, 3, 2), lambda x: np.stack([x[:, 0:3], x[:, 2:5]], 1)),
    (lambda x: paddle.select_scatter(x, x[:, 4], 1, -5), lambda x: np.concatenate([x[:, 4:], x[:, 1:]], 1)),
    (lambda x: paddle.cumulative_trapezoid(x, dx=0.5, axis=1), lambda x: np.cumsum((x[:, 1:] + x[:, :-1]) / 4, 1)),
    (lambda x: paddle.combinations(x[0], 2), lambda x: np.array(list(itertools.combinations(x[0], 2)))),
    (lambda x: paddle.vander(x[1], 3), lambda x: np.vander(x[1], 3))])
def test_values_and_gradients(ours, numpys):
    value, gradient = run(ours, X, gradient=True)
    np.testing.assert_allclose(value, numpys(X.astype('float64')), rtol=1e-5)
    np.testing.assert_allclose(gradient, differences(numpys, X), rtol=2e-3, atol=1e-3)


def test_running_extremes_say_where_they_stand():
    largest, at = run(lambda x: paddle.cummax(x, 1), X)
    np.testing.assert_array_equal(largest, np.maximum.accumulate(X, 1))
    np.testing.assert_array_equal(at, [[0, 0, 0, 0, 0], [0, 1, 1, 3, 4]])  # of equal ones the last
    least, at = run(lambda x: paddle.cummin(x, 0, dtype='int32'), X.astype('int64'))
    np.testing.assert_array_equal(least, np.minimum.accumulate(X.astype('int64'), 0))
    assert at.dtype == np.int32 and at[1].tolist() == [1, 0, 1, 0, 0]


@pytest.mark.parametrize('bins, low, high', [(4, 0, 0), (3, -2, 2), (5, 1, 8)])
def test_histogram_counts_as_numpy_does(bins, low, high):
    wanted, _ = np.histogram(X, bins, (X.min(), X.max()) if low == high else (low, high))
    found, = run(lambda x: paddle.histogram(x, bins, low, high), X)
    assert found.dtype == np.int64 and found.tolist() == wanted.tolist()


def test_histogram_of_equal_elements():
    found, = run(lambda x: paddle.histogram(x, 4), np.full([6], 2.0, 'float32'))
    assert found.tolist() == [0, 0, 6, 0]


def test_correlations():
    found, = run(lambda x: paddle.linalg.corrcoef(x), X)
    np.testing.assert_allclose(found, np.corrcoef(X), rtol=1e-5)


@pytest.mark.parametrize('build, said', [
    (lambda x: paddle.unfold(x, 1, 6, 1), 'dimension 1 has 5 elements'),
    (lambda x: paddle.select_scatter(x, x[0], 0, 2), 'dimension 0 has 2 slices'),
    (lambda x: paddle.cumulative_trapezoid(x, x, 1.0), 'give x or dx'),
    (lambda x: paddle.vander(x), 'give a vector'),
    (lambda x: paddle.combinations(x[0], 9), 'no way to take 9 of 5'),
    (lambda x: paddle.histogram(x, 0), 'bins 0'),
    (lambda x: paddle.cumprod(x, 2), 'axis is 2'),
    (lambda x: static.ctr_metric_bundle(x, x, x), 'ins_tag_weight')])
def test_wrong_uses(build, said):
    with pytest.raises((ValueError, NotImplementedError), match=said):
        run(build, X)


def test_an_extent_must_be_known():
    with static.program_guard(static.Program()), pytest.raises(ValueError, match='declare it'):
        paddle.cumprod(static.data('x', [None, 3], 'float32'), 0)


def test_weight_norm_starts_as_the_weight_and_trains_length_and_direction():
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        startup.random_seed = 3
        x = static.data('x', [None, 4], 'float32')
        layer = paddle.nn.Linear(4, 3)
        plain = layer(x)
        paddle.nn.utils.weight_norm(layer, dim=1)
        normed = layer(x)
        assert sorted(name for name, _ in layer.named_parameters()) == ['bias', 'weight_g', 'weight_v']
        assert layer.weight_g.shape == (3,)
        loss = paddle.mean(paddle.square(normed - 1.0))
        paddle.optimizer.SGD(0.1).minimize(loss)
    exe = static.Executor()
    exe.run(startup)
    feed = {'x': np.random.RandomState(1).rand(8, 4).astype('float32')}
    first = exe.run(main, feed=feed, fetch_list=[plain, normed, loss])
    np.testing.assert_allclose(first[0], first[1], rtol=1e-5)
    for _ in range(50):
        last = exe.run(main, feed=feed, fetch_list=[loss])[0]
    assert last < 0.1 * first[2]
    with pytest.raises(ValueError, match='has no parameter weight'):
        paddle.nn.utils.weight_norm(layer)


def test_deform_conv2d_without_moves_is_a_convolution():
    image, moves = np.random.RandomState(2).rand(2, 3, 6, 6).astype('float32'), np.zeros([2, 18, 4, 4], 'float32')
    one = paddle.nn.initializer.Constant(0.5)

    def build(x, offset):
        return [static.nn.deform_conv2d(x, offset, None, 2, 3, weight_attr=paddle.ParamAttr('w', initializer=one), bias_attr=False),
                static.nn.conv2d(x, 2, 3, param_attr=paddle.ParamAttr('w', initializer=one), bias_attr=False)]
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        out = build(static.data('x', image.shape, 'float32'), static.data('offset', moves.shape, 'float32'))
    exe = static.Executor()
    exe.run(startup)
    deformed, plain = exe.run(main, feed={'x': image, 'offset': moves}, fetch_list=out)
    np.testing.assert_allclose(deformed, plain, rtol=1e-5)


def test_samples_become_batches():
    """As 1.8.5 does it: a list of fields."""
    numbers, kinds = fluid.io.default_collate_fn([(np.float32([1, 2]), 3), (np.float32([4, 5]), 4)])
    assert numbers.tolist() == [[1, 2], [4, 5]] and kinds.tolist() == [3, 4]
    from paddle.fluid.dataloader.collate import default_collate_fn
    assert default_collate_fn([1, 2]).tolist() == [1, 2]


def test_what_there_is_of_devices():
    assert paddle.device.get_all_device_type()[0] == 'cpu' and paddle.device.get_available_device()[0] == 'cpu'
    assert len(paddle.device.get_available_device()) == 1 + paddle.device.cuda.device_count()
    paddle.device.synchronize()
    with pytest.raises(NotImplementedError, match='ordered when a program is compiled'):
        paddle.device.cuda.Stream()
