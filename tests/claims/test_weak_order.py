"""Weak order by regression: about 1 for Euler, about 2 for the splitting, in Δt = √η.

c is a friction per step, so that it has to shrink with Δt (c ∝ √η, γ fixed) for the
discretization to have a limit. On this target the position's variance is asked for, and the
kinetic temperature where the position's error happens to vanish to first order (SGHMC-Euler).

TACT's regression takes long and is in ``make test-slow``. ``make test`` has the error of one step
of TACT instead, which depends on no chance: it is of one order more.
"""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Euler, NoBias, ScalarThermostat, Splitting
from tacthmc.dynamics._langevin import StepNoise
from tests.budget import QUANTILE


def gentle(x):
    """Curvature between 0.25 and 1.75, since Euler is unstable on anything stiff."""
    return jnp.sum(0.5 * x**2 - 0.75 * jnp.cos(x))


def quartic(x):
    """Stiff enough for the splitting's error to stand out of the noise."""
    return jnp.sum(0.5 * x**2 + 0.25 * x**4)


def exact_variance(energy):
    grid = np.linspace(-12, 12, 20_001)
    energies = np.asarray(jax.vmap(energy)(jnp.asarray(grid)[:, None]), float)
    weight = np.exp(energies.min() - energies)
    return float((weight * grid**2).sum() / weight.sum())


