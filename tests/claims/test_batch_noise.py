"""Force and energy of one batch: the friction for what their noises have in common."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, CovarianceCorrection, PowerCoupling
from tacthmc.potentials import CovarianceTerm, control_variates, forces, loss_table, subset


def term(start, per_energy=0.0):
    return CovarianceTerm(jnp.asarray(start), jnp.asarray(per_energy))


def corrected(potential, here, batch, term=None):
    """One batch's energy and gradient, with a covariance term or without."""
    found = forces(potential, here, batch, correction=term)
    return found.energy, found.gradient


def skewed(batch_size=10, batches="replacement"):
    """A Gaussian's mean from data with a long tail, where ∇u_i and u_i are correlated."""
    rng = np.random.default_rng(0)
    data = rng.exponential(1.0, 200) - 1.0
    data = jnp.asarray(data - data.mean(), jnp.float32)
    model = tacthmc.posterior(
        lambda m: -0.5 * jnp.sum(m**2),
        lambda m, x: -0.5 * jnp.sum((x - m) ** 2),
        data,
        batch_size,
        batches=batches,
    )
    return model


def energies_and_gradients(model, here, rows):
    data = model.data[rows]
    energies = -jax.vmap(lambda x: model.log_likelihood(here, x))(data)
    gradients = -jax.vmap(lambda x: jax.grad(model.log_likelihood)(here, x))(data)
    return np.asarray(energies, float), np.asarray(gradients, float)


def test_the_gradient_has_the_covariance_and_the_energy_half_the_variance():
    model, here, correction = skewed(), jnp.array([0.3, -0.2]), term(0.002)
    rows = jnp.array([3, 50, 50, 7, 120, 199, 0, 11, 64, 90])
    batch = model.data[rows]
    plain = model.value_and_grad(here, batch)
    found = corrected(model, here, batch, correction)
    energies, gradients = energies_and_gradients(model, here, rows)
    variance = 200**2 / 10 * energies.var(ddof=1)
    np.testing.assert_allclose(found[0] - plain[0], 0.5 * 0.002 * variance, rtol=1e-3)
    covariance = np.mean((energies - energies.mean())[:, None] * gradients, axis=0) * 10 / 9
    expected = np.asarray(plain[1]) + 0.002 * 200**2 / 10 * covariance
    np.testing.assert_allclose(found[1], expected, rtol=1e-4)


def test_on_average_it_is_the_covariance_of_a_batch():
    model, here = skewed(), jnp.array([0.3])
    keys = jax.random.split(jax.random.key(0), 20_000)

    @jax.jit
    @jax.vmap
    def one(key):
        batch = model.batch(key, here)
        value, gradient = model.value_and_grad(here, batch)
        return value, gradient[0], corrected(model, here, batch, term(1e-3))[1][0]

    values, gradients, found = (np.asarray(x, float) for x in one(keys))
    added = 1e3 * (found - gradients)
    wanted = (values - values.mean()) * (gradients - gradients.mean())
    error = np.hypot(np.std(added), np.std(wanted)) / np.sqrt(len(added))
    assert abs(added.mean() - wanted.mean()) < 4 * error
    assert abs(wanted.mean()) > 20 * error


def lopsided(batch_size):
    """Four examples whose energies are skewed."""
    return tacthmc.posterior(
        lambda t: -0.5 * t**2,
        lambda t, x: -0.5 * (x - t) ** 2 + 0.2 * x * t**3,
        jnp.array([0.0, 0.3, -1.0, 4.0]),
        batch_size,
    )


def test_over_all_batches_the_middle_of_the_kick_is_that_of_the_whole_energy():
    """All 64 batches of three out of four, so that nothing is left to chance."""
    model, here, start, rate = lopsided(3), jnp.array(0.7), 0.003, 1e-3
    rows = jnp.array(list(product(range(4), repeat=3)))

    def each(correction):
        return jax.vmap(lambda r: corrected(model, here, model.data[r], correction))(rows)

    values, gradients = (np.asarray(x, float) for x in each(None))
    energies, pushes = (np.asarray(x, float) for x in each(term(start, rate)))
    off, force_off = values - values.mean(), gradients - gradients.mean()
    by = start - rate * values.mean()
    wanted = by * np.mean(off * force_off)
    np.testing.assert_allclose(pushes.mean() - gradients.mean(), wanted, rtol=1e-3)
    expected = 0.5 * by * np.mean(off**2)
    np.testing.assert_allclose(energies.mean() - values.mean(), expected, rtol=1e-3)
    # What the batch has in common with its own Δλ would be no small part of it.
    assert abs(rate * np.mean(off**2 * force_off)) > 0.1 * abs(wanted)


