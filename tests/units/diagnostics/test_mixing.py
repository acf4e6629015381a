"""R-hat, effective draws and errors of many scalars at once: against ArviZ, and by simulation."""

import arviz
import numpy as np
import pytest
from scipy.signal import lfilter

from tacthmc.diagnostics._limits import MIN_ESS_PER_CHAIN, fewest_effective, rhat_limits
from tacthmc.diagnostics._mixing import ess, mean_ess, mixing, rhat, tail_ess
from tacthmc.diagnostics._moments import Moments
from tacthmc.diagnostics._statistics import statistics
from tacthmc.diagnostics._weights import influence, weighted_mean, weighted_rhat, weighted_sd


def autoregressive(rng, chains, draws, count, rho):
    """Stationary chains with a standard normal law, (chain, draw, scalar)."""
    noise = rng.normal(size=(count, chains, draws)) * np.sqrt(1 - rho**2)
    noise[..., 0] /= np.sqrt(1 - rho**2)
    return np.moveaxis(lfilter([1], [1, -rho], noise, axis=-1), 0, 2)


def awkward(rng, chains, draws, rho):
    """Scalars with ties, heavy tails, large offsets, and chains that differ."""
    x = autoregressive(rng, chains, draws, 8, rho)
    x[..., 1] = np.round(x[..., 1])
    x[..., 2] = np.exp(3 * x[..., 2])
    x[..., 3] += np.arange(chains)[:, None]
    x[..., 4] *= 1 + np.arange(chains)[:, None]
    x[..., 5] += 1e6
    x[..., 6] = x[..., 6] > 0
    x[..., 7] = rng.standard_cauchy(size=(chains, draws))
    return x


@pytest.mark.parametrize("rho", [-0.8, 0.0, 0.97])
@pytest.mark.parametrize(("chains", "draws"), [(4, 300), (2, 101), (1, 50), (3, 33)])
def test_equal_to_arviz_to_rounding(chains, draws, rho):
    values = awkward(np.random.default_rng(0), chains, draws, rho)
    found, whole = mixing(values), statistics(values)
    for k in range(values.shape[2]):
        one = values[..., k]
        expected = [arviz.ess(one, method=kind) for kind in ("bulk", "tail", "mean")]
        assert np.allclose([found.bulk[k], found.tail[k], found.mean[k]], expected, rtol=1e-9)
        assert np.allclose([ess(one), tail_ess(one), mean_ess(one)], expected, rtol=1e-9)
        assert np.isclose(whole.mcse[k], arviz.mcse(one), rtol=1e-9)
        assert np.isclose(whole.sd[k], one.std(ddof=1), rtol=1e-9)
        quantiles = [whole.q5[k], whole.median[k], whole.q95[k]]
        assert np.allclose(quantiles, np.quantile(one, [0.05, 0.5, 0.95]), rtol=1e-9)
        if chains > 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                expected = arviz.rhat(one)
            assert np.isclose(found.rhat[k], expected, rtol=1e-9)
            assert np.isclose(rhat(one), expected, rtol=1e-9)
        else:
            assert np.isnan(found.rhat[k])
            assert np.isnan(rhat(one))


def test_what_cannot_be_computed_is_nan():
    values = np.random.default_rng(0).normal(size=(4, 100, 4))
    values[1, 7, 1], values[:, :, 2], values[0, 0, 3] = np.nan, 3.0, np.inf
    found = statistics(values)
    assert np.isfinite(found.rhat[0])
    for k in (1, 2, 3):
        assert np.isnan(found.rhat[k])
        assert np.isnan(found.ess[k])
    assert found.mean[2] == 3.0
    few = statistics(values[:, :3])
    assert np.isfinite(few.mean[0])
    assert np.isnan(few.ess).all()
    assert np.isnan(ess(values[:, :, 1]))
    assert np.isnan(statistics(values[:, :0]).mean).all()


def test_blocks_of_scalars_change_nothing(monkeypatch):
    values = autoregressive(np.random.default_rng(0), 4, 50, 7, 0.5)
    values[0, 0, 3] = np.nan
    whole = statistics(values)
    monkeypatch.setattr("tacthmc.diagnostics._statistics.MAX_BLOCK", 500)
    parts = statistics(values)
    for a, b in zip(whole.columns, parts.columns, strict=True):
        assert np.array_equal(a, b, equal_nan=True)
    assert np.array_equal(whole.rhat, parts.rhat, equal_nan=True)


