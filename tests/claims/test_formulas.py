"""One step of each sampler against its formula, and Algorithm 1 over 1,000 steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    ContinuousTempering,
    DiagonalThermostat,
    Euler,
    LiteralAdaptiveBiasingForce,
    MatrixThermostat,
    NoThermostat,
    PowerCoupling,
    ScalarThermostat,
    Splitting,
    TensorThermostat,
)
from tacthmc.dynamics._bias import LiteralForces
from tacthmc.samplers import adam, momentum_sgd, tact_from_tuple
from tests import reference

PRECISION = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
MASS = np.array([0.5, 1.0, 4.0])
ETA, XI_ETA, C, XI_C, GAMMA, XI_GAMMA, BATH = 0.02, 0.03, 0.11, 0.07, 1.3, 0.8, 1.7

THERMOSTATS = {
    "none": NoThermostat(),
    "scalar": ScalarThermostat(gamma=GAMMA),
    "tensor": TensorThermostat(gamma=GAMMA),
    "diagonal": DiagonalThermostat(gamma=GAMMA),
    "matrix": MatrixThermostat(gamma=GAMMA),
}


def energy_and_gradient(theta):
    return 0.5 * theta @ PRECISION @ theta, PRECISION @ theta


def two_leaves(vector):
    return {"a": jnp.asarray(vector[:2]), "b": jnp.asarray(vector[2:])}


def one_vector(tree):
    return np.concatenate([np.asarray(tree["a"]), np.asarray(tree["b"])])


def potential():
    def energy(position):
        theta = jnp.concatenate([position["a"], position["b"]])
        return 0.5 * theta @ (jnp.asarray(PRECISION) @ theta)

    return tacthmc.potential(energy)


def matrix_start():
    z = np.array([[0.2, 0.03, 0.0], [0.03, 0.1, -0.05], [0.0, -0.05, 0.3]])
    return {
        "none": C / BATH,
        "scalar": 0.2,
        "tensor": np.array([0.2, 0.3]),
        "diagonal": np.array([0.2, 0.1, 0.3]),
        "matrix": z,
    }


def library_thermostat(kind, z):
    if kind == "diagonal":
        return two_leaves(z)
    if kind == "tensor":
        return {"a": jnp.asarray(z[0]), "b": jnp.asarray(z[1])}
    return jnp.asarray(z)


@pytest.mark.parametrize("integrator", ["splitting", "euler"])
@pytest.mark.parametrize("xi", [0.1, -0.9, 1.62])
@pytest.mark.parametrize("kind", list(THERMOSTATS))
def test_one_step_of_the_family(x64, kind, xi, integrator):
    """Every thermostat, unequal masses, T ≠ 1; on the plateau, on the slope, over the wall."""
    table = 0.05 * np.arange(20.0)
    learned = LiteralForces(jnp.asarray(table), jnp.zeros(()))
    tempering = ContinuousTempering(
        PowerCoupling(),
        LiteralAdaptiveBiasingForce(bins=20).started_from(learned).frozen(),
        step_size=XI_ETA,
        noise=XI_C,
        thermostat=ScalarThermostat(gamma=XI_GAMMA),
    )
    sampler = tacthmc.tact(
        ETA,
        noise=C,
        tempering=tempering,
        mass=two_leaves(MASS),
        thermostat=THERMOSTATS[kind],
        integrator=Splitting() if integrator == "splitting" else Euler(),
        bath_temperature=BATH,
    )
    start = {
        "theta": np.array([0.4, -1.1, 0.7]),
        "r": np.array([0.1, 0.05, -0.2]),
        "xi": xi,
        "rx": 0.17,
        "z": matrix_start()[kind],
        "zx": 0.35,
        "mean_friction": 0.8 * matrix_start()[kind],
    }
    state = sampler.init(jax.random.key(0), two_leaves(start["theta"]))
    state = eqx.tree_at(
        lambda s: (
            s.momentum,
            s.thermostat,
            s.tempering.xi,
            s.tempering.momentum,
            s.tempering.thermostat,
            s.mean_friction,
        ),
        state,
        (
            two_leaves(start["r"]),
            library_thermostat(kind, start["z"]),
            jnp.asarray(start["xi"]),
            jnp.asarray(start["rx"]),
            jnp.asarray(start["zx"]),
            library_thermostat(kind, start["mean_friction"]),
        ),
    )
    noise = sampler.noise(jax.random.key(1), state.position)
    settings = {
        "eta": ETA,
        "ex": XI_ETA,
        "c": C,
        "cx": XI_C,
        "m": MASS,
        "bath": BATH,
        "wall": 5 / 3,
        "gamma_xi": XI_GAMMA,
        "thermostat": reference.Thermostat(kind, GAMMA),
        "bias": lambda xi, slope, u: table[min(int((xi + 5 / 3) / (10 / 3) * 20), 19)],
    }
    step = reference.splitting_step if integrator == "splitting" else reference.euler_step
    numbers = {"theta": one_vector(noise.theta), "xi": float(noise.xi[0])}
    expected = step(start, energy_and_gradient, numbers, settings)
    state, _ = sampler.advance(noise, state, potential(), ())
    xi_state = state.tempering
    assert np.allclose(one_vector(state.position), expected["theta"], atol=1e-12)
    assert np.allclose(one_vector(state.momentum), expected["r"], atol=1e-12)
    assert np.isclose(float(xi_state.xi), expected["xi"], atol=1e-12)
    assert np.isclose(float(xi_state.momentum), expected["rx"], atol=1e-12)
    assert np.isclose(float(xi_state.thermostat), expected["zx"], atol=1e-12)
    seen = jax.tree.leaves(library_thermostat(kind, expected["z"]))
    for leaf, truth in zip(jax.tree.leaves(state.thermostat), seen, strict=True):
        assert np.allclose(leaf, truth, atol=1e-12)
    if integrator == "splitting":  # the mean friction after the first step: of z̄ and z
        mean = library_thermostat(kind, (start["mean_friction"] + expected["z"]) / 2)
        means = jax.tree.leaves(state.mean_friction)
        for leaf, truth in zip(means, jax.tree.leaves(mean), strict=True):
            assert np.allclose(leaf, truth, atol=1e-12)


def test_algorithm_1_to_the_letter(x64):
    """A line-by-line transcript of Algorithm 1, the same noise, 1,000 steps.

    Trajectories part exponentially, at this step size by up to a million times in 100 steps, so
    that rounding would swamp a free run. The library is put back onto the transcript's state
    every 20 steps and has to follow it to 1e-10 in between.
    """
    eta, xi_eta, c, xi_c, gamma, xi_gamma, keep = 0.01, 0.02, 0.1, 0.08, 1.0, 0.9, 20
    bins, wall = 30, 5 / 3
    sampler = tact_from_tuple([eta, xi_eta, c, xi_c, gamma, xi_gamma, keep], num_data=1)
    assert isinstance(sampler.tempering.bias, LiteralAdaptiveBiasingForce)
    bias = LiteralAdaptiveBiasingForce(bins)
    sampler = eqx.tree_at(lambda s: s.tempering.bias, sampler, bias)
    target = tacthmc.potential(lambda x: jnp.sum(0.5 * x**2 + 0.1 * jnp.cos(x)))
    state = sampler.init(jax.random.key(5), jnp.array([0.3, -0.2]))
    keys = jax.random.split(jax.random.key(7), 1000)
    noises = jax.vmap(lambda key: sampler.noise(key, state.position))(keys)

    @jax.jit
    def follow(state, noises):
        def step(state, noise):
            state, info = sampler.advance(noise, state, target, ())
            return state, (state, info.at_unit_temperature)

        return jax.lax.scan(step, state, noises)[1]

    theta, r_theta = np.asarray(state.position), np.asarray(state.momentum)
    xi, r_xi = 0.0, float(state.tempering.momentum)
    z_theta, z_xi = c, xi_c
    abf = np.zeros(bins)
    samples, bounces = [], 0
    for k in range(1, 1001):
        if k % 20 == 1:
            here = (theta, r_theta, z_theta, xi, r_xi, z_xi, abf, float(k - 1), k - 1)
            start = eqx.tree_at(
                lambda s: (
                    s.position,
                    s.momentum,
                    s.thermostat,
                    s.tempering.xi,
                    s.tempering.momentum,
                    s.tempering.thermostat,
                    s.tempering.bias.force,
                    s.tempering.bias.steps,
                    s.step,
                ),
                state,
                tuple(jnp.asarray(x) for x in here),
            )
            states, unit = follow(start, jax.tree.map(lambda x, k=k: x[k - 1 : k + 19], noises))
        n_theta, (n_xi, again_xi), again = (np.asarray(leaf[k - 1]) for leaf in noises[:3])
        lam, d_lam = reference.coupling(xi)
        z_xi = z_xi + d_lam**2 * (r_xi**2 - xi_eta) / xi_gamma
        z_theta = z_theta + lam**2 * (r_theta @ r_theta / 2 - eta) / gamma
        j = min(int((xi + wall) / (2 * wall) * bins), bins - 1)
        d_a = abf[j]
        u = np.sum(0.5 * theta**2 + 0.1 * np.cos(theta))
        f = -(theta - 0.1 * np.sin(theta))
        r_xi = (
            r_xi
            - d_lam * (xi_eta * u + np.sqrt(2 * xi_c * xi_eta) * n_xi)
            - d_lam**2 * z_xi * r_xi
            + xi_eta * d_a
        )
        r_theta = (
            r_theta + lam * (eta * f + np.sqrt(2 * c * eta) * n_theta) - lam**2 * z_theta * r_theta
        )
        abf = abf.copy()
        abf[j] = (1 - 1 / k) * abf[j] + (1 / k) * d_lam * u
        xi = xi + r_xi
        if abs(xi) > wall:
            r_xi = -r_xi
            xi = xi + r_xi
            bounces += 1
        theta = theta + r_theta
        kept = k % keep == 0 and lam == 1
        if kept:
            samples.append(theta)
            r_theta = np.sqrt(eta) * again
            r_xi = np.sqrt(xi_eta) * again_xi
        at = (k - 1) % 20
        seen = jax.tree.map(lambda x, at=at: np.asarray(x[at]), states)
        assert bool(unit[at]) == (lam == 1), k
        assert np.allclose(seen.position, theta, rtol=0, atol=1e-10), k
        assert np.allclose(seen.momentum, r_theta, rtol=0, atol=1e-10), k
        assert np.isclose(seen.thermostat, z_theta, rtol=0, atol=1e-10), k
        assert np.isclose(seen.tempering.xi, xi, rtol=0, atol=1e-10), k
        assert np.isclose(seen.tempering.momentum, r_xi, rtol=0, atol=1e-10), k
        assert np.isclose(seen.tempering.thermostat, z_xi, rtol=0, atol=1e-10), k
        assert np.allclose(seen.tempering.bias.force, abf, rtol=0, atol=1e-10), k
    assert bounces > 3, "the transcript must have met the wall"
    assert len(samples) > 2, "and kept something"


def test_one_step_of_sghmc_with_a_noise_estimate(x64):
    eta, c, v = 0.05, 0.2, np.array([1.0, 9.0, 3.0])
    sampler = tacthmc.sghmc(eta, friction=c, noise_estimate=jnp.asarray(v), integrator=Euler())
    theta = jnp.array([0.4, -1.1, 0.7])
    state = sampler.init(jax.random.key(0), theta)
    noise = sampler.noise(jax.random.key(1), theta)
    target = tacthmc.potential(lambda x: 0.5 * x @ (jnp.asarray(PRECISION) @ x))
    r = np.asarray(state.momentum)
    sd = np.sqrt(np.maximum(2 * c * eta - eta**2 * v, 0))
    expected = r - eta * PRECISION @ np.asarray(theta) - c * r + sd * np.asarray(noise.theta)
    assert sd[1] == 0, "too large an estimate leaves no noise to inject"
    state, _ = sampler.advance(noise, state, target, ())
    assert np.allclose(state.momentum, expected, atol=1e-13)
    assert np.allclose(state.position, np.asarray(theta) + expected, atol=1e-13)


def test_one_step_of_sgld_and_its_place_in_the_family(x64):
    eta, theta = 0.05, jnp.array([0.4, -1.1, 0.7])
    target = tacthmc.potential(lambda x: 0.5 * x @ (jnp.asarray(PRECISION) @ x))
    sampler = tacthmc.sgld(eta)
    noise = sampler.noise(jax.random.key(1), theta)
    state, _ = sampler.advance(noise, sampler.init(jax.random.key(0), theta), target, ())
    expected = theta - eta * PRECISION @ theta + np.sqrt(2 * eta) * noise
    assert np.allclose(state.position, expected, atol=1e-14)
    # Algorithm 1 without coupling and thermostat at friction 1 is the same map.
    euler = tacthmc.sghmc(eta, friction=1.0, integrator=Euler())
    again = euler.init(jax.random.key(0), theta)
    step_noise = euler.noise(jax.random.key(1), theta)._replace(theta=noise)
    again, _ = euler.advance(step_noise, again, target, ())
    assert np.allclose(again.position, expected, atol=1e-14)


def test_two_steps_of_psgld(x64):
    eta, decay, floor = 0.05, 0.9, 1e-3
    theta = np.array([0.4, -1.1, 0.7])
    target = tacthmc.potential(lambda x: 0.5 * x @ (jnp.asarray(PRECISION) @ x))
    sampler = tacthmc.samplers.psgld(eta, decay=decay, floor=floor, adapt_steps=1)
    state = sampler.init(jax.random.key(0), jnp.asarray(theta))
    v, weight = np.zeros(3), 0.0
    for k in range(2):
        noise = sampler.noise(jax.random.key(k), state.position)
        gradient = PRECISION @ theta
        if k < 1:  # only the first step adapts
            v, weight = decay * v + (1 - decay) * gradient**2, 1 - decay ** (k + 1)
        scale = 1 / (np.sqrt(v / weight) + floor)
        theta = theta - eta * scale * gradient + np.sqrt(2 * eta * scale) * np.asarray(noise)
        state, _ = sampler.advance(noise, state, target, ())
        assert np.allclose(state.position, theta, atol=1e-13)


def test_optimizers_follow_their_formulas(x64):
    theta, rate, n = np.array([0.4, -1.1, 0.7]), 0.1, 10
    target = tacthmc.potential(lambda x: 0.5 * x @ (jnp.asarray(PRECISION) @ x))
    sgd, adaptive = (
        momentum_sgd(rate, 0.9, num_data=n),
        adam(rate, num_data=n),
    )
    state, trace = sgd.init(jax.random.key(0), jnp.asarray(theta)), np.zeros(3)
    expected = theta
    for _ in range(3):
        trace = 0.9 * trace + PRECISION @ expected / n
        expected = expected - rate * trace
        state, _ = sgd.step(jax.random.key(0), state, target, ())
    assert np.allclose(state.position, expected, atol=1e-13)
    state, first, second, expected = (
        adaptive.init(jax.random.key(0), jnp.asarray(theta)),
        0,
        0,
        theta,
    )
    for k in range(1, 4):
        gradient = PRECISION @ expected / n
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        update = (first / (1 - 0.9**k)) / (np.sqrt(second / (1 - 0.999**k)) + 1e-8)
        expected = expected - rate * update
        state, _ = adaptive.step(jax.random.key(0), state, target, ())
    assert np.allclose(state.position, expected, atol=1e-12)


def test_relative_inertia_is_gamma_over_eta(x64):
    """Γ = γ/(ηT): the same trajectory, whichever way it is said."""
    theta = jnp.array([0.4, -1.1])
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    ends = []
    for thermostat in (
        ScalarThermostat(gamma=2.0),
        ScalarThermostat(steps=2.0 / (0.01 * 1.5)),
    ):
        sampler = tacthmc.sgnht(0.01, thermostat=thermostat, bath_temperature=1.5)
        state = sampler.init(jax.random.key(0), theta)
        for k in range(20):
            state, _ = sampler.step(jax.random.key(k), state, target, ())
        ends.append(state.position)
    assert np.allclose(ends[0], ends[1], atol=1e-12)


def test_schedules_rescale_the_momentum(x64):
    """r = pΔt/m: halving η at a step divides r by √2 before the step is made."""
    target = tacthmc.potential(lambda x: jnp.sum(x**2))

    def rate(k):
        return jnp.where(k < 3, 0.02, 0.01)

    scheduled, constant = tacthmc.sgnht(rate), tacthmc.sgnht(0.01)
    state = scheduled.init(jax.random.key(0), jnp.array([0.4]))
    for k in range(3):
        state, _ = scheduled.step(jax.random.key(k), state, target, ())
    by_hand = eqx.tree_at(lambda s: s.momentum, state, state.momentum / np.sqrt(2.0))
    state, _ = scheduled.step(jax.random.key(3), state, target, ())
    by_hand, _ = constant.step(jax.random.key(3), by_hand, target, ())
    assert np.allclose(state.position, by_hand.position, atol=1e-13)
    assert np.allclose(state.momentum, by_hand.momentum, atol=1e-13)
