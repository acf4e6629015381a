"""When and how hot: schedules of a led ξ for the paper's CNN on CIFAR-10, judged by predictions.

    python -m benchmarks.cifar_schedules OUT.json --data FOLDER
    python -m benchmarks.cifar_schedules OUT.json --data FOLDER --long --epochs 3000

Every chain starts anew and runs for ``--epochs``, its likelihood tempered by a λ that is a given
function of the epoch; SGNHT is λ = 1. Step size, injected noise and thermostat are those that a
search on held-out images found best for SGNHT (docs/table-b.md). After each epoch the
probabilities of the test images' true labels are noted, so that rules for what is kept can be
compared without running again: ``wait`` is the number of epochs at unit temperature, after a
trip, of which nothing is kept. In any case the first ``--burn`` epochs are not.

``--long`` has schedules for several thousand epochs instead: trips to where the prior rules, which
forget everything, with rests of several hundred.

First every schedule runs with ``--tries`` seeds, and each with each wait is judged by half of the
test images. Then the ``--best`` of them run beside SGNHT with three other seeds, and are judged by
all test images and by the other half alone.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import tacthmc
from tacthmc import predict
from tacthmc._typing import Number, Scalar
from tacthmc.dynamics import NoBias, Sweep
from tacthmc.dynamics._coupling import Coupling
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.run import _chains as chains_of_a_run
from tacthmc.run._chunk import Limits, Shape

BATCH, DECAY = 64, 1e-3
RATE, NOISE, INERTIA = 5.01e-3, 0.16, 562.0
FINE = 4
"""Knots of λ in an epoch."""
BLOCK = 20
"""Epochs whose probabilities are averaged before they are noted."""
WAITS = (0, 20, 40, 60, 80)
LONG_WAITS = (80, 120, 160, 200)
NEVER = 10**9
THERMOSTATS: dict[str, Any] = {
    "scalar": tacthmc.dynamics.ScalarThermostat,
    "tensor": tacthmc.dynamics.TensorThermostat,
    "diagonal": tacthmc.dynamics.DiagonalThermostat,
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
"""ηv/2 of each tensor after eight epochs, as the friction of a thermostat each had settled on (in
one run; ``benchmarks.tensor_temperatures`` measures it again)."""


class Given(Coupling):
    """λ = 1 − ξ on both sides: ξ is whatever λ is to be."""

    plateau: Number = 1e-6
    wall: Number = 0.9999
    even: bool = eqx.field(static=True, default=False)

    def value_and_slope(self, xi: Scalar) -> tuple[Scalar, Scalar]:
        """λ and λ′."""
        flat = self.on_plateau(xi)
        return jnp.where(flat, 1.0, 1 - xi), jnp.where(flat, 0.0, -jnp.ones_like(xi))


class Along(Sweep):
    """ξ along a table of λ, linear in between."""

    lam: Float[Array, " k"]
    knot: Number

    def __init__(self, lam: np.ndarray, epoch: int):
        """λ at every ``FINE``-th of an epoch."""
        super().__init__(period=NEVER)
        self.lam, self.knot = jnp.asarray(lam, float), epoch / FINE

    def at(self, step: Any, coupling: Coupling, ahead: float = 0.0) -> tuple[Scalar, Scalar]:
        """ξ, and how fast it goes."""
        where = (jnp.asarray(step).astype(float) + ahead) / self.knot
        left = jnp.clip(where.astype(int), 0, len(self.lam) - 2)
        rise = self.lam[left + 1] - self.lam[left]
        lam = self.lam[left] + rise * jnp.clip(where - left, 0, 1)
        return 1 - lam, -rise / self.knot


class Trips(NamedTuple):
    """Trips to a temperature: their ends, in epochs, and how each goes."""

    hottest: float = 1.0
    ends: tuple[int, ...] = ()
    heated: float = 40
    """Epochs above unit temperature, λ falling for the share ``rise`` of them and then rising."""
    rise: float = 0.5
    held: float = 0
    """Epochs of these at the hottest, before λ rises."""
    chill: float = 1.0
    """λ for the last ``chilled`` epochs of a trip, below unit temperature."""
    chilled: float = 0
    rate: float = RATE
    noise: float = NOISE
    always: float = 1.0
    """λ outside of trips: 1, but for one trial."""
    thermostat: str = "scalar"
    """Which weights share a friction: all, those of a tensor, or none."""
    masses: float = 0
    """A tensor's mass is its force's noise, beside that of conv2's kernel, to this power."""

    def lam(self, epochs: int) -> np.ndarray:
        """λ at every ``FINE``-th of an epoch."""
        at, knots = np.arange(epochs * FINE + 1) / FINE, [(0.0, self.always)]
        for end in self.ends:
            hot = end - self.chilled - self.heated
            cool, ramp = end - self.chilled, min(1.0, self.chilled / 4)
            top = hot + self.rise * (self.heated - self.held)
            knots += [
                (hot, self.always),
                (top, 1 / self.hottest),
                (top + self.held, 1 / self.hottest),
                (cool, self.always),
            ]
            if self.chilled:
                knots += [(cool + ramp, self.chill), (end - ramp, self.chill), (end, self.always)]
        # By time alone: of two at the same time the later one is where λ goes on from.
        where, values = zip(*sorted(knots, key=lambda knot: knot[0]), strict=True)
        lam = np.interp(at, where, values)
        if any(end <= epochs for end in self.ends) and lam.min() > 0.5 + 0.5 / self.hottest:
            raise AssertionError(f"λ is {lam.min():.3g} at least: the trips of {self} were lost")
        return np.where(np.abs(lam - 1) < 1e-4, 1.0, lam)

    def age(self, epochs: int) -> np.ndarray:
        """Epochs at rest since the last trip, at each epoch's end; −1 on a trip."""
        lam, age = self.lam(epochs), np.zeros(epochs)
        if not self.ends:
            return np.full(epochs, np.inf)
        for e in range(epochs):
            on_trip = np.any(lam[FINE * e + 1 : FINE * (e + 1)] != 1)
            past = [end for end in self.ends if end <= e]
            age[e] = -1 if on_trip else (e - max(past) if past else np.inf)
        return age


