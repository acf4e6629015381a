"""What is watched of a chain: sums for a row, round trips, and the first bad number."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from tacthmc._typing import Scalar
from tacthmc.dynamics._state import Info

# The order is that in which a cause shows: a bad energy spoils all else in the same step.
QUANTITIES = ("energy", "theta", "thermostat", "xi", "xi_thermostat")


class Health(NamedTuple):
    """The first step after which something was not finite (0: none yet), and what it was."""

    step: Int[Array, ""]
    what: Int[Array, ""]


class Tally(NamedTuple):
    """Sums over the steps of one interval."""

    plateau: Scalar
    kinetic: Scalar | None
    xi_kinetic: Scalar | None
    trips: Int[Array, ""] | None


class Last(NamedTuple):
    """What a row has of its last step."""

    keep: Bool[Array, ""]
    energy: Scalar
    thermostat: Scalar | None
    xi: Scalar | None
    temperature: Scalar | None
    xi_thermostat: Scalar | None
    felt_energy: Scalar | None


class Watch(NamedTuple):
    """All that is watched of a chain, from step to step.

    Each part is a handful of operations on one number a chain: looking at whole blocks of steps
    afterwards instead was tried, and takes longer.
    """

    tally: Tally
    last: Last
    out_hot: Bool[Array, ""]
    health: Health


def watch(info: Info, out_hot: Bool[Array, ""], health: Health) -> Watch:
    """Nothing seen in this interval yet; ``info`` has the shapes of one step's report."""
    info = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), info)
    tally = Tally(
        jnp.zeros_like(info.energy),
        info.kinetic_temperature,
        info.xi_kinetic_temperature,
        None if info.hot is None else jnp.zeros((), int),
    )
    return Watch(tally, _last(info), out_hot, health)


def watched(watch: Watch, state: Any, info: Info) -> Watch:
    """With one more step, which ended in ``state``."""
    tally, out_hot = watch.tally, watch.out_hot
    trips = tally.trips
    if trips is not None and info.hot is not None:
        # A journey plateau → next to a wall → plateau ends.
        home = out_hot & info.at_unit_temperature
        trips, out_hot = trips + home.astype(trips.dtype), (out_hot | info.hot) & ~home
    tally = Tally(
        tally.plateau + info.at_unit_temperature.astype(tally.plateau.dtype),
        _plus(tally.kinetic, info.kinetic_temperature),
        _plus(tally.xi_kinetic, info.xi_kinetic_temperature),
        trips,
    )
    return Watch(tally, _last(info), out_hot, _examined(watch.health, state, info))


def _last(info: Info) -> Last:
    return Last(
        info.keep,
        info.energy,
        info.thermostat,
        info.xi,
        info.temperature,
        info.xi_thermostat,
        info.felt_energy,
    )


def _examined(health: Health, state: Any, info: Info) -> Health:
    moved = info.kinetic_temperature
    if moved is None:
        # Without momenta, whose sum of squares is at hand, θ itself has to be summed up.
        leaves = jax.tree.leaves(state.position)
        moved = sum((jnp.sum(x).astype(info.energy.dtype) for x in leaves), 0 * info.energy)
    values = (info.energy, moved, info.thermostat, info.xi, info.xi_thermostat)
    what = jnp.zeros((), int)
    for bit, value in enumerate(values):
        if value is not None:
            what = what + jnp.where(jnp.isfinite(value), 0, 1 << bit)
    first = (health.step == 0) & (what > 0)
    return Health(jnp.where(first, state.step, health.step), jnp.where(first, what, health.what))


def _plus(total: Scalar | None, value: Scalar | None) -> Scalar | None:
    return None if total is None or value is None else total + value