def test_two_examples_have_no_third_cumulant():
    model, here = lopsided(2), jnp.array(0.7)
    batch = model.data[2:]
    energy, plain = model.value_and_grad(here, batch)
    found = corrected(model, here, batch, term(0.003, 1e-4))[1]
    expected = corrected(model, here, batch, term(0.003 - 1e-4 * float(energy)))[1]
    np.testing.assert_allclose(found - plain, expected - plain, rtol=1e-4)


def test_a_term_is_no_stronger_than_the_noise():
    model, here = skewed(), jnp.array([0.3])
    batch = model.data[:10]
    gradients = energies_and_gradients(model, here, jnp.arange(10))[1]
    energy, plain = model.value_and_grad(here, batch)
    added = [corrected(model, here, batch, term(by))[1] - plain for by in (1.0, 9.0)]
    np.testing.assert_allclose(added[0], added[1], rtol=1e-4)
    most = 200 / np.sqrt(10) * gradients.std(ddof=1)
    assert 0.1 * most < abs(float(added[0][0])) <= 1.001 * most
    # Nor is what it takes off for the batch's own part in a Δλ that happens to be 0.
    own = [corrected(model, here, batch, term(p * float(energy), p))[1] - plain for p in (1.0, 9.0)]
    np.testing.assert_allclose(own[0], own[1], rtol=1e-2)
    assert abs(float(own[0][0])) <= 3 * most


@pytest.mark.parametrize("kind", ["one example", "epochs", "control variates", "no batches"])
def test_left_alone(kind):
    """Where batches show no variance, or are not independent, the term changes nothing."""
    here = jnp.array([0.3])
    potential = {
        "one example": lambda: skewed(batch_size=1),
        "epochs": lambda: skewed(batches="epochs"),
        "control variates": lambda: control_variates(skewed(), here + 0.1),
        "no batches": lambda: tacthmc.potential(lambda x: jnp.sum(x**2)),
    }[kind]()
    batch = potential.batch(jax.random.key(0), here)
    plain = corrected(potential, here, batch)
    found = corrected(potential, here, batch, term(0.002, 1e-5))
    assert np.array_equal(found[0], plain[0])
    assert np.array_equal(found[1], plain[1])
    assert not potential.traits.independent_batches


@pytest.mark.parametrize("wrapped", ["tempered", "likelihood", "subset", "noisy"])
def test_through_what_is_around(wrapped):
    model, here, correction = skewed(), jnp.array([0.3]), term(0.002)
    batch = model.data[:10]
    energy, plain = corrected(model, here, batch)
    more, found = corrected(model, here, batch, correction)
    added = found - plain
    if wrapped == "tempered":
        outer = tacthmc.potentials.at_temperature(model, 2.0)
        found = corrected(outer, here, batch, correction)[1] * 2 - plain
        np.testing.assert_allclose(found, added / 2, rtol=1e-3)
    if wrapped == "likelihood":
        outer, lam = tacthmc.temper_likelihood(model), jnp.array(0.5)
        felt = [forces(outer, here, batch, None, lam, c) for c in (correction, None)]
        change = felt[0].tempered - felt[1].tempered
        np.testing.assert_allclose(change, more - energy, rtol=1e-3)
        np.testing.assert_allclose(felt[0].gradient - felt[1].gradient, added, rtol=1e-4)
    if wrapped == "subset":
        outer, start = subset(model, here, True)
        found = corrected(outer, start, batch, correction)[1] - plain
        np.testing.assert_allclose(found, added, rtol=1e-4)
    if wrapped == "noisy":
        outer = tacthmc.noisy(model, force=1.0, energy=1.0)
        disturbed = (batch, jnp.ones(1), jnp.ones(()))
        found = [corrected(outer, here, disturbed, c)[1] for c in (correction, None)]
        np.testing.assert_allclose(found[0] - found[1], added, rtol=1e-4)


