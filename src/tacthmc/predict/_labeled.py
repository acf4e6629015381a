"""Checks of probabilities and labels."""

from typing import Any

import numpy as np

from tacthmc import _checks as checks


def checked(probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels as arrays, checked to have one valid label for each row.

    >>> checked([[0.5, 0.5]], [2])
    Traceback (most recent call last):
    ...
    ValueError: labels must be 0 to 1, the classes of probabilities; got 2 to 2
    """
    probabilities, labels = as_rows(probabilities), np.asarray(labels)
    if labels.shape != probabilities.shape[:1] or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(
            f"labels must be {len(probabilities)} whole numbers, one for each row of probabilities;"
            f" got {labels.dtype} of shape {labels.shape}"
        )
    classes = probabilities.shape[1]
    if labels.min() < 0 or labels.max() >= classes:
        raise ValueError(
            f"labels must be 0 to {classes - 1}, the classes of probabilities; got {labels.min()}"
            f" to {labels.max()}"
        )
    return probabilities, labels.astype(int)


def as_rows(probabilities: Any) -> np.ndarray:
    """Probabilities as an array, checked to be one normalized row for each example."""
    rows = checks.numbers("probabilities", probabilities, "(examples, classes)")
    if not np.all(rows >= 0) or not np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        sums = rows.sum(axis=1)
        raise ValueError(
            "probabilities must be at least 0 and sum to 1 in each row; got values from"
            f" {rows.min():g} and sums from {sums.min():g} to {sums.max():g}"
        )
    return rows
