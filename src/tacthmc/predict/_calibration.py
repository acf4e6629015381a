r"""Calibration: whether predictions with 80% confidence are right in 80% of the cases.

Examples are binned by their confidence, the largest probability. For bin b with the share w_b of
the examples, let conf_b be the mean confidence and acc_b the accuracy. The expected calibration
error is

.. math:: \text{ECE} = \sum_b w_b\,|\text{acc}_b - \text{conf}_b|

Reference: C. Guo, G. Pleiss, Y. Sun, K. Weinberger. *On calibration of modern neural networks.*
ICML 2017.
"""

from typing import Any, NamedTuple

import numpy as np

from tacthmc import _checks as checks
from tacthmc.predict._labeled import checked


class Reliability(NamedTuple):
    """Confidence and accuracy in bins of confidence; NaN in empty bins."""

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    share: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error."""
        used = self.share > 0
        gaps = np.abs(self.accuracy[used] - self.confidence[used])
        return float(np.sum(self.share[used] * gaps))


def reliability(probabilities: Any, labels: Any, *, bins: int = 15) -> Reliability:
    """Confidence and accuracy in bins (low, high] of equal width.

    >>> found = reliability([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]], [0, 0, 1], bins=2)
    >>> found.confidence.round(2).tolist(), found.accuracy.round(2).tolist()
    ([nan, 0.8], [nan, 0.67])
    """
    checks.whole("bins", bins, 1)
    rows, right = checked(probabilities, labels)
    confidence, hit = rows.max(axis=1), rows.argmax(axis=1) == right
    edges = np.linspace(0, 1, bins + 1)
    # Averages over draws may exceed 1 by rounding.
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    count = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            edges,
            np.bincount(place, confidence, bins) / count,
            np.bincount(place, hit, bins) / count,
            count / len(rows),
        )


def calibration_error(probabilities: Any, labels: Any, *, bins: int = 15) -> float:
    """The expected calibration error.

    >>> round(calibration_error([[0.9, 0.1], [0.3, 0.7], [0.2, 0.8]], [0, 0, 1], bins=2), 4)
    0.1333
    """
    return reliability(probabilities, labels, bins=bins).error


def plot_reliability(found: Reliability, ax: Any = None) -> Any:
    """Plot accuracy against confidence, with the share of examples. Returns the axes.

    >>> found = reliability([[0.9, 0.1], [0.2, 0.8]], [0, 1], bins=2)
    >>> plot_reliability(found).get_title()
    'calibration error 0.150'
    """
    from tacthmc.diagnostics._plots import axes

    ax = axes(ax)
    used = found.share > 0
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    ax.bar(
        found.edges[:-1],
        found.share,
        width=np.diff(found.edges),
        align="edge",
        color="0.88",
        label="share of examples",
    )
    ax.plot(
        found.confidence[used], found.accuracy[used], marker="o", markersize=3, label="accuracy"
    )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("confidence")
    ax.set_title(f"calibration error {found.error:.3f}", fontsize="medium")
    ax.legend(loc="upper left", fontsize="small")
    return ax
