"""One table of all samplers, for the properties that every one of them must have."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import tacthmc
from tacthmc.dynamics import (
    DiagonalThermostat,
    Euler,
    Frame,
    HeatedBlock,
    MatrixThermostat,
    Metadynamics,
    Refresh,
    Relaxed,
    Sweep,
    TensorThermostat,
    well_tempered,
)
from tacthmc.potentials import label_noise

RMS = optax.scale_by_rms()
FRAME = np.array([[1.0, 0.2, 0.0], [0.2, 0.8, 0.1], [0.0, 0.1, 1.2]], np.float32)
SHIFT = np.array([0.1, -0.2, 0.3], np.float32)

BLOCK = HeatedBlock({"a": False, "b": True})

SAMPLERS = {
    "tact": lambda eta: tacthmc.tact(eta, keep_every=10),
    "tact-euler": lambda eta: tacthmc.tact(eta, keep_every=10, integrator=tacthmc.dynamics.Euler()),
    "tact-authors": lambda eta: tacthmc.samplers.tact_from_tuple(
        [eta, eta, 0.1, 0.1, 1.0, 1.0, 10], num_data=1, variant="authors"
    ),
    "tact-algorithm1": lambda eta: tacthmc.samplers.tact_from_tuple(
        [eta, eta, 0.1, 0.1, 1.0, 1.0, 10], num_data=1
    ),
    "tact-tensor-metadynamics": lambda eta: tacthmc.tact(
        eta,
        thermostat=TensorThermostat(),
        bias=Metadynamics(),
        keep_every=10,
    ),
    "tact-diagonal-well-tempered": lambda eta: tacthmc.tact(
        eta,
        thermostat=DiagonalThermostat(),
        bias=well_tempered(5.0),
        keep_every=10,
    ),
    "tact-matrix": lambda eta: tacthmc.tact(
        eta, thermostat=MatrixThermostat(), bath_temperature=1.3, keep_every=10
    ),
    "tact-breathing": lambda eta: tacthmc.tact(eta, centre="mean", keep_every=10),
    "tact-framed": lambda eta: tacthmc.tact(
        eta, frame=Frame(FRAME, shift=SHIFT), centre="mean", keep_every=10
    ),
    "tact-swept": lambda eta: tacthmc.tact(
        eta,
        sweep=Sweep(60, rest=0.6),
        relaxed=Relaxed(16),
        keep_every=10,
    ),
    "tact-swept-breathing": lambda eta: tacthmc.tact(
        eta, sweep=Sweep(60, start=5), centre="mean", keep_every=10
    ),
    "tact-heated-block": lambda eta: tacthmc.tact(eta, heated=BLOCK, keep_every=10),
    "tact-swept-heated-block": lambda eta: tacthmc.tact(
        eta,
        heated=HeatedBlock({"a": True, "b": False}, longer=15),
        thermostat=TensorThermostat(),
        sweep=Sweep(60),
        keep_every=10,
    ),
    "tact-swept-euler": lambda eta: tacthmc.tact(
        eta, sweep=Sweep(60), integrator=Euler(), keep_every=10
    ),
    "without-thermostat": lambda eta: tacthmc.samplers.without_thermostat(eta, keep_every=10),
    "sgnht": lambda eta: tacthmc.sgnht(eta, refresh=Refresh(theta=True), keep_every=10),
    "sghmc": lambda eta: tacthmc.sghmc(eta, noise_estimate=0.5, keep_every=10),
    "sgld": lambda eta: tacthmc.sgld(eta, keep_every=10),
    "psgld": lambda eta: tacthmc.psgld(eta, keep_every=10),
    "adam": lambda eta: tacthmc.samplers.adam(eta, keep_every=10),
    "momentum-sgd": lambda eta: tacthmc.samplers.momentum_sgd(eta, keep_every=10),
    "optimiser": lambda eta: tacthmc.optimizer(RMS, eta, keep_every=10),
    "replica-exchange": lambda eta: tacthmc.replica_exchange(
        eta, temperatures=(1, 2, 4), swap_every=3, energy_noise="measured", keep_every=10
    ),
    "cyclical": lambda eta: tacthmc.cyclical(eta, cycle_steps=30, explore=0.3, keep_every=10),
    "restarted": lambda eta: tacthmc.restarted(
        tacthmc.sgnht(eta, keep_every=10), every=20, start=afresh, burn=5
    ),
}

START = {"a": np.array([0.5, -0.3]), "b": np.array([[0.2]])}


def afresh(key):
    return jax.tree.map(lambda x: jax.random.normal(key, x.shape), START)


def energy(position):
    return 0.5 * jnp.sum(position["a"] ** 2) + jnp.sum(jnp.cosh(position["b"]))


def start(dtype=jnp.float32):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), START)


def noisy():
    return tacthmc.noisy(tacthmc.potential(energy), force=1.0, energy=0.5)


def minibatched(batches):
    data = jnp.asarray(np.random.default_rng(0).normal(size=(23, 2)), jnp.float32)
    return tacthmc.posterior(
        lambda p: -energy(p),
        lambda p, x: -0.5 * jnp.sum((x - p["a"]) ** 2),
        data,
        5,
        batches=batches,
    )


def mislabelled(batches):
    """As :func:`minibatched`, of examples with labels, most of which are wrong."""
    rng = np.random.default_rng(0)
    data = (
        jnp.asarray(rng.normal(size=(23, 2)), jnp.float32),
        jnp.asarray(rng.integers(0, 5, 23), jnp.int32),
    )
    potential = tacthmc.posterior(
        lambda p: -energy(p),
        lambda p, xy: -0.5 * jnp.sum((xy[0] + xy[1].astype(jnp.float32) - p["a"]) ** 2),
        data,
        5,
        batches=batches,
    )
    return label_noise(potential, 0.8)


def same(left, right, tolerance):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert np.allclose(a, b, rtol=tolerance, atol=tolerance)
