"""Truths from the prior, and a data set from each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import checked, leaf_names
from tacthmc._typing import Position, PRNGKey, PRNGKeys

NOT_TRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""What JAX raises where a function needs the values of arrays, as NumPy does."""


class Simulations(NamedTuple):
    """Truths, data sets and the starts of chains, with a leading axis of simulations."""

    truth: Position
    data: Any
    start: Position


def simulations(
    key: PRNGKey,
    prior_draw: Callable[[PRNGKey], Any],
    simulate: Callable[[PRNGKey, Any], Any],
    start: Callable[[PRNGKey, Any], Any] | None,
    count: int,
) -> Simulations:
    """Truths θ* from the prior, data from p(y | θ*), and starts that know nothing of θ*."""
    keys = [jax.random.split(k, count) for k in jax.random.split(key, 3)]
    truth = checked(_each("prior_draw", prior_draw, keys[0]))
    data = _finite("simulate", _each("simulate", simulate, keys[1], truth))
    if start is None:
        starts = _each("prior_draw", prior_draw, keys[2])
    else:
        starts = _each("start", start, keys[2], data)
    starts = checked(starts)
    shapes = [jax.tree.map(lambda x: x.shape[1:], tree) for tree in (truth, starts)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"start must return a position like prior_draw, with leaves of shape {shapes[0]}; it"
            f" returns {shapes[1]}"
        )
    return Simulations(_finite("prior_draw", truth), data, _finite("start", starts))


def _each(name: str, function: Any, keys: PRNGKeys, *trees: Any) -> Any:
    """The function of each simulation: mapped by JAX, or one call after the other."""
    if not callable(function):
        raise TypeError(f"{name} must be a function; got {function!r}")
    try:
        return jax.jit(jax.vmap(function))(keys, *trees)
    except NOT_TRACEABLE:
        pass
    made = [
        function(keys[i], *(jax.tree.map(lambda x, i=i: x[i], tree) for tree in trees))
        for i in range(len(keys))
    ]
    try:
        return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x) for x in leaves]), *made)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must return arrays of the same shapes for every simulation: {error}"
        ) from error


def _finite(name: str, tree: Any) -> Any:
    for leaf_name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree), strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            continue
        bad = np.any(~np.isfinite(np.asarray(leaf)).reshape(len(leaf), -1), axis=1)
        if np.any(bad):
            raise ValueError(
                f"{name} returned a value that is NaN or infinite in {int(np.sum(bad))} of"
                f" {len(leaf)} simulations, in leaf {leaf_name!r}"
            )
    return tree
