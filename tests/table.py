"""One table of all samplers, for the properties that every one of them must have."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import tacthmc
from tacthmc import samplers
from tacthmc.dynamics import (
    ContinuousTempering,
    Coordinates,
    DiagonalThermostat,
    Euler,
    LinearMap,
    MatrixThermostat,
    Metadynamics,
    ModeJumps,
    Modes,
    Refresh,
    ScheduledTempering,
    TensorThermostat,
    well_tempered,
)
from tacthmc.potentials import label_noise

EVERY = 10
KEEP = tacthmc.Keep(every=EVERY)
FROM_THE_START = tacthmc.Keep(every=EVERY, after=0)
KEEPS = {"tact-scheduled": tacthmc.Keep(every=EVERY, after=0, relaxation_window=16)}
"""What is kept of a sampler's run, where that is not ``FROM_THE_START``."""

RMS = optax.scale_by_rms()
SCALE = np.array([[1.0, 0.2, 0.0], [0.2, 0.8, 0.1], [0.0, 0.1, 1.2]], np.float32)
SHIFT = np.array([0.1, -0.2, 0.3], np.float32)
WIDENING = Coordinates(center="mean")
LINEAR = Coordinates(LinearMap(SCALE, shift=SHIFT), center="mean")


def jumps(every: int) -> ModeJumps:
    """Jumps between two modes that the target of the table, which has one, does not have."""
    centers = np.array([[0.2, -0.1, 0.3], [-1.0, 1.0, -0.5]])
    scales = np.array([[[0.9, 0, 0], [0.3, 0.8, 0], [0, 0.2, 1.1]], np.diag([0.5, 1.5, 0.7])])
    return ModeJumps(Modes(centers, scales, [0.6, 0.4]), every)


def seven(eta: Any) -> list[Any]:
    """The paper's tuple."""
    return [eta, eta, 0.1, 0.1, 1.0, 1.0, EVERY]


class OnAllData(tacthmc.dynamics.Sampler):
    """A sampler that needs exact energies, with those of any potential and a base.

    It leaves out the noise and the batches of the table's potentials.
    """

    inner: Any

    @property
    def gradients_per_step(self):
        return self.inner.gradients_per_step

    def init(self, key, position, model=None):
        return self.inner.init(key, position, model)

    def noise(self, key, position):
        return self.inner.noise(key, position)

    def advance(self, noise, state, potential, batch):
        exact = tacthmc.potential(potential.energy)
        base = samplers.gaussian_base(0.0, 2.0)
        return self.inner.advance(noise, state, samplers.with_base(exact, base), ())


def tempered(eta: Any, bias: Any, thermostat: Any) -> tacthmc.dynamics.Langevin:
    return tacthmc.tact(eta, thermostat=thermostat, tempering=ContinuousTempering(bias=bias))