def averages(make, energy, sizes, num_chains, num_steps, observable):
    """Means over chains of the time average, and their standard errors."""
    potential = tacthmc.potential(energy)

    def chain(size, key):
        sampler = make(size)
        first, rest = jax.random.split(key)

        def step(carry, key):
            state, total, count = carry
            state, info = sampler.step(key, state, potential, ())
            relaxed = state.step.astype(jnp.float32) * size > 20
            use = (relaxed & info.at_unit_temperature).astype(jnp.float32)
            return (state, total + use * observable(state, size), count + use), None

        def block(state, key):
            zero = jnp.zeros(())
            carry, _ = jax.lax.scan(step, (state, zero, zero), jax.random.split(key, 500))
            return carry[0], carry[1:]

        state = sampler.init(first, jnp.array([0.5]))
        _, (totals, counts) = jax.lax.scan(block, state, jax.random.split(rest, num_steps // 500))
        return jnp.sum(totals) / jnp.sum(counts)

    keys = jax.random.split(jax.random.key(0), (len(sizes), num_chains))
    run = jax.jit(jax.vmap(jax.vmap(chain, in_axes=(None, 0))))
    means = np.asarray(run(jnp.asarray(sizes, jnp.float32), keys), float)
    return means.mean(axis=1), means.std(axis=1, ddof=1) / np.sqrt(num_chains)


def square(state, size):
    return state.position[0] ** 2


def kinetic(state, size):
    return state.momentum[0] ** 2 / size**2


def sghmc(integrator):
    return lambda size: tacthmc.sghmc(size**2, friction=size, integrator=integrator)


def sgnht(integrator):
    thermostat = ScalarThermostat(gamma=1.0)
    return lambda size: tacthmc.sgnht(
        size**2, noise=size, thermostat=thermostat, integrator=integrator
    )


def tact(integrator):
    thermostat = ScalarThermostat(gamma=1.0)
    tempering = ContinuousTempering(thermostat=thermostat)
    return lambda size: tacthmc.tact(
        size**2, noise=size, tempering=tempering, thermostat=thermostat, integrator=integrator
    )


EULER_SIZES = [0.05, 0.1, 0.15, 0.2]
SPLITTING_SIZES = [0.2, 0.25, 0.32, 0.4]
# With ξ coupled, higher orders show earlier; and a fifth of the time counts.
TACT_SIZES = [0.2, 0.24, 0.28, 0.34]

CASES = {
    "sghmc-euler": (sghmc(Euler()), gentle, EULER_SIZES, kinetic, 1),
    "sgnht-euler": (sgnht(Euler()), gentle, EULER_SIZES, square, 1),
    "sghmc-splitting": (sghmc(Splitting()), quartic, SPLITTING_SIZES, kinetic, 2),
    "sgnht-splitting": (sgnht(Splitting()), quartic, SPLITTING_SIZES, square, 2),
    "tact-splitting": (tact(Splitting()), quartic, TACT_SIZES, square, 2),
}


# TACT's takes ten times as long as the others together.
SLOW = pytest.param("tact-splitting", marks=pytest.mark.slow)


@pytest.mark.parametrize("case", [*(case for case in CASES if case != "tact-splitting"), SLOW])
def test_weak_order(case):
    make, energy, sizes, observable, order = CASES[case]
    num_chains, num_steps = (1024, 60_000) if case.startswith("tact") else (512, 20_000)
    means, standard = averages(make, energy, sizes, num_chains, num_steps, observable)
    away = np.abs(means - (exact_variance(energy) if observable is square else 1.0))
    logs = np.log(sizes)
    slope = np.polyfit(logs, np.log(away), 1)[0]
    centered = logs - logs.mean()
    noise = np.sqrt(np.sum((centered * standard / away) ** 2)) / np.sum(centered**2)
    # ±0.3 for the share of higher orders, the rest for Monte-Carlo error.
    assert abs(slope - order) < 0.3 + QUANTILE * noise, (slope, noise, away, standard)
    # With this the orders 1 and 2 cannot be taken for each other.
    assert noise < 0.1, (slope, noise, away, standard)


# Expectations over the kicks of θ and ξ, exact for polynomials of degree 9 in each.
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
STEPS = [0.01, 0.02]


def on_its_way(sampler, size):
    """A state between plateau and wall whose variables are all of order one in units of Δt.

    The mean friction is c, as it is after many steps.
    """
    state = sampler.init(jax.random.key(0), jnp.array([0.5]))
    xi = replace(state.tempering, xi=jnp.asarray(0.9), momentum=0.6 * size, thermostat=1.3 * size)
    return replace(
        state,
        momentum=0.7 * size * jnp.ones(1),
        thermostat=0.8 * size,
        tempering=xi,
        mean_friction=size,
        step=jnp.asarray(10**6),
    )


def first_and_second_moments(state, size):
    xi = state.tempering
    theta = [state.position[0], state.momentum[0] / size, state.thermostat / size]
    each = jnp.stack([*theta, xi.xi, xi.momentum / size, xi.thermostat / size])
    return jnp.concatenate([each, jnp.outer(each, each)[jnp.triu_indices(len(each))]])


def expected(integrator, num_steps):
    """Moments after so many steps of TACT, as a function of Δt."""
    thermostat, potential = ScalarThermostat(gamma=1.0), tacthmc.potential(quartic)
    tempering = ContinuousTempering(bias=NoBias(), thermostat=thermostat)
    kicks = np.array(list(itertools.product(NODES, repeat=2 * num_steps)))
    weights = np.array(list(itertools.product(WEIGHTS, repeat=2 * num_steps))).prod(axis=1)

    def after(size, kicks):
        sampler = tacthmc.tact(
            size**2, noise=size, tempering=tempering, thermostat=thermostat, integrator=integrator
        )
        state = on_its_way(sampler, size)
        for theta, xi in kicks.reshape(num_steps, 2):
            noise = StepNoise(theta[None], jnp.stack([xi, jnp.zeros_like(xi)]), None)
            state, _ = sampler.advance(noise, state, potential, ())
        return first_and_second_moments(state, size)

    each = jax.jit(jax.vmap(after, in_axes=(None, 0)))
    return lambda size: weights @ np.asarray(each(jnp.asarray(size), jnp.asarray(kicks)))


def order_of(gap):
    small, large = (np.abs(gap(size)).max() for size in STEPS)
    return np.log(large / small) / np.log(STEPS[1] / STEPS[0])


def test_one_step_of_tact_is_right_to_one_order_more(x64):
    """One step and two of half the length differ by O(Δt³) in the splitting, O(Δt²) in Euler."""
    one, two = ({i: expected(i, n) for i in (Splitting(), Euler())} for n in (1, 2))
    for integrator, order in ((Splitting(), 2), (Euler(), 1)):
        gap = order_of(lambda size, i=integrator: one[i](size) - two[i](size / 2))
        assert gap == pytest.approx(order + 1, abs=0.1)
    # Both follow the same equations.
    between = order_of(lambda size: one[Splitting()](size) - one[Euler()](size))
    assert between == pytest.approx(2, abs=0.1)
