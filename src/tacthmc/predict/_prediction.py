"""The posterior prediction for some inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from tacthmc import _checks as checks
from tacthmc.predict import _uncertainty as uncertainty
from tacthmc.predict._calibration import Reliability, calibration_error, reliability
from tacthmc.predict._scores import Scores, accuracy, brier, log_loss


@dataclass(frozen=True, eq=False)
class Prediction:
    """Probabilities averaged over draws, and the mean uncertainty of single draws.

    >>> import numpy as np
    >>> found = Prediction(np.array([[0.5, 0.5], [0.9, 0.1]]), np.array([0.0, 0.325]), 2.0)
    >>> found.labels.tolist(), found.mutual_information.round(3).tolist()
    ([0, 0], [0.693, 0.0])
    >>> print(found.scores([0, 0]))
    accuracy 100.00%, log-loss 0.3993, Brier 0.2600, calibration error 0.3000
    """

    probabilities: Float[np.ndarray, "n classes"]
    expected_entropy: Float[np.ndarray, " n"]
    """⟨H(p_k)⟩ over draws k, in nats."""
    weight: float | int
    """The number of draws, or the sum of their weights."""

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """The most probable class of each input."""
        return self.probabilities.argmax(axis=1)

    @property
    def entropy(self) -> Float[np.ndarray, " n"]:
        """H(p̄) of each input, the total uncertainty."""
        return uncertainty.entropy(self.probabilities)

    @property
    def mutual_information(self) -> Float[np.ndarray, " n"]:
        """The part of the entropy of each input that is due to disagreement between draws."""
        return uncertainty.mutual_information(self.probabilities, self.expected_entropy)

    def scores(self, labels: Any) -> Scores:
        """Accuracy, log-loss, Brier score and expected calibration error."""
        each = (accuracy, log_loss, brier, calibration_error)
        return Scores(*(score(self.probabilities, labels) for score in each))

    def reliability(self, labels: Any, *, bins: int = 15) -> Reliability:
        """Accuracy by confidence; :func:`tacthmc.predict.plot_reliability` plots it."""
        return reliability(self.probabilities, labels, bins=bins)


def pooled(predictions: Sequence[Prediction]) -> Prediction:
    """The joint prediction of the draws of several chains or runs.

    >>> import numpy as np
    >>> sure = [Prediction(np.array([[p, 1 - p]]), np.zeros(1), 10.0) for p in (0.0, 1.0)]
    >>> both = pooled(sure)
    >>> both.probabilities.tolist(), both.mutual_information.round(4).tolist()
    ([[0.5, 0.5]], [0.6931])
    """
    if not isinstance(predictions, (list, tuple)):
        raise TypeError(f"predictions must be a list of Predictions; got {predictions!r}")
    for number, one in enumerate(predictions):
        checks.instance(f"predictions[{number}]", one, Prediction, "a Prediction")
    if not predictions:
        raise ValueError("predictions is empty; expected at least one")
    shapes = {prediction.probabilities.shape for prediction in predictions}
    if len(shapes) > 1:
        raise ValueError(f"predictions must be of the same inputs; got shapes {sorted(shapes)}")
    weights = np.array([prediction.weight for prediction in predictions])

    def mean(name: str) -> np.ndarray:
        return np.average([getattr(p, name) for p in predictions], axis=0, weights=weights)

    return Prediction(mean("probabilities"), mean("expected_entropy"), float(weights.sum()))
