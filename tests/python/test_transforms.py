"""Transforms of paddle.distribution: values, inverses, stretching against differences, densities against scipy."""
import numpy as np
import pytest
from scipy import stats

import paddle
from paddle import distribution as d
from paddle import static

CHAIN = ('chain', lambda: d.ChainTransform([d.AffineTransform(0.3, -0.5), d.TanhTransform()]), lambda x: np.tanh(0.3 - 0.5 * x))
STACKED = ('stacked', lambda: d.StackTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)], axis=1),
           lambda x: np.stack([np.exp(x[:, 0]), 1 + 2 * x[:, 1]], 1))
ELEMENTWISE = {name: (make, known) for name, make, known in [
    ('affine', lambda: d.AffineTransform(1.0, np.float32([2, -3])), lambda x: 1 + np.float32([2, -3]) * x),
    ('exp', d.ExpTransform, np.exp), ('power', lambda: d.PowerTransform(3.0), lambda x: x ** 3),
    ('sigmoid', d.SigmoidTransform, lambda x: 1 / (1 + np.exp(-x))), ('tanh', d.TanhTransform, np.tanh), CHAIN, STACKED]}
X = np.float32([[0.4, 1.5], [0.9, 0.2], [2.0, 1.1]])


@pytest.fixture(autouse=True)
def static_mode(environment):
    paddle.enable_static()


def numbers(*wanted):
    return static.Executor().run(static.default_main_program(), fetch_list=list(wanted))


