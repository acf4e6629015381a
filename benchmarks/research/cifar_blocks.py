r"""Heat for a block of the network while the rest stands still: the paper's CNN on CIFAR-10.

    python -m benchmarks cifar_blocks --data FOLDER --seeds 20 21
    python -m benchmarks cifar_blocks --data FOLDER --seeds 30 31 \
        --only sgnht "all, T = 2, 20 of 250"

A trip is to forget what holds modes apart and to keep what takes long to learn. While λ < 1, and
for some epochs after it, only the weights of a block move; the others stand still with their
momenta and thermostats. While the rest stands, a step leaves the block's conditional law at that λ
invariant; while λ = 1 and everything moves, the posterior.

``neighbors`` in the record says what a trip forgets: by how much the predictions of two stretches
of 120 epochs are better together than each alone. The stretches come from the ends of two rests
with a trip between them (for ``sgnht``, as far apart without one), and from two chains.

Chains, seeds, scores and waits are those of ``cifar_schedules``, with a friction for each tensor
(``cifar_thermostats``).
"""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import record
from benchmarks.research.cifar_chains import BLOCK, Bench, add_chains
from benchmarks.research.cifar_chains import QUICK as CHAINS
from benchmarks.research.cifar_judge import LONG_WAITS, WAITS, judged
from benchmarks.research.cifar_places import loss
from benchmarks.research.cifar_trips import NEVER, Along, Trips, every
from tacthmc.dynamics import Splitting

LEAVES = ("conv1", "conv2", "hidden", "out")
BLOCKS = {
    "all": LEAVES,
    "head": ("hidden", "out"),
    "hidden": ("hidden",),
    "kernels": ("conv1", "conv2"),
    "second kernel": ("conv2",),
    "all but the first kernel": ("conv2", "hidden", "out"),
    "every other unit": ("hidden", "out"),
}
HIDDEN_UNITS = 100
MAX_TRIPS = 12
NOTE_FILES = 4
"""Files that the notes are split into, so that none is large."""
QUICK = CHAINS | {"seeds": [20], "only": ["sgnht", "head, T = 10, 8 of 250"]}


class Standing(Splitting):
    """The splitting, with a part of the position that stands still on trips and for a while after.

    Which weights stand may change from trip to trip.
    """

    moves: dict[str, Any]
    """1 for layers that move on trips, 0 for those that do not."""
    units: Any
    """1 where only every other unit of the hidden layer moves, the others on the next trip."""
    longer: Any
    """Steps after a trip for which the rest goes on standing."""

    def step(self, parts: Any, now: Any, noise: Any, state: Any, potential: Any, batch: Any) -> Any:
        """One step; what stands gets its old position, momentum and thermostat back."""
        gates = self._gates(parts.tempering, state)

        def gated(new: Any, old: Any) -> Any:
            return {k: jnp.where(gates[k], new[k], old[k]) for k in gates}

        def whole(new: Any, old: Any) -> Any:
            return {k: jnp.where(jnp.all(gates[k]), new[k], old[k]) for k in gates}

        still = jax.tree.map(jnp.zeros_like, state.momentum)
        start = replace(state, momentum=gated(state.momentum, still))
        moved = super().step(parts, now, noise, start, potential, batch)
        after = moved.state
        kept = replace(
            after,
            position=gated(after.position, state.position),
            momentum=gated(after.momentum, state.momentum),
            thermostat=whole(after.thermostat, state.thermostat),
            mean_friction=whole(after.mean_friction, state.mean_friction),
        )
        return moved._replace(state=kept)

    def _gates(self, tempering: Any, state: Any) -> dict[str, Any]:
        """For each number of the position whether it moves in this step."""
        number = jnp.sum(jnp.where(tempering.begins <= state.step, 1, 0))
        odd = jnp.arange(HIDDEN_UNITS) % 2 == number % 2
        every_unit = ~jnp.asarray(self.units > 0)
        of_units = {
            "hidden.weight": odd[:, None] | every_unit,
            "hidden.bias": odd | every_unit,
            "out.weight": odd[None] | every_unit,
            "out.bias": every_unit,
        }
        on_trip, gates = self._on_trip(tempering, state.step), {}
        for name, leaf in state.position.items():
            gate = jnp.asarray(self.moves[name.split(".")[0]] > 0) & of_units.get(name, True)
            gates[name] = jnp.broadcast_to(gate | ~on_trip, leaf.shape)
        return gates

    def _on_trip(self, tempering: Any, step: Any) -> Any:
        """Whether ξ is off the plateau in the middle of the step, or was ``longer`` steps ago."""
        before = jnp.maximum(step - jnp.asarray(self.longer).astype(step.dtype), 0)
        hot = [~tempering.coupling.on_plateau(tempering.at(k, 0.5)[0]) for k in (step, before)]
        return hot[0] | hot[1]


class Numbered(Along):
    """A schedule that knows the steps at which its trips begin."""

    begins: Any

    def __init__(self, trips: Trips, epochs: int, epoch: int):
        super().__init__(trips.lam(epochs), epoch)
        begins = [(end - trips.chilled - trips.heated) * epoch for end in trips.ends]
        self.begins = jnp.asarray([*begins, *[NEVER] * (MAX_TRIPS - len(begins))], jnp.int32)


class Block(NamedTuple):
    """Trips of a block."""

    trips: Trips
    block: str = "all"
    after: float = 0
    """Epochs for which the rest goes on standing after a trip."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The ends of the trips."""
        return self.trips.ends

    def age(self, epochs: int) -> np.ndarray:
        """Epochs at rest since the last trip."""
        return self.trips.age(epochs)


