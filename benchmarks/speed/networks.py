"""Milliseconds per chain-step on three networks: ``tact`` and Algorithm 1 in eager PyTorch."""

import math
import random
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import jax

from benchmarks.machine import threads
from benchmarks.speed import torch_networks
from benchmarks.speed.case import Case, number, shown
from benchmarks.speed.clock import (
    Contestant,
    Lap,
    Ready,
    by_turns,
    enough,
    made_ready,
    ratio,
    spread,
)
from benchmarks.speed.mixture import ratio_table
from benchmarks.speed.problems import LEARNING_RATE, PRECISION, Problem, problem
from benchmarks.speed.torch_tact import TorchTact, load_torch
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.report import Table


@dataclass(frozen=True)
class Config:
    """Networks with their batch sizes; a lap takes about ``seconds``.

    :class:`benchmarks.speed.overhead.Config` says why laps are short and many.
    """

    networks: tuple[tuple[str, int], ...] = (("mlp", 128), ("cnn", 64), ("lstm", 64))
    chains: tuple[int, ...] = (1, 4)
    num_data: int = 10_000
    seconds: float = 3.0
    repeats: int = 9
    seed: int = 0


QUICK = Config(chains=(1,), seconds=0.3, repeats=3)


def measure(config: Config, say: Say) -> Numbers:
    """Each network in turn, with each number of chains."""
    found: dict[str, Numbers] = {}
    pairs = []
    for name, batch_size in config.networks:
        made = problem(name, config.num_data, batch_size, config.seed)
        for chains in config.chains:
            say(f"{name}: {made.dimension:,} parameters, batches of {batch_size}, {chains} chains")
            ours = {f"tact {name} × {chains}, devices: {n}": n for n in device_counts()}
            theirs = {f"PyTorch {name} × {chains}, threads: {n}": n for n in thread_counts()}
            tact = [
                Contestant(
                    who, partial(made.driven(chains, config.seed, count).ready, config.seconds)
                )
                for who, count in ours.items()
            ]
            peers = [
                Contestant(who, partial(torch_ready, made, chains, count, config))
                for who, count in theirs.items()
            ]
            ready, absent = made_ready([*tact, *peers], say)
            all_of_them = {**by_turns(ready, config.repeats, say), **absent}
            found |= {who: with_milliseconds(result) for who, result in all_of_them.items()}
            best = fastest(all_of_them, ours), fastest(all_of_them, theirs)
            pairs.append(ratio(all_of_them, *best))
    return {"unit": "milliseconds per chain-step", "results": found, "ratios": pairs}


def thread_counts() -> list[int]:
    """One and all: on small networks more threads can make PyTorch slower."""
    return sorted({1, threads()})


def device_counts() -> list[int]:
    """One device, whose operations may use all cores, and one device per core."""
    return sorted({1, min(threads(), len(jax.devices()))})


def fastest(results: Numbers, among: Iterable[str]) -> str:
    """The one with the highest median rate; any of them where none has one."""
    return max(among, key=lambda name: results[name].get("rate", {}).get("median", 0.0))


def with_milliseconds(result: Numbers) -> Numbers:
    """A result with the time of a chain-step beside its rate."""
    if "rate" not in result:
        return result
    return {"milliseconds": spread([1e3 / rate for rate in result["rates"]]), **result}


def torch_ready(made: Problem, chains: int, count: int, config: Config) -> Ready:
    """Algorithm 1 in eager PyTorch on ``count`` threads, one chain after another."""
    torch = load_torch()
    torch.manual_seed(config.seed)
    random.seed(config.seed)
    data = (
        torch.from_numpy(torch_networks.arranged(made.images)),
        torch.from_numpy(made.labels).long(),
    )
    one_each = [
        TorchTact(
            torch,
            torch_networks.module(torch, made.name),
            data,
            made.batch_size,
            precision=PRECISION,
            step_size=LEARNING_RATE / config.num_data,
        )
        for _ in range(chains)
    ]
    if one_each[0].dimension - torch_networks.SECOND_BIASES.get(made.name, 0) != made.dimension:
        raise AssertionError(
            f"PyTorch's {made.name} has {one_each[0].dimension} parameters, ours {made.dimension}"
        )

    def run(steps: int) -> float:
        # On every lap, because other contestants of this process set another number.
        torch.set_num_threads(count)
        energies: list[float] = []
        begun = time.perf_counter()
        for _ in range(steps):
            energies = [chain.step() for chain in one_each]
        took = time.perf_counter() - begun
        if not all(map(math.isfinite, energies)):
            raise FloatingPointError("a chain is no longer finite")
        return took

    run(2)
    steps = enough(run, config.seconds, unit=5)
    facts = {"steps": steps, "chains": chains, "threads": count}
    return Ready(lambda: Lap(run(steps), steps * chains), None, facts)


def tables(numbers: Numbers) -> Sequence[tuple[str, Table]]:
    """Times, and ratios of rates."""
    rows = [(name, *time_cells(result)) for name, result in numbers["results"].items()]
    return [
        ("networks: tact, and Algorithm 1 in PyTorch", Table(TIME_COLUMNS, tuple(rows))),
        ("networks: ours over theirs", ratio_table(numbers["ratios"])),
    ]


TIME_COLUMNS = ("network × chains", "ms a chain-step", "range", "compiled in s")


def time_cells(result: Numbers) -> tuple[str, str, str]:
    """A result's time, its range and the time of compiling, or why there is none."""
    if "milliseconds" not in result:
        return "–", shown(result)[1], ""
    time, compiled = result["milliseconds"], result.get("compile_seconds")
    ends = " – ".join(number(time[end]) for end in ("min", "max"))
    return number(time["median"]), ends, "" if compiled is None else f"{compiled:.1f}"


CASE = Case(
    name="networks",
    about="Milliseconds per chain-step of tact on three networks, beside eager PyTorch",
    quick=QUICK,
    full=Config(),
    measure=measure,
    tables=tables,
)
