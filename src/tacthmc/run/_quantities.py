"""What a condition checks of the draws: the energy, some parameters, and the modes they are in."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tacthmc.diagnostics._mixing import ess, mean_ess, rhat
from tacthmc.diagnostics._weights import influence, weighted_rhat, weighted_sd
from tacthmc.dynamics import Langevin, Modes
from tacthmc.run._effective import Effective
from tacthmc.run._held_draws import Table
from tacthmc.run._mode_notes import MIN_ENTRIES, MIN_NOTABLE_SHARE, place_of


class Quantity(NamedTuple):
    """A number of each draw that a check looks at."""

    name: str
    values: np.ndarray
    """Of (chain, draw)."""
    is_share: bool = False
    """Whether it is 0 or 1. Ranks of these have so many ties that R-hat is computed without."""
    most: float = math.inf
    """An upper bound on its effective draws."""


class Measured(NamedTuple):
    """A quantity, measured."""

    name: str
    effective: float
    rhat: float

    def holds(self, condition: Effective) -> bool:
        """Whether the condition holds for it."""
        return self.effective >= condition.draws and self.rhat <= condition.rhat


def measured(quantity: Quantity, weights: np.ndarray | None) -> Measured:
    """Effective draws and R-hat of a quantity."""
    values = quantity.values
    effective = min(effective_count(values, weights), quantity.most)
    if quantity.is_share and weights is None:
        weights = np.ones_like(values)
    if len(values) == 1:
        # The halves of a single chain are compared as if they were chains.
        values, weights = _halves(values), None if weights is None else _halves(weights)
    # Chains that stand still have no variance.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = rhat(values) if weights is None else weighted_rhat(values, weights)
    return Measured(quantity.name, effective, math.inf if math.isnan(found) else found)


def effective_count(values: np.ndarray, weights: np.ndarray | None) -> float:
    """The effective draws; zero if they cannot be counted, and of a constant, which tells nothing.

    (By the usual formula a constant has as many effective draws as draws.)
    """
    if not np.ptp(values) > 0:
        return 0.0
    found = ess(values) if weights is None else _weighted_ess(values, weights)
    return 0.0 if math.isnan(found) else found


def _weighted_ess(values: np.ndarray, weights: np.ndarray) -> float:
    """The effective draws of a weighted mean."""
    shares, sd = influence(values, weights), weighted_sd(values, weights)
    spread = float(shares.var())
    return sd**2 / (spread / mean_ess(shares)) if sd > 0 and spread > 0 else math.nan


def _halves(values: np.ndarray) -> np.ndarray:
    half = values.shape[1] // 2
    return values[:, : 2 * half].reshape(2, half)


def quantities(table: Table, names: list[str], modes: Modes | None) -> list[Quantity]:
    """All that is checked: the energy, the scalars with these names, and the share of each mode."""
    found = [Quantity("the energy", table.stats["energy"])]
    found += [Quantity(name, table.scalars[:, :, k]) for k, name in enumerate(names)]
    return found if modes is None else [*found, *_shares(table.stats["mode"], modes)]


def _shares(labels: np.ndarray, modes: Modes) -> Iterator[Quantity]:
    """Whether a draw is in a mode, for each mode whose share matters.

    If a mode was entered or left only a few times, that number bounds the effective draws. So short
    visits cannot look like independent draws.
    """
    expected = np.exp(np.asarray(modes.log_weights, float))
    for k in range(modes.count):
        inside = labels == k
        shares = float(inside.mean()), float(expected[k])
        if max(shares) < MIN_NOTABLE_SHARE or min(shares) > 1 - MIN_NOTABLE_SHARE:
            continue
        changes = np.diff(inside.astype(int), axis=1)
        fewest = min(int(np.sum(changes > 0)), int(np.sum(changes < 0)))
        most = math.inf if fewest >= MIN_ENTRIES else float(fewest)
        yield Quantity(place_of(modes, k), inside.astype(float), is_share=True, most=most)


def known_modes(samplers: list[Any]) -> Modes | None:
    """The modes that all chains jump between, if there are several."""
    found = [s.jumps.modes for s in samplers if isinstance(s, Langevin) and s.jumps is not None]
    if not found or found[0].count < 2:
        return None
    first = np.asarray(found[0].centers)
    # Chains with other lists number their modes in another way.
    alike = all(m is found[0] or np.array_equal(m.centers, first) for m in found)
    return found[0] if alike else None
