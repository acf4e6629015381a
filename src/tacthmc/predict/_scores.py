r"""Scores of probabilities against the true labels.

With p_i the probabilities of example i and y_i its label:

.. math::
    \text{accuracy} &= \tfrac1n \textstyle\sum_i 1[\arg\max_c p_{ic} = y_i] \\
    \text{log-loss} &= -\tfrac1n \textstyle\sum_i \log p_{i y_i} \\
    \text{Brier} &= \tfrac1n \textstyle\sum_i \sum_c (p_{ic} - 1[c = y_i])^2
"""

from typing import Any, NamedTuple

import numpy as np

from tacthmc.predict._labeled import checked


class Scores(NamedTuple):
    """The usual scores of a classifier.

    >>> print(Scores(0.9, 0.3, 0.15, 0.02))
    accuracy 90.00%, log-loss 0.3000, Brier 0.1500, calibration error 0.0200
    """

    accuracy: float
    log_loss: float
    brier: float
    calibration_error: float

    def __str__(self) -> str:
        return (
            f"accuracy {self.accuracy:.2%}, log-loss {self.log_loss:.4f}, Brier {self.brier:.4f},"
            f" calibration error {self.calibration_error:.4f}"
        )


def accuracy(probabilities: Any, labels: Any) -> float:
    """The share of examples whose most probable class (the first of equals) is right.

    >>> accuracy([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    0.5
    """
    rows, right = checked(probabilities, labels)
    return float(np.mean(rows.argmax(axis=1) == right))


def log_loss(probabilities: Any, labels: Any) -> float:
    """The mean of −log of the probability of the right class, in nats; infinite if one is 0.

    >>> round(log_loss([[0.9, 0.1], [0.4, 0.6]], [0, 0]), 4)
    0.5108
    """
    rows, right = checked(probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(rows[np.arange(len(rows)), right])))


def brier(probabilities: Any, labels: Any) -> float:
    """The mean squared distance from the true label, summed over classes: 0 to 2.

    >>> round(brier([[0.9, 0.1], [0.4, 0.6]], [0, 0]), 4)
    0.37
    """
    rows, right = checked(probabilities, labels)
    return float(np.mean(np.sum((rows - np.eye(rows.shape[1])[right]) ** 2, axis=1)))
