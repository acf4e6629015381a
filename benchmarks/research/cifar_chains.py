"""Chains of the paper's CNN on CIFAR-10 along schedules, all of them in one program."""

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.images import DECAY, add_data, limited, loaded, posterior
from benchmarks.research.cifar_trips import INERTIA, NEVER, Along, Trips
from tacthmc.dynamics import DiagonalThermostat, ScalarThermostat, TensorThermostat
from tacthmc.paper import data
from tacthmc.paper import networks as models

BATCH = 64
BLOCK = 20
"""Epochs whose probabilities are averaged before they are noted."""
SEEN = 5
"""The energy is read off every fifth training image, without the noise of a mini-batch."""
IMAGES_AT_A_TIME = 500
FIRST_SEED, FIRST_KEY = 100, 1000
THERMOSTATS: dict[str, Any] = {
    "scalar": ScalarThermostat,
    "tensor": TensorThermostat,
    "diagonal": DiagonalThermostat,
}
FORCE_NOISE = {
    "conv1.bias": 1.784,
    "conv1.kernel": 0.837,
    "conv2.bias": 0.741,
    "conv2.kernel": 0.157,
    "hidden.bias": 0.0048,
    "hidden.weight": 0.0044,
    "out.bias": 0.0746,
    "out.weight": 0.348,
}
"""ηv/2 of each tensor after eight epochs, which is the friction of a thermostat of its own (from
one run; ``tensor_temperatures`` measures it again)."""
QUICK = {"epochs": BLOCK, "burn": 0, "limit": BATCH, "compute": "float32"}
"""A chunk of notes, with one step an epoch."""


def add_chains(parser: ArgumentParser, epochs: int = 1000) -> None:
    """The options of all benchmarks on these chains."""
    add_data(parser)
    parser.add_argument("--epochs", type=int, default=epochs)
    parser.add_argument("--burn", type=int, default=200, help="epochs that are never kept")
    parser.add_argument("--compute", default="tf32", help="the precision of products")
    parser.add_argument("--limit", type=int, help="the first images only, for a trial")


