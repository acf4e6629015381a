r"""The uncertainty of a prediction, and the part that is due to disagreement between draws.

With p_k the probabilities under draw k and p̄ their mean, the entropy of the prediction is the mean
entropy of single draws plus their disagreement:

.. math:: H(\bar p) = \langle H(p_k)\rangle + I, \qquad H(p) = -\sum_c p_c \log p_c

I is the mutual information of label and parameters. Noise in the data belongs to the first part.
I shrinks as data determine the parameters, and is large for inputs unlike the data.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from tacthmc import _checks as checks
from tacthmc.predict._labeled import as_rows


def entropy(probabilities: Any) -> Float[np.ndarray, " n"]:
    """H(p) of each row, in nats.

    >>> entropy([[0.5, 0.5], [1.0, 0.0]]).round(4).tolist()
    [0.6931, 0.0]
    """
    rows = as_rows(probabilities)
    return -np.sum(rows * np.log(np.where(rows > 0, rows, 1.0)), axis=1) + 0.0


def mutual_information(
    probabilities: Any, expected_entropy: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """H(p̄) − ⟨H(p_k)⟩ of each row, in nats: at least 0, and 0 where all draws agree.

    >>> mutual_information([[0.5, 0.5]], np.array([0.0])).round(4).tolist()
    [0.6931]
    """
    whole, single = (
        entropy(probabilities),
        checks.numbers("expected_entropy", expected_entropy, "(n)"),
    )
    if single.shape != whole.shape or not np.isfinite(single).all():
        raise ValueError(
            f"expected_entropy must be {len(whole)} finite numbers, one for each row of"
            f" probabilities; got {single}"
        )
    return np.maximum(whole - single, 0.0)