@pytest.mark.parametrize('name', ELEMENTWISE)
def test_elements(name):
    make, known = ELEMENTWISE[name]
    transform = make()
    x = paddle.to_tensor(X)
    y = transform.forward(x)
    found, back, stretch, shrunk = numbers(y, transform.inverse(y), transform.forward_log_det_jacobian(x),
                                           transform.inverse_log_det_jacobian(y))
    at = X.astype('float64')
    np.testing.assert_allclose(found, known(at), rtol=1e-5)
    np.testing.assert_allclose(back, X, rtol=1e-4)
    slope = (known(at + 1e-6) - known(at - 1e-6)) / 2e-6
    np.testing.assert_allclose(stretch, np.log(np.abs(slope)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(shrunk, -stretch, rtol=1e-3, atol=1e-4)
    assert transform.forward_shape([3, 2]) == transform.inverse_shape([3, 2]) == (3, 2)


def broken(x):
    """Shares of a stick, piece by piece."""
    shares, left = [], np.ones(x.shape[:-1])
    for i in range(x.shape[-1]):
        part = 1 / (1 + np.exp(-(x[..., i] - np.log(x.shape[-1] - i))))
        shares.append(part * left)
        left = left - shares[-1]
    return np.stack(shares + [left], -1)


def test_sticks_are_broken_into_shares():
    transform = d.StickBreakingTransform()
    x = paddle.to_tensor(X)
    y = transform.forward(x)
    found, equal, back, stretch = numbers(y, transform.forward(paddle.zeros([1, 3])), transform.inverse(y),
                                          transform.forward_log_det_jacobian(x))
    at = X.astype('float64')
    np.testing.assert_allclose(found, broken(at), rtol=1e-5)
    np.testing.assert_allclose(equal, np.full((1, 4), 0.25), rtol=1e-6)
    np.testing.assert_allclose(back, X, rtol=1e-4)
    for row, value in zip(at, stretch):  # of the shares but the last, which follows from them
        steps = np.eye(2) * 1e-6
        jacobian = [(broken(row + step)[:2] - broken(row - step)[:2]) / 2e-6 for step in steps]
        np.testing.assert_allclose(value, np.log(abs(np.linalg.det(jacobian))), rtol=1e-4)
    assert transform.forward_shape([3, 2]) == (3, 3) and transform.inverse_shape([3, 3]) == (3, 2)


def test_both_origins_of_an_absolute_number():
    low, high, zero, _ = numbers(*d.AbsTransform().inverse(paddle.to_tensor(X)),
                                 *d.AbsTransform().inverse_log_det_jacobian(paddle.to_tensor(X)))
    np.testing.assert_array_equal(low, -X)
    np.testing.assert_array_equal(high, X)
    assert not zero.any()
    with pytest.raises(NotImplementedError, match='one y for several x'):
        d.AbsTransform().forward_log_det_jacobian(paddle.to_tensor(X))


def test_softmax_gives_shares():
    transform = d.SoftmaxTransform()
    shares, again = numbers(transform(paddle.to_tensor(X)), transform(transform.inverse(transform(paddle.to_tensor(X)))))
    np.testing.assert_allclose(shares, np.exp(X) / np.exp(X).sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(again, shares, rtol=1e-5)


def test_shapes_of_elements():
    transform = d.ReshapeTransform((2,), (2, 1))
    x = paddle.to_tensor(X)
    y = transform.forward(x)
    found, back, stretch = numbers(y, transform.inverse(y), transform.forward_log_det_jacobian(x))
    assert found.shape == (3, 2, 1) and back.tolist() == X.tolist() and stretch.tolist() == [0, 0, 0]
    assert transform.forward_shape([5, 2]) == (5, 2, 1) and transform.inverse_shape([5, 2, 1]) == (5, 2)
    with pytest.raises(ValueError, match=r'does not end with \[2\]'):
        transform.forward(paddle.ones([2, 3]))
    with pytest.raises(ValueError, match='holds 6 numbers'):
        d.ReshapeTransform((2, 3), (4,))


def test_dimensions_that_belong_together_add_up():
    x = paddle.to_tensor(X)
    whole, alone, chained = numbers(
        d.IndependentTransform(d.ExpTransform(), 1).forward_log_det_jacobian(x), d.ExpTransform().forward_log_det_jacobian(x),
        d.ChainTransform([d.ExpTransform(), d.StickBreakingTransform()]).forward_log_det_jacobian(x))
    np.testing.assert_allclose(whole, alone.sum(1), rtol=1e-6)
    stick, = numbers(d.StickBreakingTransform().forward_log_det_jacobian(paddle.exp(x)))
    np.testing.assert_allclose(chained, whole + stick, rtol=1e-5)


def test_a_transformed_normal_is_the_log_normal():
    made = d.ExpTransform()(d.Normal(np.float32([0.5, -1]), np.float32([0.7, 2])))
    assert isinstance(made, d.TransformedDistribution)
    static.default_main_program().random_seed = 7
    logs, draws = numbers(made.log_prob(paddle.to_tensor(X)), made.sample([4000]))
    known = stats.lognorm([0.7, 2], scale=np.exp([0.5, -1]))
    np.testing.assert_allclose(logs, known.logpdf(X), rtol=1e-4)
    for share in (0.25, 0.5, 0.75):
        np.testing.assert_allclose((draws < known.ppf(share)).mean(0), share, atol=0.03)


def test_independent_draws_have_one_density():
    base = d.Normal(np.zeros((3, 2), 'float32'), np.ones((3, 2), 'float32'))
    made = d.Independent(base, 1)
    logs, surprise, all_logs, all_surprise = numbers(made.log_prob(paddle.to_tensor(X)), made.entropy(),
                                                     base.log_prob(paddle.to_tensor(X)), base.entropy())
    np.testing.assert_allclose(logs, all_logs.sum(1), rtol=1e-6)
    np.testing.assert_allclose(surprise, all_surprise.sum(1), rtol=1e-6)


def test_distances_can_be_registered(monkeypatch):
    monkeypatch.setattr(d, '_distances', {})

    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, d.Normal)
    def far(p, q):
        return 'by the function'
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)) == 'by the function'
    same, = numbers(d.kl_divergence(d.Normal(0.0, 1.0), Mine(0.0, 1.0)))
    assert float(same) == 0
    with pytest.raises(TypeError, match='classes of Distributions'):
        d.register_kl(int, Mine)


@pytest.mark.parametrize('use, says', [
    (lambda: d.ChainTransform([]), 'one at least'), (lambda: d.TransformedDistribution(3, []), 'base must be a Distribution'),
    (lambda: d.IndependentTransform(3, 1), 'base must be a Transform'), (lambda: d.Independent(3, 1), 'base must be')])
def test_types_that_do_not_fit(use, says):
    with pytest.raises(TypeError, match=says):
        use()


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match='2 slices for 1'):
        d.StackTransform([d.ExpTransform()], 1).forward(paddle.to_tensor(X))
    with pytest.raises(ValueError, match='element by element'):
        d.StackTransform([d.SoftmaxTransform()])
    for make in (lambda: d.IndependentTransform(d.ExpTransform(), 0), lambda: d.Independent(d.Normal(0.0, 1.0), 0)):
        with pytest.raises(ValueError, match='reinterpreted_batch_rank is 0'):
            make()
