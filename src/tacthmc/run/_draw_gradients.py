"""Gradients of U at some draws of a finished run, for checks of their law.

Gradients are of all data where a run of this length can pay for them. Otherwise each is the mean
over a few fresh batches, which no draw has seen. It is then right in the mean for each draw.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tacthmc._positions import dimension, flatten, scalar_dtype, unflatten
from tacthmc.potentials import Potential, forces
from tacthmc.potentials._base import innermost
from tacthmc.potentials._posterior import Posterior

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_COST = 0.05
"""The largest cost, as a share of the gradients of the run."""
MAX_CHEAP_COST = 0.25
"""The same where the gradients are few and small."""
CHEAP_NUMBERS = 1 << 26
"""Examples times parameters that all gradients together may read to be called small."""
MAX_DRAWS = 4096
"""The largest number of draws over all chains."""
MIN_DRAWS = 64
"""The smallest number of draws that is worth it."""
MIN_FULL_DRAWS = 256
"""The number of draws for which gradients of all data are preferred to those of batches."""
MAX_GRADIENTS = 16_384
"""The largest number of gradients of batches."""
MAX_NUMBERS = 1 << 26
"""The largest number of scalars of all chosen draws together."""
MAX_COORDINATES, MIN_LEAF_COORDINATES = 4096, 64
"""The largest number of coordinates of which gradients are returned, beyond the smallest number of
each leaf."""
MAX_BYTES = 1 << 28
"""The largest memory of gradients that are computed together."""
BATCHES_TOGETHER = 16
"""The number of gradients of batches that are computed together."""
TRIED_MOVES, MOVE = 64, 0.03
"""The number of short moves, and their length in standard deviations of the draws."""
MAX_BEND, MIN_KNOWN_MOVES = 0.05, 0.5
"""How much half a move may differ from half of it, and the share of moves of which that holds."""
COARSE_DIGITS = 50
"""The number of rounding errors of an energy that its changes have to exceed."""
READ_DRAWS = 256
"""The number of draws that are read at a time."""
GRADIENT_KEY = 2**31 + 5
"""The number that is folded into the key of the run for fresh batches."""


class DrawGradients(NamedTuple):
    """Some draws at unit temperature, and ∇U there."""

    draws: Float[np.ndarray, "chains draws d"]
    gradients: Float[np.ndarray, "chains draws d"]
    energies: Float[np.ndarray, "chains draws"] | None
    """U of all data, if the gradients are of all data."""
    slope: float
    """How much energies change with θ, over how much they should by their gradients; NaN if that is
    not known."""
    sizes: list[int]
    """How many of these coordinates each leaf has, evenly spread; all of them in few dimensions."""
    places: Int[np.ndarray, "chains draws"]
    """The numbers of the draws in their chains."""
    of_all_data: bool
    spent: int | float
    """The cost in gradients of a step."""


class NotCheckedError(Exception):
    """There are no such gradients; the message says why."""


class _Plan(NamedTuple):
    """How many gradients of which kind."""

    draws: int
    """Draws per chain."""
    batches: int
    """Batches per draw, or 0 for all data."""
    cost: int | float
    """The cost of the gradient of one draw, in gradients of a step."""


def draw_gradients(run: "Run") -> DrawGradients:
    """Choose draws and compute their gradients, or raise :class:`NotCheckedError`."""
    potential = _known_potential(run)
    if run.num_draws * run.num_chains < MIN_DRAWS:
        raise NotCheckedError(f"there are fewer than {MIN_DRAWS} draws at unit temperature")
    like = run.one_draw(0, 0)
    plan = _plan(run, potential, like)
    places = _places(run, plan.draws)
    if places.size < MIN_DRAWS:
        raise NotCheckedError(f"there are fewer than {MIN_DRAWS} draws at unit temperature")
    vectors = _read(run, places)
    if not np.isfinite(vectors).all():
        raise NotCheckedError("there are draws that are not finite")
    chosen = _coordinates(like)
    coordinates = np.concatenate(chosen)
    with jax.enable_x64(run.x64):
        flat = jnp.asarray(vectors.reshape(-1, vectors.shape[-1]), scalar_dtype(like))
        where = jnp.asarray(coordinates)
        if plan.batches:
            key = jax.random.fold_in(run.key, GRADIENT_KEY)
            found = _of_batches(potential, flat, like, where, key, plan.batches)
            energies, slope = None, float("nan")
        else:
            size = _together(potential, like)
            moves = _moves(vectors, coordinates)
            moved = jnp.concatenate([flat, jnp.asarray(moves.ends, flat.dtype)])
            energies, found = _of_all_data(potential, moved, like, where, size)
            energies, found = np.asarray(energies, float), np.asarray(found, float)
            slope = moves.slope(energies, found)
            energies, found = energies[: len(flat)].reshape(places.shape), found[: len(flat)]
    shape = (*places.shape, len(coordinates))
    return DrawGradients(
        draws=vectors[:, :, coordinates].astype(float),
        gradients=np.asarray(found, float).reshape(shape),
        energies=energies,
        slope=slope,
        sizes=[len(leaf) for leaf in chosen],
        places=places,
        of_all_data=not plan.batches,
        spent=plan.cost * places.size,
    )


class _Moves(NamedTuple):
    """Short moves from a few draws, forward and back."""

    draws: Int[np.ndarray, " n"]
    ends: np.ndarray
    steps: Float[np.ndarray, "n k"]
    """The moves in the coordinates that are looked at."""

    def slope(
        self, energies: Float[np.ndarray, " m"], gradients: Float[np.ndarray, "m k"]
    ) -> float:
        """Σ ΔU·(g·Δθ) / Σ (g·Δθ)² over the moves, which is about 1.

        Only moves that are short for the energy count: half of one changes it half as much. NaN if
        there are few, or if energies are too coarse: in single precision they have seven digits.
        """
        count = len(self.draws)
        there = energies[-4 * count :].reshape(4, count)
        whole, half = there[0] - there[1], 2 * (there[2] - there[3])
        expected = 2 * np.sum(gradients[self.draws] * self.steps, axis=1)
        with np.errstate(invalid="ignore"):
            scale = np.maximum(np.abs(whole), np.abs(expected))
            coarse = COARSE_DIGITS * np.finfo(np.float32).eps * np.max(np.abs(there), axis=0)
            short = np.abs(half - whole) <= MAX_BEND * scale
            known = np.isfinite(scale) & (scale > coarse) & short
        if np.mean(known) < MIN_KNOWN_MOVES:
            return float("nan")
        # Two lengths of a move leave out the part of its third power.
        whole, expected = ((4 * half - whole) / 3)[known], expected[known]
        if not expected.any():
            return float("inf")
        return float(np.sum(whole * expected) / np.sum(expected**2))


def _moves(vectors: np.ndarray, coordinates: np.ndarray) -> _Moves:
    """Moves by a small part of the standard deviation of each coordinate, in random directions."""
    flat = vectors.reshape(-1, vectors.shape[-1])
    draws = np.linspace(0, len(flat) - 1, min(TRIED_MOVES, len(flat))).astype(int)
    sd = flat[:, coordinates].std(axis=0, dtype=float)
    # Not along the gradient alone: a direction in which it is zero by mistake has to be tried.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(draws), len(sd)))
    steps = MOVE * signs * sd / np.sqrt(len(sd))
    ends = np.repeat(flat[draws][None], 4, axis=0).astype(float)
    for end, factor in zip(ends, (1.0, -1.0, 0.5, -0.5), strict=True):
        end[:, coordinates] += factor * steps
    return _Moves(draws, ends.reshape(-1, flat.shape[1]), steps)


def _coordinates(like: Any) -> list[np.ndarray]:
    """The coordinates that are looked at, as numbers in the flat position, leaf by leaf."""
    sizes = [math.prod(leaf.shape) for leaf in jax.tree.leaves(like)]
    whole, begin, chosen = sum(sizes), 0, []
    for size in sizes:
        fair = max(MIN_LEAF_COORDINATES, MAX_COORDINATES * size // whole)
        count = size if whole <= MAX_COORDINATES else min(size, fair)
        chosen.append(begin + np.linspace(0, size - 1, count).astype(int))
        begin += size
    return chosen


def _known_potential(run: "Run") -> Potential:
    if not run.program_is_known:
        raise NotCheckedError("the potential of this stored run is not known")
    potential = run.potential
    if potential.traits.num_chains is not None:
        raise NotCheckedError("each chain has an energy of its own")
    if jax.process_count() > 1:
        raise NotCheckedError("the chains are spread over several processes")
    if not potential.traits.has_energy:
        if potential.init_model() is not None:
            raise NotCheckedError("the likelihood depends on a model state")
        try:
            jax.eval_shape(lambda: potential.batch(jax.random.key(0), run.one_draw(0, 0)))
        except ValueError:
            raise NotCheckedError("batches come from a loader") from None
    return potential


def _plan(run: "Run", potential: Potential, like: Any) -> _Plan:
    """The draws and batches that the run can pay for."""
    inner, size = innermost(potential), dimension(like)
    examples, batch = 1, 1
    if isinstance(inner, Posterior):
        examples, batch = inner.num_data, inner.batch_size
    whole = run.num_steps * run.num_chains * run.sampler.gradients_per_step
    most = min(MAX_DRAWS, MAX_NUMBERS // size, run.num_draws * run.num_chains)
    full = examples / batch
    if potential.traits.has_energy:
        count = min(most, int(_budget(whole, examples * size / full) / full))
        if count >= min(MIN_FULL_DRAWS, most) or full == 1:
            return _Plan(_each(count, run.num_chains), 0, full)
    if potential.traits.remembers:
        raise NotCheckedError("gradients of all data cost too much beside the run")
    budget = min(MAX_GRADIENTS, int(_budget(whole, batch * size)))
    count = min(most, budget)
    batches = max(1, min(budget // max(count, 1), math.ceil(full)))
    return _Plan(_each(count, run.num_chains), batches, batches)


def _budget(whole: int, numbers: int | float) -> float:
    """The number of gradients of a step that may be spent, each reading so many numbers."""
    return max(MAX_COST * whole, min(MAX_CHEAP_COST * whole, CHEAP_NUMBERS / numbers))


def _each(count: int, chains: int) -> int:
    if count < MIN_DRAWS:
        raise NotCheckedError("the gradients of enough draws cost too much beside the run")
    return count // chains


def _places(run: "Run", count: int) -> Int[np.ndarray, "chains draws"]:
    """The numbers of evenly spread draws at unit temperature, as many of each chain."""
    cold = [np.arange(run.num_draws)] * run.num_chains
    if run.keep.all_temperatures and "lambda" in run.stats:
        cold = [np.flatnonzero(chain == 1) for chain in run.stats["lambda"]]
    count = min(count, *(len(chain) for chain in cold))
    return np.stack([chain[np.linspace(0, len(chain) - 1, count).astype(int)] for chain in cold])


def _read(run: "Run", places: Int[np.ndarray, "chains draws"]) -> np.ndarray:
    """The chosen draws as vectors, read in blocks."""
    rows: list[list[np.ndarray]] = [[] for _ in places]
    begin = np.zeros(len(places), int)
    for chain, kept, weights in run.blocks(READ_DRAWS):
        here = places[chain] - begin[chain]
        here = here[(here >= 0) & (here < len(weights))]
        begin[chain] += len(weights)
        if here.size:
            leaves = [
                np.asarray(x)[here].reshape(len(here), -1) for x in jax.tree.leaves(kept.position)
            ]
            rows[chain].append(np.concatenate(leaves, axis=1))
    return np.stack([np.concatenate(chain) for chain in rows])


def _together(potential: Potential, like: Any) -> int:
    """The number of gradients of all data that fit into memory together."""

    def pull(position: Any) -> Any:
        return jax.vjp(potential.energy, position)[1]

    held = jax.tree.leaves(jax.eval_shape(pull, like))
    size = sum(math.prod(x.shape) * x.dtype.itemsize for x in held if hasattr(x, "dtype"))
    if size > 4 * MAX_BYTES:
        raise NotCheckedError("gradients of all data need too much memory")
    return int(np.clip(MAX_BYTES // max(size, 1), 1, 256))


@eqx.filter_jit
def _of_all_data(
    potential: Potential, vectors: Array, like: Any, chosen: Array, together: int
) -> tuple[Array, Array]:
    def energy(vector: Array) -> Array:
        return potential.energy(unflatten(vector, like)).astype(vector.dtype)

    def one(vector: Array) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(energy)(vector)
        return value, gradient[chosen]

    return jax.lax.map(one, vectors, batch_size=together)


@eqx.filter_jit
def _of_batches(
    potential: Potential, vectors: Array, like: Any, chosen: Array, key: Array, count: int
) -> Array:
    def one(vector: Array, key: Array) -> Array:
        position = unflatten(vector, like)
        model = potential.init_model()

        def added(total: Array, key: Array) -> tuple[Array, None]:
            found = forces(potential, position, potential.batch(key, position), model)
            return total + flatten(found.gradient, vector.dtype), None

        keys = jax.random.split(key, count)
        return jax.lax.scan(added, jnp.zeros_like(vector), keys)[0][chosen] / count

    keys = jax.random.split(key, len(vectors))
    return jax.lax.map(lambda each: one(*each), (vectors, keys), batch_size=BATCHES_TOGETHER)
