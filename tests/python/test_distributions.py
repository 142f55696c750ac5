"""Distributions of paddle.distribution: densities, moments and distances against scipy, draws against their moments."""
import numpy as np
import pytest
from scipy import stats

import paddle
from paddle import distribution, static

LOC, SCALE, SHARE = np.float32([0.5, -1]), np.float32([0.7, 2]), np.float32([0.3, 0.8])
AROUND = {'Laplace': stats.laplace(LOC, SCALE), 'Gumbel': stats.gumbel_r(LOC, SCALE), 'Cauchy': stats.cauchy(LOC, SCALE),
          'LogNormal': stats.lognorm(SCALE, scale=np.exp(LOC.astype('float64')))}
OF_SHARES = {'Bernoulli': stats.bernoulli(SHARE), 'Geometric': stats.geom(SHARE, loc=-1)}


def numbers(*wanted, feed=None):
    exe = static.Executor()
    exe.run(static.default_startup_program())
    return exe.run(static.default_main_program(), feed=feed or {}, fetch_list=list(wanted))


def made(kind, shift=0.0):
    if kind in AROUND:
        return getattr(distribution, kind)(LOC + np.float32(shift), SCALE + np.float32(shift / 2))
    return getattr(distribution, kind)(np.float32(np.clip(SHARE + shift / 4, 0.05, 0.95)))


def known(kind):
    return AROUND.get(kind) or OF_SHARES[kind]


@pytest.mark.parametrize('kind', [*AROUND, *OF_SHARES])
def test_densities_and_moments(kind):
    at = np.float32([1, 0]) if kind == 'Bernoulli' else np.float32([2, 1])
    mine, wanted = made(kind), known(kind)
    log = wanted.logpdf if kind in AROUND else wanted.logpmf
    logs, surprise = numbers(mine.log_prob(paddle.to_tensor(at)), mine.entropy())
    np.testing.assert_allclose(logs, log(at), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(surprise, wanted.entropy(), rtol=1e-4)
    if kind == 'Cauchy':
        with pytest.raises(ValueError, match='no mean'):
            mine.mean
    else:
        mean, variance = numbers(mine.mean, mine.variance)
        np.testing.assert_allclose(mean, wanted.mean(), rtol=1e-4)
        np.testing.assert_allclose(variance, wanted.var(), rtol=1e-4)


@pytest.mark.parametrize('kind', ['Laplace', 'Gumbel', 'Cauchy'])
def test_shares_below_a_value(kind):
    at = np.float32([0.2, 1])
    below, = numbers(made(kind).cdf(paddle.to_tensor(at)))
    np.testing.assert_allclose(below, known(kind).cdf(at), rtol=1e-5)


@pytest.mark.parametrize('kind', [*AROUND, *OF_SHARES])
def test_draws_are_spread_as_they_should_be(kind):
    static.default_main_program().random_seed = 11
    draws, = numbers(made(kind).sample([4000]))
    assert draws.shape == (4000, 2) and draws.dtype == np.float32
    for share in (0.25, 0.5, 0.75):  # of draws that lie below the place below which so many should
        place = known(kind).ppf(share)
        low, high = (draws < place - 1e-6).mean(axis=0), (draws <= place + 1e-6).mean(axis=0)
        assert (low < share + 0.035).all() and (high > share - 0.035).all(), (share, low, high)


@pytest.mark.parametrize('kind', ['Laplace', 'Bernoulli', 'Geometric'])
def test_distances_are_means_of_differences(kind):
    p, q = made(kind), made(kind, shift=0.6)
    if kind == 'Laplace':
        x = np.linspace(-60, 60, 200001)[:, None]
        first, second = stats.laplace(LOC, SCALE), stats.laplace(LOC + 0.6, SCALE + 0.3)
        wanted = ((first.logpdf(x) - second.logpdf(x)) * first.pdf(x)).sum(axis=0) * (x[1] - x[0])
    else:
        x = np.arange(2 if kind == 'Bernoulli' else 400)[:, None]
        second = SHARE + 0.15
        second = stats.bernoulli(second) if kind == 'Bernoulli' else stats.geom(second, loc=-1)
        wanted = ((known(kind).logpmf(x) - second.logpmf(x)) * known(kind).pmf(x)).sum(axis=0)
    found, itself = numbers(distribution.kl_divergence(p, q), distribution.kl_divergence(p, p))
    np.testing.assert_allclose(found, wanted, rtol=1e-3)
    np.testing.assert_allclose(itself, 0, atol=1e-5)


def test_draws_of_numbers_have_the_shape_alone():
    draws = [distribution.Laplace(0.0, 1.0).sample([3]), distribution.Bernoulli(0.5).sample([3, 2]), distribution.Geometric(0.5).sample([2])]
    assert [found.shape for found in numbers(*draws)] == [(3,), (3, 2), (2,)]
