"""Continuously tempered HMC: exact at large steps, both estimators right, and log Z.

Statistical checks have the suite's failure probability (2e-7 each, ``tests/budget.py``), and no
allowance for the step size: there is a Metropolis test.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal, t

import tacthmc
from tacthmc import Keep
from tacthmc.samplers import ct_hmc, gaussian_base, with_base
from tacthmc.samplers._conditional_weights import log_normalizer
from tacthmc.targets import GaussianMixture
from tests.budget import PER_CHECK, assert_mean

KEY = jax.random.key(0)
WEIGHTS, SD, AWAY = np.array([0.8, 0.2]), 0.7, 3.0
LOG_Z, GUESS = -7.5, -7.0
STEPS = 5_000
SHARE = 0.2
ALL = Keep(every=1, temperatures="all")
LARGE, SMALL = 1.2, 0.05
"""Step sizes η. At the large one, the leapfrog's own variance within modes would be 1/(1 − ηω²/4) =
2.6 times the truth."""


def pair(size):
    """Two modes that HMC by itself does not connect, with exp(−U) = Z·density."""
    means = np.zeros((2, size), np.float32)
    means[:, 0] = -AWAY, AWAY
    mixture = GaussianMixture(jnp.asarray(means), jnp.asarray(WEIGHTS, jnp.float32), SD)
    return tacthmc.potential(lambda x: mixture(x) - LOG_Z)


def run_pair(size=2, step_size=LARGE, plateau=SHARE, keep=ALL):
    return _run_pair(size, step_size, plateau, keep)


@cache
def _run_pair(size, step_size, plateau, keep):
    target = with_base(pair(size), gaussian_base(0.0, 3.0))
    sampler = ct_hmc(step_size, 10, log_evidence=GUESS, plateau=plateau)
    start = jnp.full(size, AWAY)
    return tacthmc.sample(KEY, sampler, target, start, STEPS, 16, keep=keep)


def moments(draws):
    """Functions with known means, by name."""
    first = draws[..., 0] < 0
    nearest = np.where(first, -AWAY, AWAY)
    found = {
        "weight": (first, WEIGHTS[0]),
        "mean": (draws[..., 0], AWAY * (WEIGHTS[1] - WEIGHTS[0])),
        "square": (draws[..., 0] ** 2, AWAY**2 + SD**2),
        # Draws are assigned to the nearest mode: of the 1e-5 beyond the ridge, nothing is seen.
        "within": ((draws[..., 0] - nearest) ** 2, SD**2),
    }
    if draws.shape[-1] > 1:
        found["second square"] = (draws[..., 1] ** 2, SD**2)
    return found


def assert_all_temperatures(run, values, truth, what):
    """E[w(f − truth)] = 0 where all draws are kept, with the weights of the target."""
    weights = np.exp(run.sampler.log_weights(run.after_warmup("xi_energy")))
    assert_mean(weights * (values - truth), 0.0, what=what)


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(("size", "step_size"), [(2, LARGE), slow(1, LARGE), slow(2, SMALL)])
def test_a_mixture_at_any_step_size(size, step_size):
    run = run_pair(size, step_size)
    assert not run.failures
    assert run.round_trips.min() > 20
    rate = np.asarray(run.sampler.acceptance_rate(run.state))
    assert np.all(rate < 0.9 if step_size == LARGE else rate > 0.95), rate
    cold = run.after_warmup("temperature") == 1
    for name, (values, truth) in moments(run.draws).items():
        # Draws on the plateau, and all draws with the weights of the conditional density.
        assert_mean(cold * (values - truth), 0.0, what=f"{name} on the plateau")
        assert_all_temperatures(run, values, truth, f"{name} at all temperatures")


@pytest.mark.slow
def test_draws_on_the_plateau_are_kept():
    run = run_pair(keep=Keep(every=1))
    assert np.all(run.stats["lambda"] == 1)
    assert np.array_equal(run.counts, (run.after_warmup("temperature") == 1).sum(axis=1))
    for name, (values, truth) in moments(run.draws).items():
        assert_mean(values, truth, what=name)


@pytest.mark.parametrize("plateau", [0.0, SHARE])
def test_the_evidence(plateau):
    """Z/ζ = E[w1]/E[w0]: the difference has mean zero, and the error is of the right size."""
    run = run_pair(plateau=plateau)
    energies, sampler = run.after_warmup("xi_energy"), run.sampler
    delta = energies + GUESS
    zero = np.exp(-log_normalizer(delta, plateau))
    one = np.exp(-delta) * zero
    assert_mean(one - np.exp(LOG_Z - GUESS) * zero, 0.0, what="Z/ζ")
    found = sampler.evidence(energies)
    bound = t.isf(PER_CHECK / 2, run.num_chains - 1)
    assert abs(found.value - LOG_Z) <= bound * found.error
    assert found.error < 0.05
    alone = sampler.evidence(energies[0])
    assert abs(alone.value - LOG_Z) < 1.0
    assert np.isnan(alone.error)


def test_the_papers_map_has_no_plateau():
    """λ = σ(u): no draw at unit temperature, and the same estimates."""
    run = run_pair(plateau=0.0)
    assert np.all(run.plateau_share == 0)
    for name, (values, truth) in moments(run.draws).items():
        assert_all_temperatures(run, values, truth, name)


def test_weights_of_the_base():
    run = run_pair()
    base = np.exp(run.sampler.log_weights(run.after_warmup("xi_energy"), inverse_temperature=0.0))
    assert_mean(base * (run.draws[..., 0] ** 2 - 9.0), 0.0, what="variance of the base")


@pytest.mark.slow
def test_weights_with_learned_normalizers():
    run = run_pair()
    energies, sampler = run.stats["tempered_energy"], run.sampler
    assert np.allclose(energies, run.after_warmup("xi_energy"), atol=1e-4)
    # The multistate equations learn the normalizers that the conditional density knows.
    known, learned = sampler.log_weights(energies), run.log_weights
    seen = np.exp(known) > 1e-3
    assert np.abs(known - learned)[seen].max() < 0.2
    assert abs(run.expectation(lambda x: x[0] < 0.0) - WEIGHTS[0]) < 0.05


def test_without_energies_the_inverse_temperature_is_uniform():
    """The target is the base: λ is 1 with probability a, and uniform otherwise."""
    base = gaussian_base(0.0, 1.0)
    keep, target = Keep(every=1), with_base(base, base)
    run = tacthmc.sample(KEY, ct_hmc(0.1, 10), target, jnp.zeros(2), 4_000, 8, keep=keep)
    lam = 1 / run.after_warmup("temperature")
    assert_mean(lam == 1, SHARE, what="share of the plateau")
    for cut in (0.25, 0.5, 0.75):
        assert_mean(lam < cut, (1 - SHARE) * cut, what=f"share below {cut}")


def test_the_prior_is_the_base_of_a_posterior():
    """A conjugate Gaussian: posterior moments and the log evidence are known."""
    data = np.random.default_rng(0).normal(1.0, 1.0, (10, 1)).astype(np.float32)
    target = tacthmc.temper_likelihood(
        tacthmc.posterior(
            lambda m: -0.5 * jnp.sum(m**2) / 4 - 0.5 * np.log(2 * np.pi * 4),
            lambda m, x: jnp.sum(-0.5 * (x - m) ** 2 - 0.5 * np.log(2 * np.pi)),
            jnp.asarray(data),
            batch_size=10,
        )
    )
    truth = multivariate_normal(np.zeros(10), np.eye(10) + 4.0).logpdf(data[:, 0])
    sampler = ct_hmc(0.03, 10, log_evidence=round(truth))
    keep = Keep(every=1)
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(1), 6_000, 8, keep=keep)
    assert_mean(run.draws[..., 0], data.sum() / 10.25, what="posterior mean")
    assert_mean((run.draws[..., 0] - data.sum() / 10.25) ** 2, 1 / 10.25, what="posterior variance")
    found = sampler.evidence(run.after_warmup("xi_energy"))
    assert abs(found.value - truth) <= t.isf(PER_CHECK / 2, 7) * found.error
    assert found.error < 0.1


def test_a_trajectory_is_reversible():
    """Back with reversed momenta, to the place it came from."""
    target, sampler = with_base(pair(2), gaussian_base(0.0, 3.0)), ct_hmc(0.1, 20)
    state = sampler.init(KEY, jnp.array([-2.0, 0.5]))
    momentum = sampler._fresh(sampler.noise(KEY, state.position), sampler._scales(state))

    @jax.jit
    def there_and_back(momentum):
        scales = sampler._scales(state)
        start = sampler._point(target, state.position, state.control)
        end, arrived = sampler.trajectory(target, start, momentum, scales)
        reversed_momentum = jax.tree.map(jnp.negative, arrived)
        return start, end, *sampler.trajectory(target, end, reversed_momentum, scales)

    start, end, back, left = there_and_back(momentum)
    assert np.abs(end.position - start.position).max() > 0.5
    assert np.allclose(back.position, start.position, atol=1e-4)
    assert np.isclose(back.control, start.control, atol=1e-4)
    assert np.allclose(left.theta, -momentum.theta, atol=1e-4)


@pytest.mark.slow
def test_rejected_is_unmoved():
    """At a hopeless step size the chain repeats its place, and stays finite."""
    target = with_base(tacthmc.potential(lambda x: jnp.sum(x**4)), gaussian_base(0.0, 1.0))
    run = tacthmc.sample(KEY, ct_hmc(1e4, 10), target, jnp.ones(2), 100, 2, keep=ALL)
    assert not run.failures
    assert np.all(run.sampler.acceptance_rate(run.state) == 0)
    assert np.all(run.draws == 1)


@pytest.mark.parametrize("plateau", [0.0, 0.2])
def test_the_normalizer_of_the_conditional_density(plateau):
    for delta in (-30.0, -1.0, -1e-6, 0.0, 1e-3, 2.0, 40.0):
        uniform, _ = quad(lambda lam, d=delta: np.exp(-lam * d), 0, 1)
        truth = np.log((1 - plateau) * uniform + plateau * np.exp(-delta))
        assert np.isclose(log_normalizer(np.array([delta]), plateau)[0], truth, atol=1e-9)


def test_a_draw_without_a_finite_energy_has_no_weight():
    weights = ct_hmc(0.1, 1).log_weights(np.array([0.0, np.inf, 1.0]))
    assert weights[1] == -np.inf
    assert np.isclose(np.exp(weights).mean(), 1.0)


def test_a_base_of_any_position():
    """Energies by leaf, with a mean and a scale for each; it is normalized."""
    base = gaussian_base({"a": 1.0, "b": np.array([0.0, 2.0])}, {"a": 2.0, "b": 0.5})
    here = {"a": jnp.array([[1.0, 3.0]]), "b": jnp.array([0.5, 2.0])}
    truth = 0.5 + 0.5 + 2 * np.log(2.0) + 2 * np.log(0.5) + 2 * np.log(2 * np.pi)
    assert np.isclose(base.energy(here), truth, rtol=1e-6)
    grid = jnp.linspace(-20.0, 20.0, 4001)
    density = np.exp(-jax.vmap(gaussian_base(1.0, 2.0).energy)(grid))
    assert np.isclose(density.sum() * 0.01, 1.0, rtol=1e-4)


DATA = jnp.zeros((23, 1))


def posterior(batch_size, **settings):
    return tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2),
        lambda m, x: -0.5 * jnp.sum((x - m) ** 2),
        DATA,
        batch_size,
        **settings,
    )


def with_model():
    return tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2),
        lambda m, x, s: (-0.5 * jnp.sum((x - m[None, :]) ** 2, axis=1), s),
        DATA,
        23,
        batched=True,
        model_state=jnp.zeros(1),
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: posterior(5), "batches of 5 out of 23 examples. tact and samplers.ctld take"),
        (lambda: tacthmc.temper_likelihood(posterior(5)), "needs exact energies"),
        (lambda: tacthmc.noisy(pair(1), force=1.0), "NoisyPotential with NoisyBatches"),
        (with_model, "without a full-data energy"),
        (lambda: posterior(23), "this potential has no base"),
        (lambda: pair(1), "this potential has no base"),
    ],
)
def test_potentials_it_refuses(build, message):
    sampler = ct_hmc(0.1, 2)
    state = sampler.init(KEY, jnp.zeros(1))
    with pytest.raises(ValueError, match=message):
        sampler.step(KEY, state, build(), ())


@pytest.mark.slow
def test_a_subset_of_a_posterior_of_all_data():
    target, start = tacthmc.potentials.subset(
        tacthmc.temper_likelihood(posterior(23)), jnp.zeros(1), True
    )
    run = tacthmc.sample(KEY, ct_hmc(0.02, 5), target, start, 500, keep=Keep(every=1))
    assert np.isfinite(run.draws).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ct_hmc(0.0, 3), "step_size must be"),
        (lambda: ct_hmc(0.1, 0), "num_leapfrog must be"),
        (lambda: ct_hmc(0.1, 3, log_evidence=np.nan), "log_evidence must be a finite number"),
        (lambda: ct_hmc(0.1, 3, plateau=1.0), r"plateau must be in \[0, 1\)"),
        (lambda: ct_hmc(0.1, 3, tempering_step_size=-1.0), "tempering_step_size must be"),
        (lambda: ct_hmc(0.1, 3, mass=0.0), "mass must be"),
        (lambda: ct_hmc(0.1, 3).log_weights(np.zeros(3), 1.5), "inverse_temperature must be"),
        (lambda: gaussian_base(0.0, -1.0), "scale must be"),
        (lambda: with_base(pair(1), tacthmc.noisy(pair(1))), "base must be an energy without"),
        (
            lambda: with_base(with_base(pair(1), gaussian_base()), gaussian_base()),
            "tempered already",
        ),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()
