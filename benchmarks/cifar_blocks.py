r"""Heat for a block of the network while the rest stands still: the paper's CNN on CIFAR-10.

    python -m benchmarks.cifar_blocks OUT.json --data FOLDER --seeds 20 21
    python -m benchmarks.cifar_blocks OUT.json --data FOLDER --seeds 30 31 \
        --only sgnht "all, T = 2, 20 of 250"

A trip that forgets what holds places apart and keeps what takes long to learn: while λ < 1, and for
some epochs after it, only the weights of a block move; the others, their momenta and their
thermostats stand still. At a standing body a step leaves the block's conditional law at that λ
invariant, and at λ = 1 with everything moving the posterior's.

``neighbors`` in OUT.json says what a trip forgets: how much better the predictions of two
stretches of 120 epochs are together than each by itself, from the ends of two rests with a trip
between them (for ``sgnht``, of as much time without one), and of two chains.

Chains, seeds, scores and waits are those of ``benchmarks.cifar_schedules``, with a friction for
each tensor (``benchmarks.cifar_thermostats``).
"""

import argparse
import json
import platform
import sys
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cifar_places import loss
from benchmarks.cifar_schedules import (
    BLOCK,
    LONG_WAITS,
    WAITS,
    Along,
    Bench,
    Trips,
    every,
    judged,
)
from tacthmc._typing import Number
from tacthmc.dynamics import Sweep
from tacthmc.dynamics._langevin import Moved, Splitting

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


class Standing(Splitting):
    """The splitting, with a part of the position standing still on trips and for a while after.

    What ``tacthmc.dynamics.HeatedBlock`` does for whole tensors, and for every other unit of a layer.
    """

    moves: dict[str, Number]
    """1 for layers that move on trips, 0 for those that do not."""
    units: Number
    """1 where of the hidden layer only every other unit moves, the others on the next trip."""
    longer: Number
    """Steps after a trip for which the rest goes on standing."""

    def advance(self, parts: Any, now: Any, noise: Any, state: Any, *args: Any) -> Moved:
        """One step."""
        assert isinstance(parts.sweep, Along)
        coupling = parts.coupling
        on_trip = ~coupling.on_plateau(parts.sweep.at(state.step, coupling, 0.5)[0])
        before = jnp.maximum(state.step - jnp.asarray(self.longer).astype(state.step.dtype), 0)
        on_trip = on_trip | ~coupling.on_plateau(parts.sweep.at(before, coupling, 0.5)[0])
        number = jnp.sum(jnp.where(parts.sweep.begins <= state.step, 1, 0))
        odd = jnp.arange(100) % 2 == number % 2
        gates = {}
        for name, leaf in state.position.items():
            gate = jnp.asarray(self.moves[name.split(".")[0]] > 0)
            some = {"hidden.weight": odd[:, None], "hidden.bias": odd, "out.weight": odd[None]}
            if name in some:
                gate = gate & (some[name] | ~jnp.asarray(self.units > 0))
            elif name == "out.bias":
                gate = gate & ~jnp.asarray(self.units > 0)
            gates[name] = jnp.broadcast_to(gate | ~on_trip, leaf.shape)

        def gated(new: Any, old: Any) -> Any:
            return {k: jnp.where(gates[k], new[k], old[k]) for k in gates}

        still = jax.tree.map(jnp.zeros_like, state.momentum)
        moved = super().advance(
            parts, now, noise, replace(state, momentum=gated(state.momentum, still)), *args
        )
        after = moved.state

        def whole(new: Any, old: Any) -> Any:
            return {k: jnp.where(jnp.all(gates[k]), new[k], old[k]) for k in gates}

        kept = replace(
            after,
            position=gated(after.position, state.position),
            momentum=gated(after.momentum, state.momentum),
            thermostat=whole(after.thermostat, state.thermostat),
            settled=whole(after.settled, state.settled),
        )
        return moved._replace(state=kept)


