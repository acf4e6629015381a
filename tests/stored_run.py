"""A run with everything that has to come back from disk, and all that its folder holds."""

import json

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.dynamics import ContinuousTempering, PowerCoupling
from tacthmc.store._folder import Folder

CHECKPOINT_STEPS = 800
NUM_STEPS = 8_000
KEEP = tacthmc.Keep(every=20, after=400)
# Mild heat: on every processor ξ comes back often, so each chain keeps many draws.
SAMPLER = tacthmc.tact(1e-3, tempering=ContinuousTempering(coupling=PowerCoupling.up_to(1.3)))
START = {"w": jnp.zeros(3), "b": jnp.zeros(30)}


def _log_prior(p):
    return -0.5 * (jnp.sum(p["w"] ** 2) + jnp.sum(p["b"] ** 2))


def _log_likelihood(p, x):
    return -0.5 * jnp.sum((x - p["w"] - jnp.mean(p["b"])) ** 2)


def _posterior():
    data = jnp.asarray(np.random.default_rng(0).normal(1.0, 1.0, (60, 3)), jnp.float32)
    return tacthmc.posterior(_log_prior, _log_likelihood, data, 7, batches="epochs")


POTENTIAL = _posterior()
"""Mini-batches in epochs; the sampler has momenta, thermostats and a bias."""


def begin(path=None, num_steps=NUM_STEPS, **options):
    """The run from its start, in this folder or in memory; a path as it is, or a whole Store."""
    if path is not None and not isinstance(path, tacthmc.Store):
        path = tacthmc.Store(path, checkpoint_seconds=None, checkpoint_steps=CHECKPOINT_STEPS)
    options = {"keep": KEEP, "store": path} | options
    return tacthmc.sample(jax.random.key(3), SAMPLER, POTENTIAL, START, num_steps, 2, **options)


def contents(path):
    """Every array of a run's folder, whole, by name; not the timings."""
    folder = Folder.open(path)
    status = folder.status
    arrays = {"counts": np.array(status["counts"]), "rows": np.array(status["rows"])}
    for name, spec in folder.specs.items():
        if spec.group == "timing":
            continue
        shape = json.loads((folder.root / name / "zarr.json").read_text())["shape"]
        arrays[f"{name} shape"] = np.array(shape)
        if spec.grows == "draw" and spec.num_chains:
            for chain, count in enumerate(status["counts"]):
                arrays[f"{name}[{chain}]"] = folder.read(name, np.s_[chain, :count])
        elif spec.num_chains or spec.group in ("posterior", "observed_data"):
            draws = min(status["counts"])
            if spec.grows == "draw":
                arrays[name] = folder.read(name, np.s_[:draws])
                continue
            where = np.s_[:, : status["rows"]] if spec.grows else ...
            arrays[name] = folder.read(name, where)
    return arrays


def assert_identical(left, right):
    """Two folders' :func:`contents` are the same, byte for byte."""
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].tobytes() == right[name].tobytes(), name
