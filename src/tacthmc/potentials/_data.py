"""Checks of the data of a posterior."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks


def common_length(data: Any) -> int:
    """The leading length that all arrays of the data share.

    >>> common_length({"x": np.zeros((5, 2)), "y": np.zeros(5)})
    5
    """
    shapes = [np.shape(leaf) for _, leaf in checks.leaves("data", data)]
    if not shapes:
        raise ValueError("data has no arrays; expected a pytree of arrays with N rows each")
    if any(not shape for shape in shapes) or len({shape[0] for shape in shapes}) != 1:
        raise ValueError(
            f"data's arrays must share their leading length (the number of examples); got shapes"
            f" {shapes}"
        )
    return shapes[0][0]


def resident(data: Any) -> Any:
    """Data as JAX arrays of the same numbers, all finite.

    >>> resident(np.arange(3)).dtype == jnp.asarray(0).dtype
    True
    """
    named = checks.leaves("data", data)
    arrays = [checks.quiet_array(name, leaf) for name, leaf in named]
    for (name, leaf), array in zip(named, arrays, strict=True):
        if jnp.issubdtype(array.dtype, jnp.inexact) and checks.concrete(array) is not None:
            bad = int(np.sum(~np.isfinite(np.asarray(array))))
            if bad:
                raise ValueError(f"{name} has {bad} values that are NaN or infinite")
        checks.tell_precision(name, leaf, array.dtype)
    return jax.tree.unflatten(jax.tree.structure(data), arrays)


def model_arrays(model_state: Any) -> Any:
    """A model state as JAX arrays of real numbers."""
    arrays = [checks.array(name, leaf) for name, leaf in checks.leaves("model_state", model_state)]
    for array in arrays:
        if jnp.issubdtype(array.dtype, jnp.complexfloating):
            raise TypeError(f"model_state must have real arrays only; got one of {array.dtype}")
    return jax.tree.unflatten(jax.tree.structure(model_state), arrays)


def check_functions(log_prior: Any, log_likelihood: Any, batched: Any, model_state: Any) -> None:
    """Require functions, and require ``batched`` where there is a model state."""
    functions: list[tuple[str, Callable[..., Any]]] = [
        ("log_prior", log_prior),
        ("log_likelihood", log_likelihood),
    ]
    for name, function in functions:
        if not callable(function):
            raise TypeError(f"{name} must be a function; got {function!r}")
    checks.instance("batched", batched, bool, "True or False")
    if model_state is not None and not batched:
        raise ValueError(
            "model_state needs batched=True: a model's state changes with whole batches"
        )
