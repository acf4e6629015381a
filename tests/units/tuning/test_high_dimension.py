"""High dimension without a number: a Gaussian with noise in few directions, and a network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Coordinates, LowRank
from tacthmc.paper.networks import categorical, gaussian_prior, mlp


def assert_idle_in_a_low_rank_map(sampler, num_steps):
    """What is chosen in many dimensions, where heat is not known to help."""
    reasons = {choice.name: choice.reason for choice in sampler.tuning.choices}
    assert isinstance(sampler.coordinates.linear.scale, LowRank)
    assert "directions shortened" in reasons["linear"]
    assert "numbers" in reasons["keep_every"]
    assert "one standard deviation of the energy" in reasons["coupling"]
    coupling = sampler.tempering.coupling
    assert float(coupling.plateau / coupling.wall) == pytest.approx(0.95)
    # Bursts stay as short as they were asked to be, or ten times that.
    assert sampler.tuning.gradients < 4 * num_steps * 1_000


def test_many_dimensions_are_tuned():
    sds = np.where(np.arange(300) < 3, 6.0, 0.3).astype(np.float32)
    target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=jnp.asarray(sds))
    sampler = tacthmc.tune(
        jax.random.key(0),
        tacthmc.tact(tempering=ContinuousTempering()),
        target,
        jnp.zeros(300),
        num_chains=4,
        num_steps=100,
        progress=False,
    )
    assert_idle_in_a_low_rank_map(sampler, 100)
    directions = np.asarray(sampler.coordinates.linear.scale.directions, float)
    assert np.allclose(np.sum(directions[:, :3] ** 2, axis=0), 1.0, atol=0.05)


@pytest.fixture(scope="module")
def network():
    """2,000 examples of 20 inputs, labeled by another network; 785 parameters, batches of 20."""
    model = mlp(20, 30, 5)
    rng = np.random.default_rng(0)
    inputs = jnp.asarray(rng.normal(size=(2000, 20)) + 1.0, jnp.float32)
    teacher = jax.tree.map(lambda x: 3.0 * x, model.init(jax.random.key(5)))
    labels = jnp.argmax(model.logits(teacher, inputs), axis=1)
    posterior = tacthmc.posterior(
        gaussian_prior(precision=1.0), categorical(model), (inputs, labels), 20, batched=True
    )
    sampler = tacthmc.tune(
        jax.random.key(0),
        tacthmc.tact(tempering=ContinuousTempering()),
        posterior,
        model.init(jax.random.key(1)),
        num_chains=4,
        num_steps=200,
        progress=False,
    )
    return posterior, sampler


@pytest.mark.slow
def test_a_network_is_tuned(network):
    _, sampler = network
    assert_idle_in_a_low_rank_map(sampler, 200)
    reasons = {choice.name: choice.reason for choice in sampler.tuning.choices}
    assert "cannot tell" in reasons["coupling"]


@pytest.mark.slow
def test_a_networks_noisy_directions_are_no_hotter_than_others(network):
    """⟨(q·(θ − θ̄))·(q·∇U)⟩ along a direction q is its temperature, by the gradient of all data.

    A network's slow directions make all of them read low in a run like this, so that directions
    are compared with one another.
    """
    posterior, sampler = network
    start = jax.tree.map(lambda x: x[0], sampler.tuning.start)
    linear = sampler.coordinates.linear
    noisiest = np.asarray(linear.scale.directions, float)[:3]
    slopes_of = jax.jit(jax.vmap(jax.vmap(jax.grad(posterior.energy))))

    def flat(tree):
        leaves = [np.asarray(x, float).reshape(*x.shape[:2], -1) for x in jax.tree.leaves(tree)]
        return np.concatenate(leaves, axis=2)

    def heat(linear):
        chosen = tacthmc.sgnht(
            sampler.step_size, noise=sampler.injected, coordinates=Coordinates(linear)
        )
        run = tacthmc.sample(jax.random.key(3), chosen, posterior, start, 20_000, 4, progress=False)
        slopes, away = flat(slopes_of(run.draws)), flat(run.draws)
        away -= away.mean(axis=1, keepdims=True)
        along = np.mean((away @ noisiest.T) * (slopes @ noisiest.T))
        return along / np.mean(away * slopes)

    assert heat(linear) < 2
    assert heat(None) > 5
