"""Biases on disk: one small ``.npz`` file with the settings and the table."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from tacthmc.dynamics._bias import (
    AdaptiveBiasingForce,
    Bias,
    FrozenBias,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
)
from tacthmc.dynamics._npz import read_npz

MAX_BIAS_BYTES = 1 << 26
"""More than the tables of any bias take."""
_KINDS = {
    kind.__name__: kind
    for kind in (AdaptiveBiasingForce, LiteralAdaptiveBiasingForce, Metadynamics)
}


def save_bias(path: str | Path, bias: Bias, table: Any) -> None:
    """Write a bias and its table.

    >>> import tempfile, pathlib, jax.numpy as jnp
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "bias.npz"
    >>> save_bias(file, Metadynamics(bins=4), jnp.zeros(4))
    >>> file.exists()
    True
    """
    if isinstance(bias, FrozenBias):
        bias = bias.inner
    kind = type(bias).__name__
    if kind not in _KINDS:
        raise ValueError(f"a {kind} has nothing to save")
    settings: dict[str, Any] = {"bins": bias.bins}
    if isinstance(bias, AdaptiveBiasingForce):
        settings["memory"] = float(bias.memory)
        settings["window"] = np.nan if bias.window is None else float(bias.window)
    if isinstance(bias, Metadynamics):
        if callable(bias.height):
            raise ValueError("a bias whose height is a schedule cannot be saved")
        settings["height"] = float(bias.height)
        settings["boost"] = np.nan if bias.boost is None else float(bias.boost)
        settings["spread"] = bias.spread
    leaves = {f"table_{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(table))}
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, kind=kind, **settings, **leaves)


def load_bias(path: str | Path) -> Bias:
    """Read a bias that :meth:`Run.save_bias` wrote. It begins with the saved table.

    ``load_bias(path).frozen()`` uses the table without further learning.

    >>> import tempfile, pathlib, jax.numpy as jnp
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "bias.npz"
    >>> bias = Metadynamics(bins=4)
    >>> save_bias(file, bias, jnp.arange(4.0))
    >>> load_bias(file).table.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    file = read_npz(path, MAX_BIAS_BYTES)
    if "kind" not in file or str(file["kind"]) not in _KINDS:
        raise ValueError(f"{path} does not hold a bias")
    kind = str(file["kind"])
    settings = {k: file[k].item() for k in ("bins", "memory", "height", "spread") if k in file}
    for name in ("boost", "window"):
        if name in file:
            value = float(file[name])
            settings[name] = None if np.isnan(value) else value
    leaves = [file[f"table_{i}"] for i in range(sum(k.startswith("table_") for k in file))]
    bias = _KINDS[kind](**settings)
    # A table is an array, or a named tuple of arrays.
    empty = bias.empty(np.float32)
    return bias.started_from(jax.tree.unflatten(jax.tree.structure(empty), leaves))
