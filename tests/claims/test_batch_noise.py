"""Force and energy of one batch: the friction for what their noises have in common."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import PowerCoupling
from tacthmc.potentials import control_variates, loss_table, subset
from tacthmc.potentials._batch_noise import Tilt
from tacthmc.potentials._posterior import Posterior


def tilt(start, per_energy=0.0):
    return Tilt(jnp.asarray(start), jnp.asarray(per_energy))


def skewed(batch_size=10, batches="replacement"):
    """A Gaussian's mean from data with a long tail, where ∇u_i and u_i go together."""
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


class Untilted(Posterior):
    """As it would be without."""

    def tilted(self, by):
        return self


def energies_and_gradients(model, here, rows):
    data = model.data[rows]
    energies = -jax.vmap(lambda x: model.log_likelihood(here, x))(data)
    gradients = -jax.vmap(lambda x: jax.grad(model.log_likelihood)(here, x))(data)
    return np.asarray(energies, float), np.asarray(gradients, float)


def test_the_gradient_has_the_covariance_and_the_energy_half_the_variance():
    model, here, by = skewed(), jnp.array([0.3, -0.2]), tilt(0.002)
    rows = jnp.array([3, 50, 50, 7, 120, 199, 0, 11, 64, 90])
    batch = model.data[rows]
    plain = model.value_and_grad(here, batch)
    tilted = model.tilted(by).value_and_grad(here, batch)
    energies, gradients = energies_and_gradients(model, here, rows)
    variance = 200**2 / 10 * energies.var(ddof=1)
    np.testing.assert_allclose(tilted[0] - plain[0], 0.5 * 0.002 * variance, rtol=1e-3)
    covariance = np.mean((energies - energies.mean())[:, None] * gradients, axis=0) * 10 / 9
    expected = np.asarray(plain[1]) + 0.002 * 200**2 / 10 * covariance
    np.testing.assert_allclose(tilted[1], expected, rtol=1e-4)


def test_on_average_it_is_the_covariance_of_a_batch():
    model, here = skewed(), jnp.array([0.3])
    keys = jax.random.split(jax.random.key(0), 20_000)

    @jax.jit
    @jax.vmap
    def one(key):
        batch = model.batch(key, here)
        value, gradient = model.value_and_grad(here, batch)
        return value, gradient[0], model.tilted(tilt(1e-3)).value_and_grad(here, batch)[1][0]

    values, gradients, tilted = (np.asarray(x, float) for x in one(keys))
    added = 1e3 * (tilted - gradients)
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
    """All 64 batches of three out of four: no chance in it."""
    model, here, start, rate = lopsided(3), jnp.array(0.7), 0.003, 1e-3
    rows = jnp.array(list(product(range(4), repeat=3)))

    def mean(potential):
        return jax.vmap(lambda r: potential.value_and_grad(here, model.data[r]))(rows)

    values, gradients = (np.asarray(x, float) for x in mean(model))
    felt, pushed = (np.asarray(x, float) for x in mean(model.tilted(tilt(start, rate))))
    off, force_off = values - values.mean(), gradients - gradients.mean()
    by = start - rate * values.mean()
    wanted = by * np.mean(off * force_off)
    np.testing.assert_allclose(pushed.mean() - gradients.mean(), wanted, rtol=1e-3)
    np.testing.assert_allclose(felt.mean() - values.mean(), 0.5 * by * np.mean(off**2), rtol=1e-3)
    # What the batch has in common with its own Δλ would be no small part of it.
    assert abs(rate * np.mean(off**2 * force_off)) > 0.1 * abs(wanted)


def test_two_examples_have_no_third_cumulant():
    model, here = lopsided(2), jnp.array(0.7)
    energy, plain = model.value_and_grad(here, model.data[2:])
    found = model.tilted(tilt(0.003, 1e-4)).value_and_grad(here, model.data[2:])[1]
    same = model.tilted(tilt(0.003 - 1e-4 * float(energy))).value_and_grad(here, model.data[2:])[1]
    np.testing.assert_allclose(found - plain, same - plain, rtol=1e-4)


