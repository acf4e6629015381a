"""Whether uncertainty tells inputs of another kind from those that were learned."""

from typing import Any, Literal

import numpy as np
from scipy.stats import rankdata

from tacthmc.predict._prediction import Prediction


def auroc(inside: Any, outside: Any) -> float:
    """P(outside > inside) + ½·P(equal): the area under the receiver operating characteristic.

    Args:
        inside: scores of inputs of the kind that was learned.
        outside: scores of others, which should be larger.

    >>> auroc([0.1, 0.2, 0.3], [0.2, 0.4])
    0.75
    """
    low, high = np.asarray(inside, float), np.asarray(outside, float)
    for name, scores in (("inside", low), ("outside", high)):
        if scores.ndim != 1 or not scores.size or not np.all(np.isfinite(scores)):
            raise ValueError(
                f"{name} must be a vector of finite scores; got shape {scores.shape},"
                f" {int(np.sum(~np.isfinite(scores)))} of them not finite"
            )
    ranks = rankdata(np.concatenate([low, high]))[len(low) :]
    wins = ranks.sum() - len(high) * (len(high) + 1) / 2
    return float(wins / (len(low) * len(high)))


def out_of_distribution(
    inside: Prediction,
    outside: Prediction,
    by: Literal["entropy", "mutual information"] = "entropy",
) -> float:
    """The AUROC of telling two kinds of inputs apart by how unsure predictions are: ½ is chance.

    Args:
        inside: the prediction of inputs of the kind that was learned.
        outside: that of other inputs (another data set, :func:`tacthmc.paper.data.corrupted` images).
        by: "entropy" of the prediction, or the draws' disagreement, "mutual information".

    >>> import numpy as np
    >>> sure = Prediction(np.array([[0.9, 0.1], [0.8, 0.2]]), np.zeros(2), 1.0)
    >>> unsure = Prediction(np.array([[0.5, 0.5], [0.85, 0.15]]), np.zeros(2), 1.0)
    >>> out_of_distribution(sure, unsure)
    0.75
    """
    if by not in ("entropy", "mutual information"):
        raise ValueError(f"by must be 'entropy' or 'mutual information'; got {by!r}")
    name = by.replace(" ", "_")
    return auroc(getattr(inside, name), getattr(outside, name))
