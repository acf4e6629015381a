"""The classifiers that predictions accept: a network with logits, or a function."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class Network(Protocol):
    """Anything with ``logits(params, inputs)``, such as the paper's networks."""

    def logits(self, params: Any, images: Any, /) -> Any:
        """The class scores, (n, classes)."""
        ...


Logits: TypeAlias = Network | Callable[..., Any]
"""A network, or a function of a draw and inputs (and of the model state, if there is one)."""


def logits_of(classifier: Logits) -> Callable[..., Any]:
    """The function from a draw and inputs to scores.

    >>> logits_of(lambda draw, inputs: inputs @ draw).__name__
    '<lambda>'
    """
    if isinstance(classifier, Network):
        return classifier.logits
    if not callable(classifier):
        raise TypeError(
            f"logits must be a model or a function of a draw and inputs; got {classifier!r}"
        )
    return classifier
