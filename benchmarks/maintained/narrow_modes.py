"""How often the search for modes finds a narrow mode in a random direction.

    python -m benchmarks narrow_modes [--repeats 20] [--gradients 120000]

Two Gaussians of equal mass: one of standard deviation 1, in which the search begins, and a narrow
one six away. Each repeat has another direction and another key. Rows that the file has are skipped.
"""

from argparse import ArgumentParser, Namespace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import tacthmc
from benchmarks.record import Rows, about, add_again
from tacthmc.tuning import search_modes

DISTANCE = 6.0
DIRECTIONS_SEED = 100
"""The seed of the first direction, apart from the keys of the searches."""
CASES = [
    (dimension, width)
    for dimension, widths in {
        2: (0.03, 0.01, 0.003),
        3: (0.1, 0.05, 0.02),
        5: (0.3, 0.2, 0.1),
        8: (0.5, 0.3, 0.2),
        16: (0.7, 0.5, 0.3),
    }.items()
    for width in widths
]
"""The dimension and the standard deviation of the narrow mode."""
QUICK = {"repeats": 1, "gradients": 5_000.0, "cases": 1}
SAME = ("dimension", "width", "repeats", "gradients")


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--gradients", type=float, default=120_000.0)
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many")
    add_again(parser)


def main(args: Namespace) -> None:
    rows = Rows(args.out, about(args, distance=DISTANCE), SAME, again=args.again)
    for dimension, width in CASES[: args.cases]:
        row = {"dimension": dimension, "width": width}
        row |= {"repeats": args.repeats, "gradients": args.gradients}
        if rows.has(row):
            continue
        found = sum(is_found(dimension, width, i, args.gradients) for i in range(args.repeats))
        rows.add(row | {"found": found})
        print(f"D = {dimension}, sd {width:g}: found {found} of {args.repeats}", flush=True)
        jax.clear_caches()


def is_found(dimension: int, width: float, number: int, gradients: float) -> bool:
    """Whether a search lists both modes."""
    direction = np.random.default_rng(DIRECTIONS_SEED + number).normal(size=dimension)
    place = jnp.asarray(DISTANCE * direction / np.linalg.norm(direction), jnp.float32)

    def log_normal(x: Float[Array, " d"], mean: Array | float, sd: float) -> Array:
        return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd))

    def energy(x: Float[Array, " d"]) -> Array:
        return -jnp.logaddexp(log_normal(x, 0.0, 1.0), log_normal(x, place, width))

    start = jnp.zeros((1, dimension))
    search = search_modes(jax.random.key(number), tacthmc.potential(energy), start, gradients)
    return any(np.linalg.norm(one.center - place) < width for one in search.found)
