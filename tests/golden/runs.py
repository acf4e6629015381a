"""The runs whose draws and traces are frozen: every sampler, two kinds of noise, 1 and 3 chains.

A file for each sampler holds them, in double precision. ``python -m tests.golden.runs NAME...``
makes the files of those samplers anew, for a change that is meant to change their numbers;
``--to FOLDER`` writes elsewhere, to compare two commits on one machine bit for bit.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tests.table import SAMPLERS, energy, keep_of, start

FOLDER = Path(__file__).parent / "records"
STEPS = 200


def added_noise():
    return tacthmc.noisy(tacthmc.potential(energy), force=1.0, energy=0.5)


def mini_batches():
    data = jnp.asarray(np.random.default_rng(0).normal(size=(23, 2)))
    return tacthmc.posterior(
        lambda p: -energy(p), lambda p, x: -0.5 * jnp.sum((x - p["a"]) ** 2), data, 5
    )


POTENTIALS = {"added-noise": added_noise, "mini-batches": mini_batches}
RUNS = [(kind, chains) for kind in POTENTIALS for chains in (1, 3)]
"""What every sampler is run on, and by how many chains."""


def numbers(name, kind, chains):
    """All arrays of one of a sampler's runs by name; call it in double precision."""
    run = tacthmc.sample(
        jax.random.key(7),
        SAMPLERS[name](0.01),
        POTENTIALS[kind](),
        start(jnp.float64),
        STEPS,
        chains,
        keep=keep_of(name),
        progress=False,
    )
    found = {
        f"{kind}/{chains}/trace/{column}": np.asarray(values)
        for column, values in run.trace.items()
    }
    for chain, draws in enumerate(run.all_draws):
        for leaf, values in draws.items():
            found[f"{kind}/{chains}/draws/{chain}/{leaf}"] = np.asarray(values)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", help="samplers, or 'all'")
    parser.add_argument("--to", type=Path, default=FOLDER)
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    with jax.enable_x64(True):
        for name in SAMPLERS if asked.names == ["all"] else asked.names:
            each = [numbers(name, *run) for run in RUNS]
            whole = {key: values for one in each for key, values in one.items()}
            np.savez_compressed(asked.to / f"{name}.npz", **whole)
            print(name, flush=True)


if __name__ == "__main__":
    main()