SAMPLERS: dict[str, Callable[[Any], tacthmc.dynamics.Sampler]] = {
    "tact": lambda eta: tacthmc.tact(eta),
    "tact-euler": lambda eta: tacthmc.tact(eta, integrator=Euler()),
    "tact-authors": lambda eta: samplers.tact_from_tuple(seven(eta), num_data=1, variant="authors"),
    "tact-algorithm1": lambda eta: samplers.tact_from_tuple(seven(eta), num_data=1),
    "tact-tensor-metadynamics": lambda eta: tempered(eta, Metadynamics(), TensorThermostat()),
    "tact-diagonal-well-tempered": lambda eta: tempered(
        eta, well_tempered(5.0), DiagonalThermostat()
    ),
    "tact-matrix": lambda eta: tacthmc.tact(
        eta, thermostat=MatrixThermostat(), bath_temperature=1.3
    ),
    "tact-widening": lambda eta: tacthmc.tact(eta, coordinates=WIDENING),
    "tact-linear": lambda eta: tacthmc.tact(eta, coordinates=LINEAR),
    "tact-scheduled": lambda eta: tacthmc.tact(eta, tempering=ScheduledTempering(60, rest=0.6)),
    "tact-scheduled-widening": lambda eta: tacthmc.tact(
        eta, tempering=ScheduledTempering(60, start=5), coordinates=WIDENING
    ),
    "tact-scheduled-euler": lambda eta: tacthmc.tact(
        eta, tempering=ScheduledTempering(60), integrator=Euler()
    ),
    "without-thermostat": lambda eta: samplers.without_thermostat(eta),
    "sgnht": lambda eta: tacthmc.sgnht(eta, refresh=Refresh(every=EVERY)),
    "sgnht-jumps": lambda eta: tacthmc.sgnht(eta, jumps=jumps(EVERY)),
    "tact-jumps": lambda eta: tacthmc.tact(
        eta, coordinates=Coordinates(LinearMap(SCALE, shift=SHIFT)), jumps=jumps(25)
    ),
    "adjusted": lambda eta: OnAllData(samplers.adjusted_langevin(eta)),
    "sghmc": lambda eta: tacthmc.sghmc(eta, noise_estimate=0.5),
    "sgld": lambda eta: tacthmc.sgld(eta),
    "psgld": lambda eta: tacthmc.samplers.psgld(eta),
    "adam": lambda eta: samplers.adam(eta),
    "momentum-sgd": lambda eta: samplers.momentum_sgd(eta),
    "optimizer": lambda eta: tacthmc.optimizer(RMS, eta),
    "replica-exchange": lambda eta: tacthmc.replica_exchange(
        eta, temperatures=(1, 2, 4), swap_every=3, energy_noise="measured"
    ),
    "replica-path": lambda eta: OnAllData(
        tacthmc.replica_exchange(eta, inverse_temperatures=(1, 0.5, 0), num_leapfrog=2)
    ),
    "replica-path-noisy": lambda eta: tacthmc.replica_exchange(
        eta,
        inverse_temperatures=(1, 0.5, 0),
        base=samplers.gaussian_base(0.0, 2.0),
        swap_every=3,
        energy_noise="measured",
    ),
    "cyclical": lambda eta: tacthmc.cyclical(eta, cycle_steps=30, explore=0.3),
    "restarted": lambda eta: tacthmc.restarted(
        tacthmc.sgnht(eta), every=20, start=from_anywhere, burn=5
    ),
    "ct-hmc": lambda eta: OnAllData(samplers.ct_hmc(eta, 3)),
    "ctld": lambda eta: samplers.ctld(eta),
}

START = {"a": np.array([0.5, -0.3]), "b": np.array([[0.2]])}


def keep_of(name: str) -> tacthmc.Keep:
    """What is kept of a sampler's run, from its first step on."""
    return KEEPS.get(name, FROM_THE_START)


def every_sampler(*fast: str) -> list[Any]:
    """All names, as parameters of a test; those that are not named here are for the slow suite."""
    assert set(fast) <= set(SAMPLERS)
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in SAMPLERS]


def chains_of_each(samplers: list[Any], chains: int) -> list[Any]:
    """A list for :func:`tacthmc.sample`, which makes it one compiled program."""
    return [sampler for sampler in samplers for _ in range(chains)]


def from_anywhere(key):
    return jax.tree.map(lambda x: jax.random.normal(key, x.shape), START)


def energy(position):
    return 0.5 * jnp.sum(position["a"] ** 2) + jnp.sum(jnp.cosh(position["b"]))


def start(dtype=jnp.float32):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), START)


def noisy():
    return tacthmc.noisy(tacthmc.potential(energy), force=1.0, energy=0.5)


@cache
def minibatched(batches):
    """The same object each time, so that its compiled programs are found again."""
    data = jnp.asarray(np.random.default_rng(0).normal(size=(23, 2)), jnp.float32)
    return tacthmc.posterior(
        lambda p: -energy(p),
        lambda p, x: -0.5 * jnp.sum((x - p["a"]) ** 2),
        data,
        5,
        batches=batches,
    )


@cache
def mislabeled(batches):
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
