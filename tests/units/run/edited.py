"""Runs in memory whose draws are replaced by chosen ones."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.signal import lfilter

import tacthmc

GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(jax.flatten_util.ravel_pytree(x)[0] ** 2))


def chains(dimension, draws=500, count=4, rho=0.3, seed=0):
    """Stationary chains with independent standard normal coordinates, (chain, draw, coordinate)."""
    noise = np.random.default_rng(seed).normal(size=(count, draws, dimension))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return lfilter([1], [1, -rho], noise, axis=1).astype(np.float32)


def with_draws(values, start=None):
    """A run of SGNHT that kept these draws of one array, or of the leaves of ``start``."""
    count, draws, dimension = values.shape
    start = jnp.zeros(dimension) if start is None else start
    run = tacthmc.sample(
        jax.random.key(0),
        tacthmc.sgnht(0.1),
        GAUSSIAN,
        start,
        draws,
        count,
        keep=tacthmc.Keep(every=1, after=0),
        progress=False,
    )
    # Their energy, but for what is lost.
    run._record.trace["energy"][:] = 0.5 * np.sum(np.nan_to_num(values, posinf=0) ** 2, axis=2)
    leaves, structure = jax.tree.flatten(start)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    for chain in range(count):
        kept = run._record._whole(chain)
        parts = np.split(values[chain], ends, axis=1)
        shaped = [p.reshape(draws, *leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
        position = jax.tree.unflatten(structure, shaped)
        run._record._pieces[chain] = [kept._replace(position=position)]
    return run
