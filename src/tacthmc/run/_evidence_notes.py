r"""Shares of modes counted in two ways: by the draws, and by the evidence of each mode.

The share of mode k is also :math:`Z_k / \sum_j Z_j`, where bridge sampling gives the mass
:math:`Z_k = \int_k e^{-U}` from energies, without a step size. If the two disagree, something is
wrong with one of them: steps that are too long, or a mode that draws do not fill.
"""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from tacthmc.run._by_mode import MAX_EVIDENCE_DRAWS, ByMode, by_mode

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_MODES = 64
"""The largest number of modes whose evidence is computed for a summary."""
MAX_COST = 0.05
"""The largest cost of that, as a share of the gradients of the run."""
MIN_DRAWS = 32
"""The smallest number of draws of each kind that says something about a mode."""
SIGMAS = 4.0
"""The difference of two shares that is a warning, in standard errors."""
ERROR_FACTOR, RELATIVE_ERROR = 2.0, 0.01
"""The error of an evidence relative to its standard error, and the smallest one, because draws of
chains are correlated."""
MIN_DIFFERENCE = 0.01
"""The smallest difference of two shares that is a warning."""


def evidence_notes(run: "Run", count: int) -> list[str]:
    """A warning if shares by draws and by evidence differ, for a run with ``count`` modes."""
    if not 1 < count <= MAX_MODES:
        return []
    draws = min(_affordable(run, count), MAX_EVIDENCE_DRAWS)
    if draws < MIN_DRAWS:
        return []
    note = disagreement(by_mode(run, draws=draws))
    return [note] if note else []


def disagreement(found: ByMode) -> str | None:
    """A warning about the mode whose two shares differ most, if they differ by much."""
    other = evidence_shares(found)
    if other is None:
        return None
    weights, errors = other
    shares = np.array([mode.share for mode in found.modes])
    counted = np.array([mode.error for mode in found.modes])
    limit = SIGMAS * np.hypot(counted, errors)
    away = np.abs(shares - weights)
    # A mode without draws or evidence has a warning of its own.
    checked = (shares > 0) & np.isfinite(limit) & (away > np.maximum(limit, MIN_DIFFERENCE))
    if not checked.any():
        return None
    worst = int(np.argmax(np.where(checked, away, 0)))
    return (
        f"! the share of mode {worst} is {shares[worst]:.3f} ± {counted[worst]:.3f} by draws and"
        f" {weights[worst]:.3f} ± {errors[worst]:.3f} by its evidence: the step size may be too"
        " large, so compare with a quarter of it (run.by_mode() has both)"
    )


def evidence_shares(
    found: ByMode,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]] | None:
    """The shares by evidence and their standard errors, or None if an evidence is unknown."""
    masses = [mode.log_evidence for mode in found.modes]
    logs = np.array([-np.inf if one is None else one.value for one in masses])
    errors = np.array([np.inf if one is None else one.error for one in masses])
    if not np.isfinite(logs).any():
        return None
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    # A mode of no weight has an error of no weight, whatever it is relative to.
    parts = np.where(weights > 0, weights * np.hypot(ERROR_FACTOR * errors, RELATIVE_ERROR), 0.0)
    total = float(np.sum(parts**2))
    own = (1 - weights) ** 2 * parts**2 + weights**2 * (total - parts**2)
    return weights, np.sqrt(own)


def _affordable(run: "Run", count: int) -> int:
    """The number of draws of each kind whose energies take few gradients beside the run."""
    if not run.facts.has_one_energy:
        return 0
    cost = run.facts.batches_per_epoch
    spent = run.num_steps * run.num_chains * run.sampler.gradients_per_step
    return int(MAX_COST * spent / (2 * count * cost))
