"""The few type names that the whole package shares."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Array, Float, Key, PyTree

Position: TypeAlias = PyTree[Float[Array, "..."]]
"""What is sampled: any pytree of floating-point arrays. (A potential may take a larger pytree, such
as a whole model, of which only some leaves are sampled. There the type is Any.)"""

Draws: TypeAlias = PyTree[Float[np.ndarray, "..."]]
"""Positions on the host, with leading axes for draws (and chains)."""

Scalar: TypeAlias = Float[Array, ""]

PRNGKey: TypeAlias = Key[Array, ""]

PRNGKeys: TypeAlias = Key[Array, "..."]
"""One key, or an array of them."""

Number: TypeAlias = float | int | Array
"""A hyper-parameter: a Python number or a (possibly traced) array."""

Rate: TypeAlias = Number | Callable[[Any], Any]
"""A number, or a schedule: a function of the step count (Optax's schedules fit)."""

Batch: TypeAlias = Any
"""The input of a potential's estimate: examples, noise, or nothing (``()``)."""
