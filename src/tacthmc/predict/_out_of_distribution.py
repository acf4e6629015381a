"""Detection of inputs outside the training distribution by the uncertainty of predictions."""

from typing import Any, Literal

import numpy as np

from tacthmc import _checks as checks
from tacthmc.predict._prediction import Prediction


def auroc(inside: Any, outside: Any) -> float:
    """P(outside > inside) + ½·P(equal): the area under the receiver operating characteristic.

    Args:
        inside: scores of inputs from the training distribution.
        outside: scores of other inputs, which should be larger.

    >>> auroc([0.1, 0.2, 0.3], [0.2, 0.4])
    0.75
    """
    low = checks.numbers("inside", inside, "(n)")
    high = checks.numbers("outside", outside, "(n)")
    for name, scores in (("inside", low), ("outside", high)):
        if not np.all(np.isfinite(scores)):
            raise ValueError(
                f"{name} must be a vector of finite scores; got shape {scores.shape},"
                f" {int(np.sum(~np.isfinite(scores)))} of them not finite"
            )
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([low, high]))[len(low) :]
    wins = ranks.sum() - len(high) * (len(high) + 1) / 2
    return float(wins / (len(low) * len(high)))


def out_of_distribution(
    inside: Prediction,
    outside: Prediction,
    by: Literal["entropy", "mutual information"] = "entropy",
) -> float:
    """The AUROC of separating two kinds of inputs by the uncertainty of predictions; ½ is chance.

    Args:
        inside: the prediction for inputs from the training distribution.
        outside: the prediction for other inputs, such as another data set or corrupted images.
        by: the "entropy" of the prediction, or the "mutual information", which measures the
            disagreement of the draws.

    >>> import numpy as np
    >>> sure = Prediction(np.array([[0.9, 0.1], [0.8, 0.2]]), np.zeros(2), 1.0)
    >>> unsure = Prediction(np.array([[0.5, 0.5], [0.85, 0.15]]), np.zeros(2), 1.0)
    >>> out_of_distribution(sure, unsure)
    0.75
    """
    for which, found in (("inside", inside), ("outside", outside)):
        checks.instance(which, found, Prediction, "a Prediction, such as predictive.prediction")
    if not isinstance(by, str) or by not in ("entropy", "mutual information"):
        raise ValueError(f"by must be 'entropy' or 'mutual information'; got {by!r}")
    name = by.replace(" ", "_")
    return auroc(getattr(inside, name), getattr(outside, name))
