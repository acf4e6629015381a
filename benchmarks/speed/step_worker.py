"""Steps of one checkout, timed when asked: a process that ``step_ratio`` starts.

It is run as a file, with the checkout's ``src`` on the path, and knows two forms of the library:
the one with :class:`tacthmc.Program`, and the one before it. For each line of JSON on its input,
``{"steps": 200}``, it makes that many steps of all chains and prints how long they took.
"""

import argparse
import importlib
import json
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc

EVERY = 50
"""Steps in an interval."""
ROOM = {"mixture": 1_000}
"""Intervals in a chunk, as a run would have them; 4 of a network's, whose draws are large."""
NUM_DATA = 10_000
NETWORKS = {
    "mlp": ((28, 28), 47, 128),
    "cnn": ((32, 32, 3), 10, 64),
    "lstm": ((28, 28), 10, 64),
}
"""An image's shape, how many classes there are, and examples in a batch."""
LEARNING_RATE, MIXTURE_STEP = 1e-4, 1e-2


def problem(name: str) -> tuple[Any, Any, float]:
    """A potential, where chains start, and the step size."""
    if name == "mixture":
        target = tacthmc.potential(tacthmc.targets.three_gaussians())
        return tacthmc.noisy(target, force=3.0, energy=1.0), jnp.array([-4.0]), MIXTURE_STEP
    models = _models()
    shape, classes, batch_size = NETWORKS[name]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (NUM_DATA, *shape), dtype=np.uint8)
    labels = rng.integers(0, classes, NUM_DATA, dtype=np.int32)
    model = getattr(models, name)()
    potential = tacthmc.posterior(
        models.gaussian_prior(scale=1.0),
        models.categorical(model),
        (images, labels),
        batch_size,
        batched=True,
    )
    return potential, model.init(jax.random.key(0)), LEARNING_RATE / NUM_DATA


def _models() -> Any:
    return first_of("tacthmc.paper.networks", "tacthmc.models")


def first_of(*names: str) -> Any:
    """The first of these modules that there is."""
    *others, last = names
    for name in others:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    return importlib.import_module(last)


class Steps:
    """Chains of a library that has :class:`tacthmc.Program`."""

    def __init__(self, potential: Any, init: Any, step_size: float, chains: int, room: int):
        keep = tacthmc.Keep(every=EVERY, after=0)
        # The one that was the default before: both checkouts make the same steps.
        sampler = tacthmc.tact(step_size, thermostat=tacthmc.dynamics.ScalarThermostat())
        self._program = tacthmc.Program(sampler, potential, keep, num_chains=chains, room=room)
        starts = tacthmc.PerChain(jax.tree.map(lambda x: jnp.stack([x] * chains), init))
        self._chains = self._program.start(jax.random.key(0), starts)

    def run(self, intervals: int) -> Any:
        """``intervals`` intervals of all chains in one chunk; the chunk."""
        self._chains, chunk = self._program.advance(self._chains, intervals)
        return jax.block_until_ready((self._chains, chunk))[1]

    @property
    def position(self) -> Any:
        """Where the chains are."""
        return self._chains.each.state.position


class OldSteps:
    """Chains of the library as it was before, by its internals."""

    def __init__(self, potential: Any, init: Any, step_size: float, chains: int, room: int):
        self._run = first_of("tacthmc.run._chains", "tacthmc.run.chains")
        chunk = first_of("tacthmc.run._chunk", "tacthmc.run.chunk")
        self._limits, self._shape = chunk.Limits, chunk.Shape(room)
        self._sampler = self._run.traced(tacthmc.tact(step_size, keep_every=EVERY))
        self._potential = potential
        starts = jax.tree.map(lambda x: jnp.stack([x] * chains), init)
        key = jax.random.key(0)
        self._chains, self._keys = self._run.start_chains(
            self._sampler, potential, key, starts, False, None
        )

    def run(self, intervals: int) -> Any:
        """The same for the other form."""
        limits = self._limits(jnp.asarray(intervals), jnp.asarray(0))
        what = self._sampler, self._potential, self._keys, self._chains
        self._chains, filled = self._run.run_chunk(
            *what, None, limits, self._shape, False, False, None
        )
        return jax.block_until_ready((self._chains, filled))[1]

    @property
    def position(self) -> Any:
        """Where the chains are."""
        return self._chains.state.position


def timed(steps: Any, count: int, room: int) -> dict[str, float]:
    """The seconds that ``count`` steps of all chains take, on the clock and of all cores."""
    begun, worked, intervals = time.perf_counter(), time.process_time(), count // EVERY
    for done in range(0, intervals, room):
        chunk = steps.run(min(room, intervals - done))
        if bool((chunk.health.step != 0).any()):
            raise FloatingPointError("a chain is no longer finite")
    ended, done = time.perf_counter(), time.process_time()
    return {"seconds": ended - begun, "cpu_seconds": done - worked}


def checksum(position: Any) -> float:
    """A number that two libraries share if their chains are at the same place."""
    leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(position)]
    return float(sum(np.abs(leaf).sum() for leaf in leaves))


def main() -> None:
    """Compile, and time what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["mixture", *NETWORKS])
    parser.add_argument("chains", type=int)
    args = parser.parse_args()
    # Earlier versions do this when they are imported.
    getattr(tacthmc, "configure_cpu", lambda: None)()
    kind = Steps if hasattr(tacthmc, "Program") else OldSteps
    begun, room = time.perf_counter(), ROOM.get(args.name, 4)
    steps = kind(*problem(args.name), args.chains, room)
    steps.run(0)
    compiled = time.perf_counter() - begun
    timed(steps, EVERY, room)
    answer({"compile_seconds": compiled, "checksum": checksum(steps.position)})
    for line in sys.stdin:
        answer(timed(steps, json.loads(line)["steps"], room))


def answer(value: dict[str, float]) -> None:
    """A line for the process that asked."""
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main()