def test_a_table_of_losses_has_the_covariance_with_the_energy_that_pushes_xi():
    model, here, correction = skewed(), jnp.array([0.3]), term(0.002)
    table = loss_table(model)
    losses = table.init_model()
    step = jax.jit(lambda key, losses: table.estimate(here, table.batch(key, here), losses).model)
    for key in jax.random.split(jax.random.key(1), 200):
        losses = step(key, losses)
    batch = table.batch(jax.random.key(2), here)

    def gradient(position, term=None):
        return forces(table, position, batch, losses, correction=term).gradient

    # Nothing has changed since all were seen: ξ's push has no noise, and there is no covariance.
    np.testing.assert_allclose(gradient(here, correction), gradient(here), rtol=1e-4)
    # Elsewhere ξ's push has the noise of the changes.
    there = here + 0.5
    old, _ = energies_and_gradients(model, here, batch.indices)
    new, gradients = energies_and_gradients(model, there, batch.indices)
    change = new - old
    covariance = np.mean((change - change.mean())[:, None] * gradients, axis=0) * 10 / 9
    expected = 0.002 * 200**2 / 10 * covariance
    np.testing.assert_allclose(gradient(there, correction) - gradient(there), expected, rtol=1e-3)


def test_the_batch_itself_says_where_the_middle_of_the_kick_is():
    model, here = skewed(), jnp.array([0.3])
    batch, lam = model.data[:10], jnp.array(0.5)
    energy = float(model.value_and_grad(here, batch)[0])
    prior = -float(model.log_prior_at(here))
    energies, gradients = energies_and_gradients(model, here, jnp.arange(10))
    squares = (energies - energies.mean()) ** 2
    third = 200**3 / 10 / 9 / 8 * ((squares - squares.mean()) @ gradients)
    known = corrected(model, here, batch, term(0.01 - 2e-5 * energy))[1]
    found = corrected(model, here, batch, term(0.01, 2e-5))[1]
    np.testing.assert_allclose(found, known + 2e-5 * third, rtol=1e-4)
    assert np.abs(2e-5 * third) > 1e-2 * np.abs(known)
    # A ξ that the prior does not push is pushed by the rest.
    split = tacthmc.temper_likelihood(model)
    known = forces(split, here, batch, None, lam, term(0.01 - 2e-5 * (energy - prior)))
    found = forces(split, here, batch, None, lam, term(0.01, 2e-5))
    np.testing.assert_allclose(found.gradient, known.gradient + 2e-5 * third, rtol=1e-4)
    # τ is in both, in the energy once more.
    half = tacthmc.potentials.at_temperature(model, 2.0)
    known = corrected(half, here, batch, term(0.01 - 2e-5 * energy / 2))[1]
    found = corrected(half, here, batch, term(0.01, 2e-5))[1]
    np.testing.assert_allclose(found, known + 2e-5 * third / 8, rtol=1e-4)


def one_noise():
    """U = 100·θ², from examples θ²/2 ± (θ + 1): errors of energy and gradient are one number."""
    return tacthmc.posterior(
        lambda t: 0.0 * t,
        lambda t, sign: -(0.5 * t**2 + sign * (t + 1.0)),
        jnp.asarray(np.tile([1.0, -1.0], 100), jnp.float32),
        50,
    )


def test_means_are_right_where_noises_are_one():
    """The posterior is N(0, 1/200), scaled by T at T; without the term its mean is displaced.

    Within four standard errors of 128 chains and a fiftieth of a standard deviation (what is left
    in higher order): fails less than once in 15,000 seeds.
    """
    found, potential = {}, one_noise()
    for batch_noise in (CovarianceCorrection(), None):
        xi = ContinuousTempering(
            PowerCoupling.up_to(3.0, power=1), step_size=4e-4, batch_noise=batch_noise
        )
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.tact(2e-3, noise=0.3, tempering=xi),
            potential,
            jnp.zeros(()),
            40_000,
            128,
            keep=tacthmc.Keep(every=10),
            progress=False,
        )
        means = np.array([np.mean(d) for d in run.all_draws]) * np.sqrt(200)
        z = float(np.mean(run.after_warmup("xi_thermostat")))
        found[batch_noise is None] = means.mean(), means.std(ddof=1) / np.sqrt(len(means)), z
        sd = np.concatenate(run.all_draws).std() * np.sqrt(200)
        assert abs(sd - 1) < 0.02
    (mean, error, z), (displaced, its_error, hot_z) = found[False], found[True]
    # ξ's thermostat is left with what is injected; without the term it has the batches' noise too.
    assert z == pytest.approx(0.3, rel=0.1)
    assert hot_z > 0.4
    assert abs(mean) < 4 * error + 0.02
    assert displaced > 4 * its_error + 0.02