class Bench:
    """The data, and programs for all chains at once."""

    def __init__(self, args: Namespace):
        """Read and place the data."""
        whole = limited(loaded("cifar10", args), args.limit)
        self.model = models.cnn(compute=args.compute)
        fitting = data.shaped(data.normalized(whole), self.model)
        self.num_data = whole.num_train
        self.epoch = self.num_data // BATCH
        likelihood = posterior(self.model, fitting.train, BATCH)
        self.potential = tacthmc.temper_likelihood(likelihood)
        self.test, self.labels = fitting.test[0], whole.test_labels.astype(int)
        step = SEEN if args.limit is None else 1
        self.seen, self.seen_labels = (np.asarray(x)[::step] for x in fitting.train)

    def sampler(self, trips: Trips, epochs: int) -> Any:
        """SGNHT along the schedule."""
        noises = {name: value / FORCE_NOISE["conv2.kernel"] for name, value in FORCE_NOISE.items()}
        return tacthmc.tact(
            trips.rate / self.num_data,
            noise=trips.noise,
            thermostat=THERMOSTATS[trips.thermostat](steps=INERTIA, shape="mass"),
            mass={name: value**trips.masses for name, value in noises.items()},
            tempering=Along(trips.lam(epochs), self.epoch),
        )

    def run(
        self,
        plan: list[tuple[Any, int]],
        epochs: int,
        kept: Any = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Run chains of (schedule, seed).

        Args:
            plan: the schedule and the seed of each chain.
            epochs: how many.
            kept: which epochs of each chain to average probabilities over (chain, epoch).
            seconds: end after so long, with the block of epochs that is under way.

        Returns:
            ``notes``, the probabilities of true labels (chain, block, image); ``energy`` (chain,
            epoch); ``seconds``; and with ``kept`` the sum of probabilities as ``total``.
        """
        samplers = [self.sampler(trips, epochs) for trips, _ in plan]
        keep = tacthmc.Keep(every=self.epoch, after=NEVER)
        program = tacthmc.Program(samplers, self.potential, keep, num_chains=len(plan), room=1)
        inits = [self.model.init(jax.random.key(FIRST_SEED + seed)) for _, seed in plan]
        positions = jax.tree.map(lambda *x: jnp.stack(x), *inits)
        key = jax.random.key(FIRST_KEY + plan[0][1])
        chains = program.start(key, tacthmc.PerChain(positions))
        noted = Notes(self, len(plan), epochs)
        begun = time.perf_counter()
        for e in range(epochs):
            chains, _ = program.advance(chains, 1)
            noted.add(e, chains.each.state.position, None if kept is None else kept[:, e])
            if e % 50 == 49:
                print(e + 1, "epochs", round(time.perf_counter() - begun, 1), "s", flush=True)
            late = seconds is not None and time.perf_counter() - begun > seconds
            if late and (e + 1) % BLOCK == 0:
                break
        made = noted.found() | {"seconds": time.perf_counter() - begun}
        return made if kept is None else made | {"total": np.asarray(noted.total)}


class Notes:
    """What is noted of all chains after each epoch."""

    def __init__(self, bench: Bench, chains: int, epochs: int):
        """Make room."""
        self._bench, self._done = bench, 0
        self._probabilities = _probabilities(bench.model)
        self._test, self._truth = jnp.asarray(bench.test), jnp.asarray(bench.labels)
        self._seen, self._seen_truth = jnp.asarray(bench.seen), jnp.asarray(bench.seen_labels)
        self._notes = np.zeros((chains, epochs // BLOCK, len(bench.labels)), np.float32)
        self._losses, self._norms = np.zeros((chains, epochs)), np.zeros((chains, epochs))
        self.total = jnp.zeros((chains, len(bench.labels), bench.model.classes))

    def add(self, e: int, position: Any, kept: Any) -> None:
        """Note epoch ``e``."""
        p = self._probabilities(position, self._test)
        self._notes[:, e // BLOCK] += np.asarray(_of_truth(p, self._truth)) / BLOCK
        if kept is not None:
            self.total = self.total + p * jnp.asarray(kept, float)[:, None, None]
        if e % 2:
            p = _of_truth(self._probabilities(position, self._seen), self._seen_truth)
            loss = -np.asarray(jnp.mean(jnp.log(p + 1e-30), axis=1))
            self._losses[:, e] = self._losses[:, e - 1] = loss
        self._norms[:, e] = np.asarray(_squares(position))
        self._done = e + 1

    def found(self) -> dict[str, Any]:
        """The notes of true labels by blocks, and the energy by epochs."""
        losses, norms = self._losses[:, : self._done], self._norms[:, : self._done]
        energy = self._bench.num_data * (losses + DECAY * norms)
        return {"notes": self._notes[:, : self._done // BLOCK], "energy": energy}


def save_notes(path: Path, found: dict[str, Any]) -> None:
    """Write the energies and the notes beside a record."""
    np.save(path.with_suffix(".energy.npy"), found["energy"].astype(np.float32))
    np.save(path.with_suffix(".notes.npy"), found["notes"].astype(np.float16))


def _probabilities(model: Any) -> Any:
    @eqx.filter_jit
    def of(position: Any, images: Any) -> Any:
        def some(few: Any) -> Any:
            return jax.vmap(lambda p: jax.nn.softmax(model.logits(p, few), axis=-1))(position)

        size = min(IMAGES_AT_A_TIME, len(images))
        parts = jax.lax.map(some, images.reshape(-1, size, *images.shape[1:]))
        return jnp.moveaxis(parts, 0, 1).reshape(parts.shape[1], len(images), -1)

    return of


@jax.jit
@jax.vmap
def _squares(position: Any) -> Any:
    return sum(jnp.sum(x**2) for x in jax.tree.leaves(position))


@jax.jit
def _of_truth(p: Any, truth: Any) -> Any:
    return jnp.take_along_axis(p, truth[None, :, None], axis=2)[:, :, 0]