def every(period: int, epochs: int = 1000) -> tuple[int, ...]:
    """Ends of trips, one a period, the last with a rest after it."""
    return tuple(range(period, epochs - period // 2, period))


SCHEDULES = {
    "sgnht": Trips(),
    "sgnht, c = 0.5": Trips(noise=0.5),
    "sgnht, T = 1/1.15": Trips(always=1.15),
    "sgnht, a quarter of the step": Trips(rate=RATE / 4, noise=0.1),
    "T = 2 at first, cooled for 160": Trips(2.0, (160,), 160, rise=0.0),
    "T = 1.5, three trips of 60 at first": Trips(1.5, (80, 140, 200), 60),
    "T = 2.5, three trips of 60 at first": Trips(2.5, (80, 140, 200), 60),
    "T = 1.5, 40 of 200": Trips(1.5, every(200)),
    "T = 2, 40 of 200": Trips(2.0, every(200)),
    "T = 3, 40 of 200": Trips(3.0, every(200)),
    "T = 1.5, 20 of 100": Trips(1.5, every(100), 20),
    "T = 1.25, 40 of 100": Trips(1.25, every(100), 40),
    "T = 2, 40 of 200, up at once": Trips(2.0, every(200), 40, rise=0.025),
    "T = 2, 20 of 200, then 20 of 1/1.5": Trips(2.0, every(200), 20, chill=1.5, chilled=20),
    "T = 3, 20 of 200, then 20 of 1/1.67": Trips(3.0, every(200), 20, chill=5 / 3, chilled=20),
    "T = 10, 4 of 200, then 16 of 1/1.5": Trips(10.0, every(200), 4, chill=1.5, chilled=16),
}

LONG = {
    f"T = {hottest}, {heated} of {period}": Trips(
        hottest, every(period, 3000), heated, rise=0.25, held=heated / 4
    )
    for hottest, heated, period in (
        (1000, 8, 320),
        (1000, 8, 500),
        (1000, 8, 1000),
        (30, 20, 320),
        (30, 20, 500),
    )
}
"""For 3,000 epochs; at T = 1,000 the likelihood counts for 50 images."""
FEW = {
    "T = 1.5, 20 of 250": Trips(1.5, every(250), 20),
    "T = 2, 20 of 250": Trips(2.0, every(250), 20),
    "T = 2, 10 of 250, then 10 of 1/1.5": Trips(2.0, every(250), 10, chill=1.5, chilled=10),
}
"""Three trips in 1,000 epochs."""
EVERY = SCHEDULES | LONG | FEW


class Bench:
    """The data, and programs for all chains at once."""

    def __init__(self, folder: Path, compute: str, limit: int | None):
        """Read and place the data."""
        whole = data.load("cifar10", folder=folder, download=False)
        self.model = models.cnn(compute=compute)
        fitting = data.shaped(data.normalized(whole), self.model)
        train = jax.tree.map(lambda x: x[:limit], fitting.train)
        self.num_data = len(train[1])
        self.epoch = self.num_data // BATCH
        self.potential = tacthmc.temper_likelihood(
            tacthmc.posterior(
                models.gaussian_prior(precision=2 * DECAY * self.num_data),
                models.categorical(self.model),
                train,
                BATCH,
                batched=True,
            )
        )
        self.test, self.labels = fitting.test[0][:limit], whole.test_labels[:limit].astype(int)
        # Every fifth, for an energy without a mini-batch's noise.
        self.seen, self.seen_labels = (np.asarray(x)[:: 5 if limit is None else 1] for x in train)

    def sampler(self, trips: Trips, epochs: int) -> Any:
        """SGNHT along the schedule."""
        noises = {name: value / FORCE_NOISE["conv2.kernel"] for name, value in FORCE_NOISE.items()}
        return tacthmc.tact(
            trips.rate / self.num_data,
            noise=trips.noise,
            thermostat=THERMOSTATS[trips.thermostat](steps=INERTIA, shape="mass"),
            mass={name: value**trips.masses for name, value in noises.items()},
            coupling=Given(),
            bias=NoBias(),
            sweep=Along(trips.lam(epochs), self.epoch),
            keep_every=self.epoch,
        )

    def run(
        self,
        plan: list[tuple[Trips, int]],
        epochs: int,
        kept: Any = None,
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Chains of (schedule, seed): what was noted of each, and with ``kept`` averaged.

        After ``seconds`` it ends with the block of epochs that is under way.
        """
        sampler = chains_of_a_run.stacked([self.sampler(trips, epochs) for trips, _ in plan])
        inits = [self.model.init(jax.random.key(100 + seed)) for _, seed in plan]
        positions = jax.tree.map(lambda *x: jnp.stack(x), *inits)
        key = jax.random.key(1000 + plan[0][1])
        chains, keys = chains_of_a_run.start_chains(
            sampler, self.potential, key, positions, True, None
        )
        probabilities = _probabilities(self.model)
        test, seen = jnp.asarray(self.test), jnp.asarray(self.seen)
        truth, seen_truth = jnp.asarray(self.labels), jnp.asarray(self.seen_labels)
        rows = np.arange(len(self.labels))
        notes = np.zeros((len(plan), epochs // BLOCK, len(rows)), np.float32)
        losses, norms = np.zeros((len(plan), epochs)), np.zeros((len(plan), epochs))
        total = jnp.zeros((len(plan), len(rows), 10))
        begun = time.perf_counter()
        for e in range(epochs):
            chains, _ = chains_of_a_run.run_chunk(
                sampler,
                self.potential,
                keys,
                chains,
                None,
                Limits(jnp.asarray(1), jnp.asarray(NEVER)),
                Shape(1),
                True,
                False,
                None,
            )
            position = chains.state.position
            p = probabilities(position, test)
            notes[:, e // BLOCK] += np.asarray(_of_truth(p, truth)) / BLOCK
            if kept is not None:
                total = total + p * jnp.asarray(kept[:, e], float)[:, None, None]
            if e % 2:
                p = _of_truth(probabilities(position, seen), seen_truth)
                losses[:, e] = losses[:, e - 1] = -np.asarray(jnp.mean(jnp.log(p + 1e-30), axis=1))
            norms[:, e] = np.asarray(_squares(position))
            if e % 50 == 49:
                print(e + 1, "epochs", round(time.perf_counter() - begun, 1), "s", flush=True)
            late = seconds is not None and time.perf_counter() - begun > seconds
            if late and (e + 1) % BLOCK == 0:
                notes, losses, norms = (
                    notes[:, : (e + 1) // BLOCK],
                    losses[:, : e + 1],
                    norms[:, : e + 1],
                )
                break
        energy = self.num_data * losses + DECAY * self.num_data * norms
        made = {"notes": notes, "energy": energy, "seconds": time.perf_counter() - begun}
        return made if kept is None else made | {"total": np.asarray(total)}


def _probabilities(model: Any) -> Any:
    @eqx.filter_jit
    def of(position: Any, images: Any) -> Any:
        def some(few: Any) -> Any:
            return jax.vmap(lambda p: jax.nn.softmax(model.logits(p, few), axis=-1))(position)

        size = min(500, len(images))
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


def kept_epochs(trips: Trips, wait: int, burn: int, epochs: int) -> np.ndarray:
    """Which epochs a rule keeps; whole blocks only."""
    age = trips.age(epochs)
    kept = (age >= wait) & (np.arange(epochs) >= burn)
    whole = kept.reshape(-1, BLOCK).all(axis=1)
    return np.repeat(whole, BLOCK)


def log_loss(notes: np.ndarray, kept: np.ndarray, some: Any) -> float:
    """Of the averaged prediction, from blocks' probabilities of true labels."""
    mean = notes[kept.reshape(-1, BLOCK)[:, 0]][:, some].astype(float).mean(axis=0)
    return float(-np.mean(np.log(np.maximum(mean, 1e-12))))


def judged(
    found: dict[str, Any],
    plan: list[tuple[str, int]],
    burn: int,
    waits: tuple[int, ...],
    schedules: dict[str, Trips] = EVERY,
) -> list[dict[str, Any]]:
    """A row for each chain and wait."""
    rows, epochs = [], found["energy"].shape[1]
    halves = {"first half": slice(0, None, 2), "second half": slice(1, None, 2), "all": slice(None)}
    for chain, (name, seed) in enumerate(plan):
        trips, notes = schedules[name], found["notes"][chain]
        for wait in waits if trips.ends else (0,):
            kept = kept_epochs(trips, wait, burn, epochs)
            if not kept.any():
                continue
            energy = found["energy"][chain][kept]
            blocks = [x.mean() for x in np.array_split(energy, 8)]
            rows.append(
                {"schedule": name, "seed": seed, "wait": wait, "draws": int(kept.sum())}
                | {"energy": energy.mean(), "its_error": np.std(blocks) / 7**0.5}
                | {half: log_loss(notes, kept, some) for half, some in halves.items()}
            )
    return rows


def best(rows: list[dict[str, Any]], number: int) -> list[tuple[str, int]]:
    """Schedules with trips and their waits, by the first half of the test images."""
    means: dict[tuple[str, int], float] = {}
    for row in rows:
        same = [r for r in rows if (r["schedule"], r["wait"]) == (row["schedule"], row["wait"])]
        if EVERY[row["schedule"]].ends:
            means[row["schedule"], row["wait"]] = float(np.mean([r["first half"] for r in same]))
    chosen: list[tuple[str, int]] = []
    for name, wait in sorted(means, key=lambda one: means[one]):
        if name not in [n for n, _ in chosen]:
            chosen.append((name, wait))
    return chosen[:number]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--burn", type=int, default=200)
    parser.add_argument("--tries", type=int, default=2, help="seeds of every schedule")
    parser.add_argument("--best", type=int, default=4, help="how many are run again")
    parser.add_argument("--long", action="store_true", help="schedules for 3,000 epochs")
    parser.add_argument("--compute", default="tf32")
    parser.add_argument("--limit", type=int, default=None, help="images, for a trial")
    args = parser.parse_args()
    bench = Bench(args.data, args.compute, args.limit)
    file: dict[str, Any] = {
        "about": {
            "command": " ".join(["python -m benchmarks.cifar_schedules", *sys.argv[1:]]),
            "device": str(getattr(jax.devices()[0], "device_kind", jax.devices()[0])),
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
            "examples": bench.num_data,
        }
    }

    def write(found: dict[str, Any], part: str) -> None:
        args.out.write_text(json.dumps(file, indent=1) + "\n")
        notes = args.out.with_name(f"{args.out.stem}-{part}")
        np.save(notes.with_suffix(".energy.npy"), found["energy"].astype(np.float32))
        np.save(notes.with_suffix(".notes.npy"), found["notes"].astype(np.float16))

    names = ["sgnht", *LONG] if args.long else list(SCHEDULES)
    waits = LONG_WAITS if args.long else WAITS
    plan = [(name, 3 + seed) for seed in range(args.tries) for name in names]
    found = bench.run([(EVERY[name], seed) for name, seed in plan], args.epochs)
    file["tried"], file["tried_seconds"] = judged(found, plan, args.burn, waits), found["seconds"]
    file["best"] = best(file["tried"], args.best)
    write(found, "tried")
    for row in file["tried"]:
        print(json.dumps(row), flush=True)
    chosen = [("sgnht", 0), *file["best"]]
    plan = [(name, seed) for seed in range(3) for name, _ in chosen]
    kept = np.stack(
        [
            kept_epochs(EVERY[name], wait, args.burn, args.epochs)
            for _ in range(3)
            for name, wait in chosen
        ]
    )
    found = bench.run([(EVERY[name], seed) for name, seed in plan], args.epochs, kept)
    file["again"], file["again_seconds"] = judged(found, plan, args.burn, waits), found["seconds"]
    file["scores"] = []
    for chain, (name, seed) in enumerate(plan):
        mean = found["total"][chain] / kept[chain].sum()
        measures = (predict.accuracy, predict.log_loss, predict.brier, predict.calibration_error)
        row = {"schedule": name, "seed": seed, "wait": dict(chosen)[name]}
        file["scores"].append(row | {f.__name__: float(f(mean, bench.labels)) for f in measures})
        print(json.dumps(file["scores"][-1]), flush=True)
    write(found, "again")


if __name__ == "__main__":
    main()
