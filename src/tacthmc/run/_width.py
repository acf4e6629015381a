"""Whether the draws of a run are as wide as the posterior (:mod:`tacthmc.diagnostics._stein`)."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from tacthmc._positions import dimension, leaf_names, scalar_names
from tacthmc.diagnostics._mean_errors import MeanErrors, mean_errors
from tacthmc.diagnostics._modes import find_modes
from tacthmc.diagnostics._stein import centers, principal_terms, stein_terms
from tacthmc.diagnostics._width import MIN_ESS, Width, is_off
from tacthmc.run._by_mode import MAX_FOUND_SCALARS, known_modes, mode_labels
from tacthmc.run._draw_gradients import (
    MAX_COORDINATES,
    DrawGradients,
    NotCheckedError,
    draw_gradients,
)
from tacthmc.run._summary_text import shortened

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MANY_COORDINATES, MIN_ESS_OF_MANY = 32, 30
"""The number of coordinates whose mean temperature is known from fewer effective draws, and how
few."""
MAX_DIRECTIONS, DRAWS_PER_DIRECTION = 128, 8
"""The largest dimension in which principal directions are looked at, and the effective draws for
each."""
MAX_EXCESS, MAX_EXCESS_SDS = 100.0, 10.0
"""The energy of a draw above the median, in kT, beyond which it is no draw from exp(−U): so much,
and so many standard deviations of the energy of a Gaussian."""
MAX_DECIMAL = 1e4
"""The number from which there are no decimals."""
MAX_NAME_WIDTH = 60
"""The number of columns of a name in the table."""
MAX_SHOWN = 8
"""The largest number of rows of the table."""
MIN_MODE_SHARE = 0.02
"""The share of a mode from which its own width is looked at."""


@dataclass(frozen=True)
class Widths:
    """The result of :attr:`Run.width`. ``str`` gives a table.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=4.0)
    >>> key, start = jax.random.key(0), jnp.zeros(2)
    >>> hot = tacthmc.sample(key, tacthmc.sghmc(0.05), target, start, 20_000, 4)
    >>> [one.name for one in hot.width.wrong][:1], hot.width.leaves[0].ratio > 1.5
    (['theta'], True)
    """

    leaves: list[Width] = field(default_factory=list)
    """The mean over the coordinates of each leaf."""
    worst: list[Width] = field(default_factory=list)
    """The single coordinates that are farthest away, by their errors."""
    directions: list[Width] = field(default_factory=list)
    """The principal directions that are farthest away. The first one is the narrowest."""
    modes: list[Width] = field(default_factory=list)
    """The mean over all coordinates in each mode, if there are several."""
    wrong: list[Width] = field(default_factory=list)
    """Those that are off by more than chance and by more than a little."""
    force: float = 0.0
    """The largest mean force that is not explained by chance, times the width of its coordinate:
    about how many standard deviations the draws are away from their place."""
    forced: str = ""
    """The name of that coordinate."""
    flat: list[str] = field(default_factory=list)
    """The leaves on which the energy does not depend: the gradient is zero at every draw."""
    slope: float = float("nan")
    """How much energies change over how much they should by their gradients; NaN if unknown."""
    impossible: int = 0
    """The number of draws whose energy no draw from exp(−U) has."""
    not_finite: int = 0
    """The number of draws at which the gradient is not finite."""
    num_draws: int = 0
    gradients: int | float = 0
    """What it cost, in gradients of a step."""
    why_not: str = ""
    """Why widths were not checked."""

    @property
    def checked(self) -> bool:
        """Whether there are enough draws and gradients for a verdict on any leaf."""
        return bool(self.leaves) and not self.why_not

    def __str__(self) -> str:
        if not self.checked:
            return f"widths are not checked: {self.why_not}"
        rows = (*self.leaves[:MAX_SHOWN], *self.worst, *self.modes[:MAX_SHOWN])
        shown = {shortened(one.name, MAX_NAME_WIDTH): one for one in rows}
        width = max(map(len, shown))
        return "\n".join(
            f"{name.ljust(width)}  {_digits(one.temperature)} ± {_digits(one.error)}"
            for name, one in shown.items()
        )


def _digits(value: float) -> str:
    """A number near 1 with three decimals, and a large one in short."""
    return f"{value:.3f}" if abs(value) < MAX_DECIMAL else f"{value:.3g}"


def measured_widths(run: "Run") -> Widths:
    """Compute the widths of a run."""
    try:
        found = draw_gradients(run)
    except NotCheckedError as why:
        return Widths(why_not=str(why))
    finite = np.isfinite(found.gradients).all(axis=2)
    if not finite.all():
        return Widths(
            why_not=f"the gradient is not finite at {int(np.sum(~finite))} of {finite.size} draws",
            not_finite=int(np.sum(~finite)),
            num_draws=finite.size,
            gradients=found.spent,
        )
    return _Measured(run, found).widths()


class _Group(NamedTuple):
    """Temperatures of one kind, and the effective draws of what they are temperatures of."""

    found: MeanErrors
    ess: Float[np.ndarray, " k"]
    rows: list[Width]
    least: Any = MIN_ESS
    """The smallest number of effective draws for a verdict."""

    def farthest(self) -> list[Width]:
        """The two that are farthest from 1 by their errors."""
        error = np.maximum(self.found.error, np.finfo(float).tiny)
        order = np.argsort(-np.nan_to_num(np.abs(self.found.mean - 1) / error))
        return [self.rows[i] for i in order[:2].tolist()]


class _Measured:
    """The parts of the result, each with its own temperatures."""

    def __init__(self, run: "Run", found: DrawGradients):
        self.run, self.found = run, found
        self.shapes = run.draw_shapes()
        self.at = centers(found.draws, _labels(run, found))
        self.terms = stein_terms(found.draws, found.gradients, self.at)
        self.ess = mean_errors(found.draws).ess

    def widths(self) -> Widths:
        groups = self._groups()
        tests = sum(len(group.rows) for group in groups.values())
        off = {
            name: is_off(group.found, tests, group.ess, group.least)
            for name, group in groups.items()
        }
        force, forced = self._force(tests)
        return Widths(
            leaves=groups["leaves"].rows,
            worst=groups["coordinates"].farthest() if "coordinates" in groups else [],
            directions=groups["directions"].farthest() if "directions" in groups else [],
            modes=groups["modes"].rows if "modes" in groups else [],
            wrong=[
                group.rows[i] for name, group in groups.items() for i in np.flatnonzero(off[name])
            ],
            force=force,
            forced=forced,
            flat=self._flat(),
            slope=self.found.slope,
            impossible=_impossible(self.found.energies, dimension(self.shapes)),
            num_draws=self.found.places.size,
            gradients=self.found.spent,
        )

    def _groups(self) -> dict[str, _Group]:
        """All temperatures, by what they belong to."""
        size = dimension(self.shapes)
        groups = {"leaves": self._leaves()}
        if len(groups["leaves"].rows) < size <= MAX_COORDINATES:
            found = mean_errors(self.terms.total)
            groups["coordinates"] = _Group(found, self.ess, _rows(found, self._names(size)))
        least = float(self.ess.min())
        if 1 < size <= MAX_DIRECTIONS and least >= DRAWS_PER_DIRECTION * size:
            terms = principal_terms(self.found.draws, self.found.gradients, self.at)
            names = [f"principal direction {i + 1} of {size}" for i in range(size)]
            found = mean_errors(terms)
            groups["directions"] = _Group(found, np.full(size, least), _rows(found, names))
        if self.terms.shares.shape[2] > 1:
            groups["modes"] = self._modes()
        return groups

    def _leaves(self) -> _Group:
        sizes = self.found.sizes
        bounds = np.cumsum([0, *sizes]).tolist()
        parts = [slice(a, b) for a, b in pairwise(bounds)]
        found = mean_errors(
            np.stack([self.terms.total[:, :, part].mean(axis=2) for part in parts], axis=2)
        )
        ess = np.array([1 / np.mean(1 / self.ess[part]) for part in parts])
        least = np.where(np.array(sizes) >= MANY_COORDINATES, MIN_ESS_OF_MANY, MIN_ESS)
        return _Group(found, ess, _rows(found, leaf_names(self.shapes), sizes), least)

    def _names(self, size: int) -> list[str]:
        return [name for _, _, name in scalar_names(self.shapes, size)]

    def _flat(self) -> list[str]:
        bounds = np.cumsum([0, *self.found.sizes]).tolist()
        parts = zip(leaf_names(self.shapes), pairwise(bounds), strict=True)
        return [name for name, (a, b) in parts if not self.found.gradients[:, :, a:b].any()]

    def _modes(self) -> _Group:
        """The temperature of each mode: a ratio of means, whose error is that of its influence."""
        shares = self.terms.shares
        mean = shares.mean(axis=(0, 1))
        ratio = self.terms.by_mode.mean(axis=(0, 1)) / mean
        errors = mean_errors((self.terms.by_mode - ratio * shares) / mean)
        kept = mean >= MIN_MODE_SHARE
        # The effective draws of a mode are those in it.
        found = MeanErrors(ratio[kept], errors.error[kept], (errors.ess * mean)[kept])
        names = [f"the mode at {_place(place)}" for place in self.at.mean[kept]]
        return _Group(found, found.ess, _rows(found, names))

    def _force(self, tests: int) -> tuple[float, str]:
        """The largest mean force beyond chance, in standard deviations, and its coordinate."""
        size = dimension(self.shapes)
        if size > MAX_COORDINATES:
            return 0.0, ""
        found, sd = mean_errors(self.found.gradients), self.found.draws.std(axis=(0, 1))
        moved = MeanErrors(1 + found.mean * sd, found.error * sd, found.ess)
        away = np.where(is_off(moved, tests, self.ess), np.abs(moved.mean - 1), 0)
        i = int(np.argmax(away))
        return float(away[i]), self._names(size)[i] if away[i] else ""


def _labels(run: "Run", found: DrawGradients) -> np.ndarray:
    """The mode of each chosen draw, by the list of modes or by valleys between the draws."""
    modes = known_modes(run)
    if modes is not None and modes.count > 1 and not run.keep.all_temperatures:
        return np.take_along_axis(mode_labels(run, modes), found.places, axis=1)
    flat = found.draws.reshape(-1, found.draws.shape[2])[:, :MAX_FOUND_SCALARS]
    divided = find_modes(flat)
    if divided is None:
        return np.zeros(found.places.shape, int)
    return divided.labels.reshape(found.places.shape)


def _impossible(energies: np.ndarray | None, size: int) -> int:
    """How many energies are beyond what exp(−U) allows.

    The energy of a draw is above its median by t with a probability of about exp(−t) at most, and
    by exp(−t/3) where tails are as heavy as in Cauchy's law.
    """
    if energies is None or not np.isfinite(energies).any():
        return 0
    most = MAX_EXCESS + MAX_EXCESS_SDS * np.sqrt(size / 2)
    return int(np.sum(~(energies - np.median(energies[np.isfinite(energies)]) <= most)))


def _rows(found: MeanErrors, names: list[str], sizes: list[int] | None = None) -> list[Width]:
    counts = sizes or [1] * len(names)
    return [
        Width(name, float(mean), float(error), float(ess), count)
        for name, mean, error, ess, count in zip(names, *found, counts, strict=True)
    ]


def _place(center: Any) -> str:
    dots = ", …" if len(center) > 3 else ""
    return f"[{', '.join(f'{x:.3g}' for x in center[:3])}{dots}]"