class Led(Along):
    """The same, with the steps at which trips begin."""

    begins: Any

    def __init__(self, trips: Trips, epochs: int, epoch: int):
        """Of a schedule."""
        super().__init__(trips.lam(epochs), epoch)
        begins = [(end - trips.chilled - trips.heated) * epoch for end in trips.ends]
        self.begins = jnp.asarray([*begins, *[10**9] * (MOST - len(begins))], jnp.int32)


MOST = 12
"""Trips."""


class Block(NamedTuple):
    """Trips of a block."""

    trips: Trips
    block: str = "all"
    after: float = 0
    """Epochs for which the rest goes on standing after a trip."""

    @property
    def ends(self) -> tuple[int, ...]:
        """The trips'."""
        return self.trips.ends

    def age(self, epochs: int) -> np.ndarray:
        """The trips'."""
        return self.trips.age(epochs)


TENSOR = {"thermostat": "tensor", "rate": 0.02, "noise": 0.5}


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
    """With blocks."""

    def sampler(self, trips: Any, epochs: int) -> Any:
        """SGNHT along the schedule, the rest standing."""
        made = super().sampler(trips.trips, epochs)
        layers = BLOCKS[trips.block]
        moves = {name: float(name in layers) for name in LEAVES}
        integrator = Standing(
            moves, float(trips.block == "every other unit"), trips.after * self.epoch
        )
        sweep = Led(trips.trips, epochs, self.epoch)
        return eqx.tree_at(
            lambda s: (s.integrator, s.sweep), made, (integrator, sweep), is_leaf=_is_part
        )


def _is_part(x: Any) -> bool:
    return isinstance(x, Splitting | Sweep)


STRETCHES = ((360, 480), (620, 740), (860, 980))
"""Epochs, of rests between trips with a period of 250."""


def neighbors(notes: np.ndarray, plan: list[tuple[str, int]]) -> dict[str, dict[str, float]]:
    """For each setting: one stretch's log-loss, and what two have less than that."""
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


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), help="settings, by name")
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--burn", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[20, 21])
    parser.add_argument("--compute", default="tf32")
    parser.add_argument("--limit", type=int, default=None, help="images, for a trial")
    parser.add_argument("--seconds", type=float, default=None, help="end after so long")
    args = parser.parse_args()
    bench = BlockBench(args.data, args.compute, args.limit)
    plan = [(name, seed) for seed in args.seeds for name in args.only]
    found = bench.run(
        [(SETTINGS[name], seed) for name, seed in plan], args.epochs, seconds=args.seconds
    )
    file = {
        "about": {
            "command": " ".join(
                ["python -m benchmarks.cifar_blocks"]
                + [f'"{one}"' if " " in one else one for one in sys.argv[1:]]
            ),
            "device": str(getattr(jax.devices()[0], "device_kind", jax.devices()[0])),
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
            "examples": bench.num_data,
            "epochs": found["energy"].shape[1],
        },
        "seconds": found["seconds"],
        "plan": plan,
        "neighbors": neighbors(found["notes"], plan) if args.epochs >= STRETCHES[-1][1] else {},
        "rows": judged(found, plan, args.burn, (*WAITS, *LONG_WAITS[1:]), SETTINGS),
    }
    args.out.write_text(json.dumps(file, indent=1) + "\n")
    np.save(args.out.with_suffix(".energy.npy"), found["energy"].astype(np.float32))
    # Parts that are no larger than a transfer may be.
    for part, some in enumerate(np.array_split(found["notes"].astype(np.float16), 4)):
        np.save(args.out.with_suffix(f".notes{part}.npy"), some)
    for name in args.only:
        mine = [row for row in file["rows"] if row["schedule"] == name]
        for wait in sorted({row["wait"] for row in mine}):
            same = [row for row in mine if row["wait"] == wait]
            print(f"{name:35} {wait:4} {same[0]['draws']:4}", end=" ")
            print(f"{np.mean([row['first half'] for row in same]):.4f}", end=" ")
            print(*(f"{row['all']:.4f} ({row['energy']:,.0f})" for row in same), flush=True)


if __name__ == "__main__":
    main()