TENSOR: dict[str, Any] = {"thermostat": "tensor", "rate": 0.02, "noise": 0.5}


def _trips(hottest: float, heated: float, period: int = 250) -> Trips:
    return Trips(hottest, every(period), heated, rise=0.25, held=heated / 4, **TENSOR)


SETTINGS = {
    "sgnht": Block(Trips(**TENSOR)),
    "all, T = 2, 20 of 250": Block(Trips(2.0, every(250), 20, **TENSOR)),
    "head, T = 3, 12 of 250": Block(_trips(3, 12), "head", 8),
    "head, T = 10, 8 of 250": Block(_trips(10, 8), "head", 8),
    "head, T = 100, 8 of 250": Block(_trips(100, 8), "head", 8),
    "head, T = 100, 16 of 250": Block(_trips(100, 16), "head", 16),
    "head, T = 100, 8 of 125": Block(_trips(100, 8, 125), "head", 8),
    "hidden, T = 100, 8 of 250": Block(_trips(100, 8), "hidden", 8),
    "units, T = 100, 8 of 250": Block(_trips(100, 8), "every other unit", 8),
    "units, T = 100, 8 of 125": Block(_trips(100, 8, 125), "every other unit", 8),
    "kernels, T = 3, 8 of 250": Block(_trips(3, 8), "kernels", 4),
    "kernels, T = 30, 8 of 250": Block(_trips(30, 8), "kernels", 8),
    "second kernel, T = 30, 8 of 250": Block(_trips(30, 8), "second kernel", 8),
    "all but conv1, T = 30, 8 of 250": Block(_trips(30, 8), "all but the first kernel", 8),
    "all, T = 1000, 8 of 500": Block(_trips(1000, 8, 500)._replace(ends=(500,))),
}


class BlockBench(Bench):
    """Chains with blocks."""

    def sampler(self, trips: Any, epochs: int) -> Any:
        """SGNHT along the schedule, with the rest standing."""
        made = super().sampler(trips.trips, epochs)
        layers = BLOCKS[trips.block]
        moves = {name: float(name in layers) for name in LEAVES}
        integrator = Standing(
            moves, float(trips.block == "every other unit"), trips.after * self.epoch
        )
        tempering = Numbered(trips.trips, epochs, self.epoch)
        parts = (integrator, tempering)
        return eqx.tree_at(
            lambda s: (s.integrator, s.tempering), made, parts, is_leaf=_is_integrator_or_tempering
        )


def _is_integrator_or_tempering(x: Any) -> bool:
    return isinstance(x, Splitting | Along)


STRETCHES = ((360, 480), (620, 740), (860, 980))
"""Epochs of rests between trips with a period of 250."""


def neighbors(notes: np.ndarray, plan: list[tuple[str, int]]) -> dict[str, dict[str, float]]:
    """For each setting: the log-loss of one stretch, and how much lower it is for two together."""
    parts: dict[str, list[list[np.ndarray]]] = {}
    for (name, _), chain in zip(plan, notes.astype(np.float32), strict=True):
        cut = [chain[a // BLOCK : b // BLOCK].mean(axis=0) for a, b in STRETCHES]
        parts.setdefault(name, []).append(cut)

    def gain(a: np.ndarray, b: np.ndarray) -> float:
        return (loss([a]) + loss([b])) / 2 - loss([a, b])

    found = {}
    for name, chains in parts.items():
        found[name] = {
            "one": float(np.mean([loss([part]) for chain in chains for part in chain])),
            "gain": float(np.mean([gain(*pair) for chain in chains for pair in pairwise(chain)])),
            "gain_two_chains": float(
                np.mean([gain(a[k], b[k + 1]) for a, b in permutations(chains, 2) for k in (0, 1)])
            ),
        }
    return found


def arguments(parser: ArgumentParser) -> None:
    add_chains(parser)
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), help="settings, by name")
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21])
    parser.add_argument("--seconds", type=float, help="end after so long")


def main(args: Namespace) -> None:
    bench = BlockBench(args)
    plan = [(name, seed) for seed in args.seeds for name in args.only]
    found = bench.run(
        [(SETTINGS[name], seed) for name, seed in plan], args.epochs, seconds=args.seconds
    )
    epochs = found["energy"].shape[1]
    file = {
        "about": record.about(args, examples=bench.num_data, epochs=epochs),
        "seconds": found["seconds"],
        "plan": plan,
        "neighbors": neighbors(found["notes"], plan) if epochs >= STRETCHES[-1][1] else {},
        "rows": judged(found, plan, args.burn, (*WAITS, *LONG_WAITS[1:]), SETTINGS),
    }
    record.write(args.out, file)
    np.save(args.out.with_suffix(".energy.npy"), found["energy"].astype(np.float32))
    for part, some in enumerate(np.array_split(found["notes"].astype(np.float16), NOTE_FILES)):
        np.save(args.out.with_suffix(f".notes{part}.npy"), some)
    for name in args.only:
        mine = [row for row in file["rows"] if row["schedule"] == name]
        for wait in sorted({row["wait"] for row in mine}):
            same = [row for row in mine if row["wait"] == wait]
            print(f"{name:35} {wait:4} {same[0]['draws']:4}", end=" ")
            print(f"{np.mean([row['first half'] for row in same]):.4f}", end=" ")
            print(*(f"{row['all']:.4f} ({row['energy']:,.0f})" for row in same), flush=True)
