"""The targets of ``modes``, by name. ``target(name)`` makes one, once in a process."""

from collections.abc import Callable
from functools import cache, partial

from benchmarks.modes.targets import batches, models, planar, several_dimensions
from benchmarks.modes.targets.definition import Target as Target
from benchmarks.modes.targets.definition import Truth as Truth

TARGETS: dict[str, Callable[[], Target]] = {
    "grid": planar.grid,
    "gmm40": planar.gmm40,
    "ring": planar.ring,
    "banana": planar.banana,
    **{
        f"two-modes-{dimension}": partial(several_dimensions.two_modes, dimension)
        for dimension in (8, 16, 64, 128, 1024)
    },
    "wide-narrow": several_dimensions.wide_and_narrow,
    "many-well": several_dimensions.many_well,
    "phi4-0": partial(several_dimensions.phi4, 0.0),
    "phi4-0.0025": partial(several_dimensions.phi4, 0.0025),
    "funnel": several_dimensions.funnel,
    "coin-flip": models.coin_flip,
    "galaxy": models.galaxy,
    "wells": planar.wells,
    **{
        f"mixture-{components}-{num_data}": partial(batches.mixture, components, num_data)
        for components in (2, 3)
        for num_data in (500, 20_000, 1_000_000)
    },
    "logistic": batches.logistic,
    "network": batches.network,
}


@cache
def target(name: str) -> Target:
    """The target of that name. Its functions stay the same, so programs are compiled once.

    >>> target("banana").dimension
    2
    """
    return TARGETS[name]()