def test_weights():
    rng = np.random.default_rng(0)
    values, weights = autoregressive(rng, 4, 400, 3, 0.7), rng.gamma(2.0, size=(4, 400))
    found = statistics(values, weights)
    for k in range(3):
        one = values[..., k]
        assert np.isclose(found.mean[k], weighted_mean(one, weights))
        assert np.isclose(found.sd[k], weighted_sd(one, weights))
        assert np.isclose(found.location.rhat[k], weighted_rhat(one, weights))
        shares = influence(one, weights)
        assert np.isclose(found.mcse[k], shares.std() / np.sqrt(mean_ess(shares)))
        assert np.isclose(found.ess[k], (found.sd[k] / found.mcse[k]) ** 2)
    # Equal weights are none, up to how quantiles are interpolated.
    even, plain = statistics(values, np.ones((4, 400))), statistics(values)
    for column in ("mean", "q5", "median", "q95", "mcse"):
        assert np.allclose(getattr(even, column), getattr(plain, column), atol=0.02), column
    assert np.allclose(even.ess_tail, plain.ess_tail, rtol=0.1)
    wide = values * np.array([1.0, 3.0, 1.0, 1.0])[:, None, None]
    assert np.all(statistics(wide, weights).rhat > 1.1)


def test_moments_are_those_of_all_draws():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 60, 5)) * 0.1 + 1000.0
    values[..., 1] += 5 * (rng.random((3, 60)) < 0.4)
    values[:, :, 2] = 7.0
    values[2, :, 3] = 1000.0
    values[1, 9, 4] = np.nan
    moments = Moments(values[:, :9].mean(axis=(0, 1)), np.full(5, 0.2))
    for chain in range(3):
        for half in (values[chain, :30], values[chain, 30:]):
            for block in (half[:7], half[7:]):
                moments.bounds(block)
                moments.add(block, np.ones(len(block)))
            moments.end_half(chain)
    found = moments.screened()
    assert found.constant.tolist() == [False, False, True, False, False]
    assert found.lost.tolist() == [False, False, False, False, True]
    assert found.still.tolist() == [-1, -1, -1, 2, -1]
    halves = np.concatenate([values[:, :30, 0], values[:, 30:, 0]])
    place = np.sqrt(1 + halves.mean(axis=1).var(ddof=1) / halves.var(axis=1).mean())
    assert np.isclose(found.rhat[0], place, atol=0.1)
    assert found.rhat[0] >= place - 1e-9
    assert found.bimodality[0] < 0.45
    assert found.bimodality[1] > 0.9


@pytest.mark.parametrize(
    ("scalars", "runs"),
    [(10, 200), (1000, 3), pytest.param(100_000, 1, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(("chains", "rho", "draws"), [(4, 0.0, 150), (2, 0.5, 600)])
def test_right_runs_are_within_the_limits(chains, rho, draws, scalars, runs):
    """Chains of one law, with about as many effective draws as are wanted.

    A run fails by chance with a probability of 0.2%: of 200 runs more than 5 with 1e-5.
    """
    rng, above, fewest = np.random.default_rng(scalars), 0, []
    for _ in range(runs):
        worst, least = 0.0, np.inf
        for begin in range(0, scalars, 1000):
            count = min(1000, scalars - begin)
            found = mixing(autoregressive(rng, chains, draws, count, rho))
            for part in (found.location, found.scale):
                limits = rhat_limits(part.within, chains, draws, scalars)
                worst = max(worst, float(np.max(part.rhat / limits)))
                least = min(least, float(part.within.min()))
        above += worst > 1
        fewest.append(least)
    assert above <= (5 if runs > 100 else 0)
    wanted = chains * draws * (1 - rho) / (1 + rho) / (MIN_ESS_PER_CHAIN * chains)
    assert np.mean(np.array(fewest) < fewest_effective(chains, scalars) * wanted) <= 0.75


@pytest.mark.parametrize("scalars", [10, 1000, 100_000])
def test_chains_that_differ_are_above_the_limits(scalars):
    """Among 100,000 scalars too, a chain that is off by 1.5 sd or twice as wide is seen."""
    rng = np.random.default_rng(0)
    moved, wide = autoregressive(rng, 4, 500, 20, 0.3), autoregressive(rng, 4, 500, 20, 0.3)
    moved[2] += 1.5
    wide[1] *= 2.0
    for values, part in ((moved, "location"), (wide, "scale")):
        found = getattr(mixing(values), part)
        assert np.all(found.rhat > rhat_limits(found.within, 4, 500, scalars))