def test_a_tilt_is_no_stronger_than_the_noise():
    model, here = skewed(), jnp.array([0.3])
    batch = model.data[:10]
    gradients = energies_and_gradients(model, here, jnp.arange(10))[1]
    plain = model.value_and_grad(here, batch)[1]
    added = [model.tilted(tilt(by)).value_and_grad(here, batch)[1] - plain for by in (1.0, 9.0)]
    np.testing.assert_allclose(added[0], added[1], rtol=1e-4)
    most = 200 / np.sqrt(10) * gradients.std(ddof=1)
    assert 0.1 * most < abs(float(added[0][0])) <= 1.001 * most
    # Nor what it takes off for the batch's own part in a Δλ that happens to be 0.
    energy = float(model.value_and_grad(here, batch)[0])
    own = [
        model.tilted(tilt(p * energy, p)).value_and_grad(here, batch)[1] - plain for p in (1.0, 9.0)
    ]
    np.testing.assert_allclose(own[0], own[1], rtol=1e-2)
    assert abs(float(own[0][0])) <= 3 * most


def test_one_example_epochs_and_centres_are_left_alone():
    here, by = jnp.array([0.3]), tilt(0.002)
    single = skewed(batch_size=1)
    batch = single.data[:1]
    assert single.tilted(by).value_and_grad(here, batch)[1] == single.value_and_grad(here, batch)[1]
    epochs = skewed(batches="epochs")
    assert epochs.tilted(by) is epochs
    assert not epochs.tilts
    centered = control_variates(skewed(), here)
    assert centered.tilted(by) is centered
    assert not centered.tilts
    whole = tacthmc.potential(lambda x: jnp.sum(x**2))
    assert whole.tilted(by) is whole
    assert not whole.tilts


@pytest.mark.parametrize("wrapped", ["tempered", "likelihood", "part", "noisy"])
def test_through_what_is_around(wrapped):
    model, here, by = skewed(), jnp.array([0.3]), tilt(0.002)
    batch = model.data[:10]
    plain = model.value_and_grad(here, batch)[1]
    added = model.tilted(by).value_and_grad(here, batch)[1] - plain
    if wrapped == "tempered":
        outer = tacthmc.at_temperature(model, 2.0)
        found = outer.tilted(by).value_and_grad(here, batch)[1] * 2 - plain
        np.testing.assert_allclose(found, added / 2, rtol=1e-3)
    if wrapped == "likelihood":
        outer, lam = tacthmc.temper_likelihood(model), jnp.array(0.5)
        felt = [p.felt(here, batch, None, lam) for p in (outer.tilted(by), outer)]
        change = model.tilted(by).value_and_grad(here, batch)[0] - model.estimate(here, batch)
        np.testing.assert_allclose(felt[0].tempered - felt[1].tempered, change, rtol=1e-3)
        np.testing.assert_allclose(felt[0].gradient - felt[1].gradient, added, rtol=1e-4)
    if wrapped == "part":
        outer, start = subset(model, here, True)
        found = outer.tilted(by).value_and_grad(start, batch)[1] - plain
        np.testing.assert_allclose(found, added, rtol=1e-4)
    if wrapped == "noisy":
        outer, noisy = (
            tacthmc.noisy(model, force=1.0, energy=1.0),
            (batch, jnp.ones(1), jnp.ones(())),
        )
        found = [p.value_and_grad(here, noisy)[1] for p in (outer.tilted(by), outer)]
        np.testing.assert_allclose(found[0] - found[1], added, rtol=1e-4)


def test_a_table_of_losses_has_the_covariance_with_what_ξ_feels():
    model, here, by = skewed(), jnp.array([0.3]), tilt(0.002)
    table, losses = loss_table(model), None
    losses = table.init_model()
    for key in jax.random.split(jax.random.key(1), 200):
        _, losses = table.estimate_with(here, table.batch(key, here), losses)
    batch = table.batch(jax.random.key(2), here)

    def gradient(potential):
        return jax.grad(lambda x: potential.estimate_with(x, batch, losses)[0])(here)

    # Nothing has changed since all were seen: ξ feels no noise, and there is nothing to part.
    np.testing.assert_allclose(gradient(table.tilted(by)), gradient(table), rtol=1e-4)
    # What ξ feels elsewhere has the noise of the changes.
    there = here + 0.5

    def moved(potential):
        return jax.grad(lambda x: potential.estimate_with(x, batch, losses)[0])(there)

    old, _ = energies_and_gradients(model, here, batch.indices)
    new, gradients = energies_and_gradients(model, there, batch.indices)
    change = new - old
    covariance = np.mean((change - change.mean())[:, None] * gradients, axis=0) * 10 / 9
    expected = 0.002 * 200**2 / 10 * covariance
    np.testing.assert_allclose(moved(table.tilted(by)) - moved(table), expected, rtol=1e-3)


