"""The step size of steps that are accepted or rejected (:class:`tacthmc.dynamics.Adjusted`)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc._typing import Position, PRNGKey, Scalar
from tacthmc.compiler._random import normals
from tacthmc.potentials import Potential, forces

MIN_ACCEPTED, MIN_ACCEPTED_ANYWHERE = 0.9, 0.7
"""The smallest mean probability that a step is accepted, and that over the draws of one chain.
After a rejection momenta turn around, so chains would walk at random."""
MAX_HALVINGS = 12
"""The largest number of times that η is halved."""
PLACES = 16
"""The number of places of each chain at which steps are tried."""


def accepted_step(
    key: PRNGKey,
    potential: Potential,
    draws: Position,
    chains: int,
    eta: float,
    halvings: int = MAX_HALVINGS,
) -> tuple[float, float, int]:
    """η, halved until steps are accepted, with the mean probability and the gradients it took.

    ``draws`` is a stack of positions, those of one chain after those of another.
    """
    count = jax.tree.leaves(draws)[0].shape[0]
    every = max(1, count // (chains * PLACES))
    some = jax.tree.map(lambda x: x.reshape(chains, -1, *x.shape[1:])[:, ::every], draws)
    rows = jax.tree.leaves(some)[0].shape[1]
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), some)
    spent, mean = 0, 0.0
    for number in range(halvings + 1):
        now = jax.random.fold_in(key, number)
        each = np.asarray(_accepted(now, potential, flat, jnp.asarray(eta)), float)
        spent += 2 * chains * rows
        mean, least = each.mean(), each.reshape(chains, rows).mean(axis=1).min()
        if number == halvings or (mean >= MIN_ACCEPTED and least >= MIN_ACCEPTED_ANYWHERE):
            break
        eta /= 2
    return eta, float(mean), spent


@eqx.filter_jit
def _accepted(
    key: PRNGKey, potential: Potential, positions: Position, eta: Scalar
) -> Float[Array, " n"]:
    """The probability that a leapfrog step with fresh momenta is accepted, at each position."""
    model = potential.init_model()

    def at(pair: Any) -> Scalar:
        key, position = pair
        normal, _ = normals(key, position)
        batch = potential.batch(key, position)

        def kicked(r: Position, u: Any) -> Position:
            return jax.tree.map(lambda r, g: r - 0.5 * eta.astype(r.dtype) * g, r, u.gradient)

        r = jax.tree.map(lambda n: jnp.sqrt(eta).astype(n.dtype) * n, normal)
        here = forces(potential, position, batch, model)
        half = kicked(r, here)
        there = forces(potential, jax.tree.map(jnp.add, position, half), batch, model)
        end = kicked(half, there)
        heat = [jnp.sum(x**2) for x in jax.tree.leaves(end)]
        cold = [jnp.sum(x**2) for x in jax.tree.leaves(r)]
        change = there.energy - here.energy + 0.5 * (sum(heat) - sum(cold)) / eta
        return jnp.where(jnp.isnan(change), 0.0, jnp.exp(-jnp.maximum(change, 0.0)))

    count = jax.tree.leaves(positions)[0].shape[0]
    return jax.lax.map(at, (jax.random.split(key, count), positions))
