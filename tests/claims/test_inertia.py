"""A thermostat that is too fast, and noise that is skewed: the mean is displaced, by theory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import DiagonalThermostat

N, BATCH, NOISE, FROM_BATCHES = 1000, 10, 0.1, 0.15
FRICTION = NOISE + FROM_BATCHES
SHARP = 40.0
"""One example in forty pulls to the other side, by as much as all others together."""


def skewed():
    """U = Σ(½θ² − s·θ): errors of the force are those of the mean of s, wherever θ is."""
    pulls = np.where(np.arange(N) % SHARP == 0, SHARP - 1, -1.0)
    return pulls, tacthmc.posterior(
        lambda t: 0.0 * t,
        lambda t, s: s * t - 0.5 * t**2,
        jnp.asarray(pulls, jnp.float32),
        BATCH,
    )


def displaced(steps, num_steps):
    """The mean in standard deviations with Γ = ``steps``, its error, and ηκ/(3z²Γ) in the same."""
    pulls, model = skewed()
    variance = N**2 / BATCH * pulls.var()
    eta = 2 * FROM_BATCHES / variance
    cumulant = -(N**3) / BATCH**2 * np.mean(pulls**3)
    thermostat = DiagonalThermostat(steps=steps)
    sampler = tacthmc.sgnht(eta, noise=NOISE, thermostat=thermostat)
    run = tacthmc.sample(
        jax.random.key(0),
        sampler,
        model,
        jnp.zeros(()),
        num_steps,
        128,
        keep=tacthmc.Keep(every=100),
        progress=False,
    )
    means = np.array([np.mean(d) for d in run.all_draws]) * np.sqrt(N)
    theory = eta * cumulant / (3 * FRICTION**2 * steps) / np.sqrt(N)
    return means.mean(), means.std(ddof=1) / np.sqrt(len(means)), theory


def test_skewed_noise_displaces_the_mean_by_one_over_the_inertia():
    """Within five standard errors, and 15% that are left in higher order of 1/(z²Γ) = 1/63."""
    mean, error, theory = displaced(1000.0, 400_000)
    assert abs(mean - theory) < 5 * error + 0.15 * abs(theory)
    assert abs(theory) > 10 * error
    fast, its_error, leading = displaced(64.0, 100_000)
    assert fast == pytest.approx(0.4 * leading, rel=0.1)
    assert abs(fast) > 4 * abs(mean) + 5 * its_error
