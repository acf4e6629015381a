"""What repeats of a run are worth: effective draws per million gradients, and how honest they are.

The squared error of an estimate over independent repeats, and not an autocorrelation, says how many
independent draws a run was worth: v/MSE for a feature of variance v. Of modes and of signs all
features count together, Σv/ΣMSE, which is p(1 − p)/MSE for two modes. Of means the worst counts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.modes.targets import Truth

MILLION = 1e6
LEVEL, RESAMPLES = 0.9, 2_000
"""The probability of an interval, and the number of resamples behind it."""
LEAST_ERROR = 1e-12
"""The smallest mean squared error over the variance; by chance a few shares may be exact."""
MAX_HEAT = 0.1
"""How far the temperature inside of modes may be off, beyond three standard errors of it."""
MIN_COVERAGE = 0.1
"""The share of the modes that a chain has to visit: below it, shares are those of the starts."""


class Score(NamedTuple):
    """What is said of all repeats of one setting."""

    effective: float
    """Effective draws per million gradients."""
    interval: tuple[float, float]
    """Its bootstrap interval over repeats, at 90%."""
    repeats: int
    gradients: float
    """The mean number of gradients of a repeat."""
    error: float
    """The root of the squared error, summed over features, as a mean over repeats."""
    stated: float | None
    """The same of the standard errors that the chains themselves give."""
    total_variation: float | None
    """Between the estimated and the true shares of modes, as a mean over repeats."""
    temperature: float | None
    """Inside of modes; 1 is right."""
    is_hot: bool
    """Whether that is off for certain."""
    coverage: float | None
    """The share of modes that one chain visits; None for populations, and for a single mode."""
    warned: float | None
    """The share of repeats of which the sampler itself said that something was wrong."""
    failed: float
    """The share of repeats that ended without finite draws."""
    log_z: tuple[float, float] | None
    """The mean and the standard deviation over repeats."""

    @property
    def crosses(self) -> bool:
        """Whether chains go from mode to mode, as far as that can be asked."""
        return self.coverage is None or self.coverage >= MIN_COVERAGE

    @property
    def counts(self) -> bool:
        """Whether this setting may be the best of its rival."""
        return self.crosses and not self.is_hot and self.failed < 1

    @property
    def honesty(self) -> float | None:
        """The error over the stated error; 1 is right, and more than 1 says too little."""
        return self.error / self.stated if self.stated else None


def effective(truth: Truth, estimates: np.ndarray) -> float:
    """Independent draws that a repeat was worth, from estimates (repeat, feature).

    >>> from benchmarks.modes.targets.definition import modes
    >>> truth = modes(lambda x: (x[:, 0] > 0).astype(int), [0.3, 0.7])
    >>> round(effective(truth, np.array([[0.31, 0.69], [0.29, 0.71]])), 1)
    2100.0
    """
    return float(_effective(truth, (np.asarray(estimates, float) - truth.mean) ** 2))


def _effective(truth: Truth, squares: np.ndarray) -> np.ndarray:
    """The same of squared errors (…, repeat, feature), over the last two axes."""
    errors = np.maximum(squares.mean(axis=-2), LEAST_ERROR * truth.variance)
    if truth.kind == "means":
        return np.min(truth.variance / errors, axis=-1)
    return truth.variance.sum() / errors.sum(axis=-1)


def score(truth: Truth, repeats: Sequence[dict[str, Any]]) -> Score:
    """Everything about repeats as :func:`benchmarks.modes.judge.judged` made them."""
    estimates = np.array([one["estimate"] for one in repeats], float)
    squares = (estimates - truth.mean) ** 2
    spent = np.array([one["gradients"] for one in repeats], float)
    picked = np.random.default_rng(0).integers(len(repeats), size=(RESAMPLES, len(repeats)))
    resampled = _effective(truth, squares[picked]) * MILLION / spent[picked].mean(axis=1)
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    heat, is_hot = _heat(_known(repeats, "temperature"))
    stated = [np.sum(np.square(one["stated"])) for one in repeats if one.get("stated")]
    log_z = _known(repeats, "log_z")
    return Score(
        effective=float(_effective(truth, squares)) * MILLION / float(spent.mean()),
        interval=(float(low), float(high)),
        repeats=len(repeats),
        gradients=float(spent.mean()),
        error=float(np.sqrt(squares.sum(axis=1).mean())),
        stated=float(np.sqrt(np.mean(stated))) if stated else None,
        total_variation=_total_variation(truth, estimates),
        temperature=heat,
        is_hot=is_hot,
        coverage=_mean(_known(repeats, "coverage")),
        warned=_mean(_known(repeats, "warned")),
        failed=sum(bool(one.get("failed")) for one in repeats) / len(repeats),
        log_z=(float(log_z.mean()), float(log_z.std(ddof=1))) if len(log_z) > 1 else None,
    )


def _known(repeats: Sequence[dict[str, Any]], name: str) -> np.ndarray:
    return np.array([one[name] for one in repeats if one.get(name) is not None], float)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _heat(temperatures: np.ndarray) -> tuple[float | None, bool]:
    """The mean temperature, and whether it is off by more than chance and more than a little."""
    if not len(temperatures):
        return None, False
    mean = float(temperatures.mean())
    error = (
        float(temperatures.std(ddof=1) / np.sqrt(len(temperatures)))
        if len(temperatures) > 1
        else 0.0
    )
    return mean, abs(mean - 1) - 3 * error > MAX_HEAT


def _total_variation(truth: Truth, estimates: np.ndarray) -> float | None:
    if not truth.has_modes:
        return None
    away = np.abs(estimates - truth.mean)
    if truth.kind == "signs":
        return float(away.mean())
    return float(0.5 * away.sum(axis=1).mean())
