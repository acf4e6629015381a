"""The time of a step of ``tact`` over that of a bare loop of batch, gradient and noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmarks.speed.bare import Part, bare_ready
from benchmarks.speed.case import Case
from benchmarks.speed.clock import Contestant, by_turns, made_ready, ratio
from benchmarks.speed.networks import TIME_COLUMNS, time_cells, with_milliseconds
from benchmarks.speed.problems import Problem, problem
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.report import Table

LIMIT = 1.10
STEPS, RUN = "tact, its steps", "tact, a run"
PARTS: dict[str, Part] = {
    "bare loop": "all",
    "gradient alone": "gradient",
    "normals alone": "normals",
}


@dataclass(frozen=True)
class Config:
    """Networks with their batch sizes; a lap takes about ``seconds``.

    There are many short laps, because other processes slow down single laps, and a median of many
    laps is not moved by a few. Whole runs have laps of twice that time, because their start and
    their end count too.
    """

    networks: tuple[tuple[str, int], ...] = (("mlp", 128), ("cnn", 64), ("lstm", 64))
    chains: tuple[int, ...] = (1, 4)
    num_data: int = 10_000
    seconds: float = 2.0
    repeats: int = 11
    seed: int = 0


QUICK = Config(chains=(1,), seconds=0.3, repeats=3)


def measure(config: Config, say: Say) -> Numbers:
    """Each network in turn: steps of tact, whole runs of them, the bare loop, and its parts."""
    results: dict[str, Numbers] = {}
    overheads = []
    for name, batch_size in config.networks:
        made = problem(name, config.num_data, batch_size, config.seed)
        for chains in config.chains:
            say(f"{name}: {made.dimension:,} parameters, batches of {batch_size}, {chains} chains")
            ready, absent = made_ready(_contestants(made, chains, config), say)
            found = {**by_turns(ready, config.repeats, say), **absent}
            overheads.append({"network": name, "chains": chains, **overhead(found)})
            for who, result in found.items():
                results[f"{who}, {name} × {chains}"] = with_milliseconds(result)
    unit = "milliseconds per chain-step"
    return {"unit": unit, "limit": LIMIT, "overheads": overheads, "results": results}


def _contestants(made: Problem, chains: int, config: Config) -> list[Contestant]:
    run = made.driven(chains, config.seed)
    return [
        Contestant(STEPS, lambda: run.steps().ready(config.seconds)),
        Contestant(RUN, partial(run.ready, 2 * config.seconds)),
        *(
            Contestant(
                name,
                partial(
                    bare_ready,
                    made.potential,
                    made.init,
                    part,
                    chains=chains,
                    seconds=config.seconds,
                    seed=config.seed,
                ),
            )
            for name, part in PARTS.items()
        ),
    ]


def overhead(results: dict[str, Numbers]) -> Numbers:
    """The time of steps, and of a run, over the bare loop's: of the medians and by round."""
    return {"steps": _over(results, STEPS), "run": _over(results, RUN)}


def _over(results: dict[str, Numbers], who: str) -> Numbers:
    found = ratio(results, "bare loop", who)
    if "ratio" not in found:
        return {"skipped": found["skipped"]}
    return {"ratio": found["ratio"], "by_round": found["by_round"]}


def tables(numbers: Numbers) -> Sequence[tuple[str, Table]]:
    """Ratios, and the times of the parts."""
    ratios = []
    for row in numbers["overheads"]:
        cells: list[str] = []
        for found in (row["steps"], row["run"]):
            if "ratio" in found:
                rounds = found["by_round"]
                cells += [f"{found['ratio']:.3f}", f"{rounds['min']:.2f} – {rounds['max']:.2f}"]
            else:
                cells += ["–", found["skipped"]]
        ratios.append((f"{row['network']} × {row['chains']}", *cells))
    columns = (
        "network × chains",
        f"steps of tact over bare loop (limit {numbers['limit']:.2f})",
        "by round",
        "a whole run, with the work of the host",
        "by round",
    )
    times = [(name, *time_cells(result)) for name, result in numbers["results"].items()]
    return [
        ("overhead: a step of tact over batch, gradient and noise", Table(columns, tuple(ratios))),
        ("overhead: the parts", Table(TIME_COLUMNS, tuple(times))),
    ]


CASE = Case(
    name="overhead",
    about="A step of tact over a bare loop of batch, gradient and noise",
    quick=QUICK,
    full=Config(),
    measure=measure,
    tables=tables,
)