def test_the_batch_itself_says_where_the_middle_of_the_kick_is():
    model, here = skewed(), jnp.array([0.3])
    batch, lam = model.data[:10], jnp.array(0.5)
    energy = model.value_and_grad(here, batch)[0]
    prior = -float(model.log_prior_at(here))
    energies, gradients = energies_and_gradients(model, here, jnp.arange(10))
    squares = (energies - energies.mean()) ** 2
    third = 200**3 / 10 / 9 / 8 * ((squares - squares.mean()) @ gradients)
    same = model.tilted(tilt(0.01 - 2e-5 * float(energy))).value_and_grad(here, batch)[1]
    found = model.tilted(tilt(0.01, 2e-5)).value_and_grad(here, batch)[1]
    np.testing.assert_allclose(found, same + 2e-5 * third, rtol=1e-4)
    assert np.abs(2e-5 * third) > 1e-2 * np.abs(same)
    # A ξ that does not feel the prior is pushed by the rest.
    split = tacthmc.temper_likelihood(model)
    same = split.tilted(tilt(0.01 - 2e-5 * (float(energy) - prior))).felt(here, batch, None, lam)
    found = split.tilted(tilt(0.01, 2e-5)).felt(here, batch, None, lam)
    np.testing.assert_allclose(found.gradient, same.gradient + 2e-5 * third, rtol=1e-4)
    # τ is in both, in the energy once more.
    half = tacthmc.at_temperature(model, 2.0)
    same = half.tilted(tilt(0.01 - 2e-5 * float(energy) / 2)).value_and_grad(here, batch)[1]
    found = half.tilted(tilt(0.01, 2e-5)).value_and_grad(here, batch)[1]
    np.testing.assert_allclose(found, same + 2e-5 * third / 8, rtol=1e-4)


def leaning(kind):
    """U = 100·θ², from examples θ²/2 ± (θ + 1): errors of energy and gradient are one number."""
    model = tacthmc.posterior(
        lambda t: 0.0 * t,
        lambda t, sign: -(0.5 * t**2 + sign * (t + 1.0)),
        jnp.asarray(np.tile([1.0, -1.0], 100), jnp.float32),
        50,
    )
    return kind(model.log_prior, model.log_likelihood, model.data, model.order, model.batched)


def test_means_are_right_where_noises_are_one():
    """The posterior is N(0, 1/200), scaled by T at T; without the tilt its mean is displaced.

    Within four standard errors of 128 chains and a fiftieth of a standard deviation (what is left
    in higher order): fails less than once in 15,000 seeds.
    """
    sampler = tacthmc.tact(
        2e-3,
        xi_step_size=4e-4,
        noise=0.3,
        coupling=PowerCoupling.up_to(3.0, power=1),
        keep_every=10,
    )
    found = {}
    for kind in (Posterior, Untilted):
        run = tacthmc.sample(
            jax.random.key(0), sampler, leaning(kind), jnp.zeros(()), 40_000, 128, progress=False
        )
        found[kind, "z"] = float(np.mean(run.after_warmup("xi_thermostat")))
        means = np.array([np.mean(d) for d in run.all_draws]) * np.sqrt(200)
        found[kind] = means.mean(), means.std(ddof=1) / np.sqrt(len(means))
        sd = np.concatenate(run.all_draws).std() * np.sqrt(200)
        assert abs(sd - 1) < 0.02
    # ξ's thermostat is left with what is injected; else it has the batches' noise too.
    assert found[Posterior, "z"] == pytest.approx(0.3, rel=0.1)
    assert found[Untilted, "z"] > 0.4
    mean, error = found[Posterior]
    assert abs(mean) < 4 * error + 0.02
    mean, error = found[Untilted]
    assert mean > 4 * error + 0.02
