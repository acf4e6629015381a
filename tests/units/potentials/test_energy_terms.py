"""Tempering a part of the energy: the law at every ξ, weights, evidence, wrappers, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import ContinuousTempering, Coordinates, PowerCoupling
from tacthmc.dynamics._coordinates import virial_energy, widen
from tacthmc.potentials import control_variates, forces, loss_table, subset
from tacthmc.samplers import adam
from tests.budget import assert_mean

KEY = jax.random.key(0)
N, D, SCALE = 20, 3, 0.7
DATA = 1.0 + jax.random.normal(jax.random.key(7), (N, D))


def log_prior(theta):
    return -0.5 * jnp.sum(theta**2) / SCALE**2


def log_likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta) ** 2)


def model(batch_size=N, **options):
    return tacthmc.posterior(log_prior, log_likelihood, DATA, batch_size, **options)


def power_posterior(lam):
    """Mean and precision of p(θ)·p(data | θ)^λ."""
    lam = np.asarray(lam)[..., None]
    precision = 1 / SCALE**2 + lam * N
    return lam * np.asarray(DATA, float).sum(axis=0) / precision, precision


def log_z(lam):
    mean, precision = power_posterior(lam)
    squares = (np.asarray(DATA, float) ** 2).sum()
    each = 0.5 * np.log(2 * np.pi / precision) + 0.5 * precision * mean**2
    return float(each.sum() - 0.5 * lam * squares)


@pytest.fixture(
    scope="module",
    params=[None, pytest.param("mean", marks=pytest.mark.slow)],
    ids=["paper", "widening"],
)
def run(request):
    # Gaussian: with its control variate a mini-batch has no noise, and the law is exact.
    potential = tacthmc.temper_likelihood(control_variates(model(5), DATA.mean(axis=0)))
    sampler = tacthmc.tact(2e-3, coordinates=Coordinates(center=request.param))
    keep = Keep(temperatures="all")
    return tacthmc.sample(KEY, sampler, potential, jnp.ones(D), 400_000, 4, keep=keep)


def test_the_law_at_every_temperature(run):
    lam = run.stats["lambda"]
    mean, precision = power_posterior(lam)
    white = (run.draws - mean) * np.sqrt(precision)
    for low, high in ((0.0, 0.2), (0.2, 0.6), (0.6, 0.9999), (0.9999, 1.0)):
        here = (lam > low) & (lam <= high)
        assert here.mean() > 0.05
        one = np.where(here[..., None], white, 0.0).mean(axis=-1) / here.mean()
        assert_mean(one, 0.0, 0.02, f"whitened mean for λ in ({low}, {high}]")
        two = np.where(here[..., None], white**2 - 1, 0.0).mean(axis=-1) / here.mean()
        assert_mean(two, 0.0, 0.03, f"whitened variance − 1 for λ in ({low}, {high}]")


def test_weighted_draws_are_the_posterior(run):
    mean, precision = power_posterior(1.0)
    weights = np.exp(run.log_weights)
    white = (run.draws - mean) * np.sqrt(precision)
    # As draws of the whole energy they would be something else.
    assert np.average((white**2).mean(axis=-1), weights=weights) == pytest.approx(1.0, abs=0.04)
    assert np.average(white.mean(axis=-1), weights=weights) == pytest.approx(0.0, abs=0.03)
    assert np.mean(white**2) > 1.5
    energies = run.stats["full_energy"] - run.stats["tempered_energy"]
    np.testing.assert_allclose(
        energies, 0.5 * (run.draws**2).sum(axis=-1) / SCALE**2, rtol=1e-3, atol=1e-3
    )


def test_evidence_of_the_power_posterior(run):
    for temperature in (None, 2.0):
        found = run.log_evidence_ratio(temperature)
        truth = log_z(1 / found.temperature) - log_z(1.0)
        assert found.error < 0.3
        assert abs(found.value - truth) < 5.2 * found.error + 0.05


def test_the_energy_that_pushes_xi_is_in_the_trace(run):
    pushes = run.after_warmup("xi_energy")
    assert np.all(np.isfinite(pushes))
    assert not np.allclose(pushes, run.after_warmup("energy"))


@pytest.mark.parametrize("kind", ["likelihood", "block"])
def test_forces_are_derivatives_of_one_hamiltonian(kind, x64):
    """−λg on θ, −λ′U1 on ξ; where θ widens −√λ·g on φ, −λ′(U1 − ½g·(θ − μ) + D/2λ) on ξ."""
    position = {"w": jnp.array([0.3, -1.0]), "b": jnp.array([0.8])}
    center = {"w": jnp.array([0.1, 0.4]), "b": jnp.array([-0.5])}
    data = jnp.linspace(-1.0, 2.0, 6)

    def likelihood(p, x):
        return -0.5 * (x - p["w"][0] * jnp.tanh(p["b"][0]) - p["w"][1] ** 2) ** 2

    whole = tacthmc.posterior(
        lambda p: -0.5 * jnp.sum(p["w"] ** 2) - p["b"][0] ** 4, likelihood, data, 6
    )
    split = (
        tacthmc.temper_likelihood(whole)
        if kind == "likelihood"
        else tacthmc.potentials.temper_block(whole, {"w": False, "b": True}, center)
    )
    coupling, bath, at = PowerCoupling(), 1.3, jnp.asarray(1.1)
    lam, slope = coupling.value_and_slope(at)

    def terms(theta):
        energy = split.estimate(theta, data)
        return energy.fixed, energy.tempered

    np.testing.assert_allclose(sum(terms(position)), whole.energy(position), rtol=1e-12)
    full = split.full(position)
    np.testing.assert_allclose(terms(position), (full.fixed, full.tempered), rtol=1e-12)
    found = forces(split, position, data, lam=lam)
    straight = jax.grad(lambda p: terms(p)[0] + lam * terms(p)[1])(position)
    for g, expected in zip(jax.tree.leaves(found.gradient), jax.tree.leaves(straight), strict=True):
        np.testing.assert_allclose(lam * g, expected, rtol=1e-10)
    np.testing.assert_allclose(found.tempered, terms(position)[1], rtol=1e-12)

    def hamiltonian(phi, xi):
        lam = coupling.value_and_slope(xi)[0]
        fixed, own = terms(widen(phi, center, lam))
        return bath * (fixed + lam * own + 1.5 * jnp.log(lam))

    theta = widen(position, center, lam)
    found = forces(split, theta, data, lam=lam)
    virial = virial_energy(found.tempered, found.gradient, theta, center)
    step = 1e-6
    difference = (hamiltonian(position, at + step) - hamiltonian(position, at - step)) / (2 * step)
    np.testing.assert_allclose(bath * slope * (virial + 1.5 / lam), difference, rtol=1e-7)
    on_phi = jax.grad(hamiltonian)(position, at)
    for g, expected in zip(jax.tree.leaves(found.gradient), jax.tree.leaves(on_phi), strict=True):
        np.testing.assert_allclose(bath * jnp.sqrt(lam) * g, expected, rtol=1e-8)


A, B, C, AWAY = 1.5, 1.0, 0.6, 2.0


def pair_energy(p):
    x, y = p["x"], p["y"]
    return jnp.sum(0.5 * A * x**2 + 0.5 * B * y**2 + C * x * y)


@pytest.fixture(scope="module")
def block_run():
    split = tacthmc.potentials.temper_block(
        tacthmc.potential(pair_energy), {"x": False, "y": True}, {"x": None, "y": jnp.full(2, AWAY)}
    )
    start = {"x": jnp.zeros(2), "y": jnp.zeros(2)}
    xi, keep = ContinuousTempering(step_size=5e-3), Keep(temperatures="all")
    sampler = tacthmc.tact(0.05, tempering=xi, bath_temperature=1.2)
    noisy = tacthmc.noisy(split, force=1.0, energy=1.0)
    return tacthmc.sample(KEY, sampler, noisy, start, 300_000, 4, keep=keep)


def test_the_law_with_a_tempered_block(block_run):
    """exp(−U0 − λU1) is Gaussian: precision [[a, λc], [λc, λb]], mean from (1 − λ)·c·b in x."""
    lam = block_run.stats["lambda"]
    precision = np.stack([np.full_like(lam, A), C * lam, C * lam, B * lam], axis=-1)
    precision = precision.reshape(*lam.shape, 2, 2).astype(float)
    push = np.stack([-(1 - lam) * C * AWAY, np.zeros_like(lam)], axis=-1)
    mean = np.linalg.solve(precision, push[..., None])
    root = np.swapaxes(np.linalg.cholesky(precision), -1, -2)
    both = np.stack([block_run.draws["x"], block_run.draws["y"]], axis=-2)
    white = root @ (both - mean)
    for low, high in ((0.0, 0.4), (0.4, 0.9999), (0.9999, 1.0)):
        here = ((lam > low) & (lam <= high))[..., None]
        for i, name in enumerate("xy"):
            one = np.where(here, white[..., i, :], 0).mean(axis=-1) / here.mean()
            assert_mean(one, 0.0, 0.03, f"{name} for λ in ({low}, {high}]")
            two = np.where(here, white[..., i, :] ** 2 - 1, 0).mean(axis=-1) / here.mean()
            assert_mean(two, 0.0, 0.04, f"{name}² − 1 for λ in ({low}, {high}]")
    # The block's two dimensions push ξ, and it ends up uniform.
    assert abs(np.mean(block_run.plateau_share) - 0.2) < 0.03
    weights = np.exp(block_run.log_weights)[..., None]
    variance = np.linalg.inv([[A, C], [C, B]])
    assert np.sum(weights * block_run.draws["y"] ** 2) / weights.sum() / 2 == pytest.approx(
        variance[1, 1], abs=0.08
    )


def test_samplers_without_tempering_see_the_whole_energy():
    plain = model(5)
    split = tacthmc.temper_likelihood(plain)
    for sampler in (tacthmc.sgnht(1e-3), tacthmc.sgld(1e-3), adam(1e-2)):
        states = [sampler.init(KEY, jnp.ones(D)) for _ in range(2)]
        batch = plain.batch(KEY, jnp.ones(D))
        moved = [
            sampler.step(KEY, state, potential, batch)
            for state, potential in zip(states, (plain, split), strict=True)
        ]
        assert np.array_equal(moved[0][0].position, moved[1][0].position)
        assert moved[0][1].energy == moved[1][1].energy


def both(energy):
    return [np.asarray(energy.fixed), np.asarray(energy.tempered)]


def test_wrappers_pass_the_terms_on():
    split = tacthmc.temper_likelihood(model())
    here, lam = jnp.array([0.2, 0.5, -1.0]), jnp.asarray(0.25)
    terms = both(split.full(here))
    cold = tacthmc.potentials.at_temperature(split, 0.5)
    np.testing.assert_allclose(both(cold.full(here)), [2 * x for x in terms], rtol=1e-6)
    rough = tacthmc.noisy(split, force=1.0, energy=3.0)
    batch = rough.batch(KEY, here)
    inside = forces(split, here, batch[0], lam=lam)
    outside = forces(rough, here, batch, lam=lam)
    assert float(outside.tempered - inside.tempered) == pytest.approx(float(3 * batch[2]), rel=1e-4)
    np.testing.assert_allclose(outside.gradient - inside.gradient, batch[1], atol=1e-4)
    other = tacthmc.temper_likelihood(tacthmc.noisy(model(), force=1.0, energy=3.0))
    again = forces(other, here, batch, lam=lam)
    np.testing.assert_allclose(again.gradient, outside.gradient, atol=1e-4)
    named = tacthmc.posterior(
        lambda p: log_prior(p["a"]), lambda p, x: log_likelihood(p["a"], x), DATA, N
    )
    position, sampled = {"a": here, "name": "rest"}, {"a": True, "name": False}
    some, start = subset(tacthmc.temper_likelihood(named), position, sampled)
    assert some.traits.is_split
    np.testing.assert_allclose(both(some.full(start)), terms, rtol=1e-6)


@pytest.mark.slow
def test_streamed_stored_and_resumed(tmp_path):
    batches = [np.asarray(DATA[i : i + 5]) for i in range(0, N, 5)]
    split = tacthmc.temper_likelihood(
        tacthmc.streamed(log_prior, log_likelihood, batches, num_data=N)
    )
    sampler, keep = tacthmc.tact(2e-3), Keep(every=20, after=0)
    whole = tacthmc.sample(KEY, sampler, split, jnp.ones(D), 400, 2, keep=keep)
    path = tmp_path / "run"
    tacthmc.sample(KEY, sampler, split, jnp.ones(D), 200, 2, keep=keep, store=path)
    longer = tacthmc.resume(path, num_steps=400, sampler=sampler, potential=split)
    for name in ("xi_energy", "xi", "energy"):
        assert np.array_equal(longer.trace[name], whole.trace[name])
    assert isinstance(longer.potential, type(split))


def test_weights_of_a_stored_run(tmp_path):
    split = tacthmc.temper_likelihood(model())
    sampler, keep = tacthmc.tact(2e-3), Keep(every=20, after=0, temperatures="all")
    path = tmp_path / "run"
    whole = tacthmc.sample(KEY, sampler, split, jnp.ones(D), 400, 2, keep=keep)
    stored = tacthmc.sample(KEY, sampler, split, jnp.ones(D), 400, 2, keep=keep, store=path)
    for other in (stored, tacthmc.load(path)):
        assert np.array_equal(other.log_weights, whole.log_weights)
        assert np.array_equal(other.stats["tempered_energy"], whole.stats["tempered_energy"])


def test_refused():
    plain = tacthmc.potential(lambda x: jnp.sum(x**2))
    with pytest.raises(TypeError, match="needs a prior and a likelihood of data"):
        tacthmc.temper_likelihood(plain)
    with pytest.raises(TypeError, match="subset and at_temperature go outside"):
        tacthmc.temper_likelihood(tacthmc.potentials.at_temperature(model(), 0.5))
    split = tacthmc.temper_likelihood(model())
    with pytest.raises(TypeError, match="got a LikelihoodPotential"):
        tacthmc.temper_likelihood(split)
    with pytest.raises(ValueError, match="is tempered already"):
        tacthmc.potentials.temper_block(split, lambda x: True, 0.0)
    with pytest.raises(ValueError, match="control_variates goes inside"):
        control_variates(split, jnp.ones(D))
    with pytest.raises(ValueError, match="temper_block and loss_table do not go together"):
        tacthmc.potentials.temper_block(loss_table(model()), lambda x: True, 0.0)
    with pytest.raises(ValueError, match="block picks no leaf"):
        tacthmc.potentials.temper_block(plain, lambda x: False, 0.0).full(jnp.ones(2))
    with pytest.raises(ValueError, match="reference must be a number, or a pytree"):
        tacthmc.potentials.temper_block(plain, lambda x: True, jnp.ones(3)).full(jnp.ones(2))
