"""The local moves of replicas with mini-batches, from the numbers of θ at unit temperature."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from tacthmc._positions import scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics import Coordinates, Langevin
from tacthmc.tuning._bursts import Burst, flat_draws, stacked
from tacthmc.tuning._ladder import climb_ladder
from tacthmc.tuning._mode_search import Search
from tacthmc.tuning._notes import Notes
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._replica_base import Base, base_of_draws, shapes_of
from tacthmc.tuning._replica_moves import NoisyMoves
from tacthmc.tuning._theta_numbers import final_numbers, first_numbers, thermostat_for
from tacthmc.tuning._unit_temperature import starts_in


class NoisyNumbers(NamedTuple):
    """Local moves, a base, and what they took."""

    moves: NoisyMoves
    base: Base
    positions: Position
    """A position at unit temperature for each chain."""
    gradients: int


def noisy_numbers(
    key: PRNGKey,
    plateau: Plateau,
    search: Search,
    base: Base | None,
    notes: Notes,
) -> NoisyNumbers:
    """Choose the numbers of θ by chains at unit temperature, and a base if there is none.

    Without modes or a prior, chains are heated until they come back elsewhere, as for
    :func:`tacthmc.tact`, and the base covers the draws at that temperature.
    """
    keys = jax.random.split(key, 4)
    if search.found:
        modes = search.modes(scalar_dtype(plateau.like))
        places = starts_in(keys[0], modes, plateau.like, plateau.bursts.chains)
        plateau.positions = plateau.from_theta(places)
    steps = first_numbers(keys[1], plateau, notes)
    if base is None:
        notes.begin("climbing a ladder of temperatures")
        ladder = climb_ladder(keys[3], plateau.bursts, plateau.burst, steps.eta, steps.c)
        hottest = ladder.hottest[0] if ladder.is_useful else 1.0
        level = next(one for one in ladder.levels if one.temperature >= hottest)
        base = base_of_draws(_theta_draws(plateau, level.burst), level.temperature)
        plateau.positions = ladder.widest.positions
    theta = final_numbers(keys[2], plateau, [], notes)
    thermostat = notes.choose("thermostat", *thermostat_for(plateau.like, theta, True))
    dynamics = Langevin(
        theta.eta,
        noise=theta.c,
        thermostat=thermostat,
        coordinates=Coordinates(plateau.linear),
    )
    moves = NoisyMoves(dynamics, theta.eta, shapes_of(base, search, plateau.like))
    positions = plateau.to_theta(plateau.burst.positions)
    return NoisyNumbers(moves, base, positions, plateau.bursts.gradients)


def _theta_draws(plateau: Plateau, burst: Burst) -> Float[np.ndarray, "n d"]:
    vectors = burst.draws.reshape(-1, burst.draws.shape[-1])
    positions = plateau.to_theta(stacked(vectors, plateau.like))
    return flat_draws(jax.tree.map(lambda x: x[None], positions))[0]
