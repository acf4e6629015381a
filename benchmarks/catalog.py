"""The list of benchmarks: ``python -m benchmarks`` and ``benchmarks/README.md`` both show it."""

from typing import NamedTuple


class Benchmark(NamedTuple):
    """One entry of ``python -m benchmarks``."""

    module: str
    """A module of this package with ``main(args)``, and ``arguments(parser)`` if it has options."""
    about: str
    """What it measures, in a line."""
    records: tuple[str, ...] = ()
    """Its published results, in ``benchmarks/records``."""
    options: str = ""
    """The options that it cannot do without."""


SPEED = {
    "speed": Benchmark(
        "speed.command",
        "Steps per second beside BlackJAX, posteriors and PyTorch, with and without configure_cpu.",
        ("bench.json",),
    ),
    "step_ratio": Benchmark(
        "speed.step_ratio",
        "The time of a step in another checkout over that in this one.",
        ("step_ratio.json",),
        options="--old CHECKOUT",
    ),
}
MAINTAINED = {
    "overhead": Benchmark(
        "maintained.overhead",
        "The time that store, checkpoints and progress add to a run.",
        ("overhead.json",),
    ),
    "memory": Benchmark("maintained.memory", "The memory of long runs.", ("memory.json",)),
    "soak": Benchmark(
        "maintained.soak",
        "A stored run that is killed 50 times ends like one that is not.",
        ("soak.json",),
    ),
    "damage": Benchmark(
        "maintained.damage",
        "What comes of a stored run of which one file is damaged, 1,000 times.",
        ("damage.json",),
    ),
    "gpu": Benchmark(
        "maintained.gpu", "Networks on one GPU, beside PyTorch.", ("gpu.json",), options="PART …"
    ),
    "equivalence": Benchmark(
        "maintained.equivalence",
        "Whether products of lower precision change the posterior; needs the traces of gpu.",
        ("equivalence.json",),
        options="FOLDER",
    ),
    "mobility": Benchmark(
        "maintained.mobility",
        "Crossings between modes against the dimension, for tact and other samplers.",
        ("mobility.json",),
    ),
    "sweep": Benchmark(
        "maintained.sweep", "Crossings between modes where ξ follows a schedule.", ("sweep.json",)
    ),
    "no_numbers": Benchmark(
        "maintained.no_numbers",
        "The error of tact() without any number set by hand, on posteriors with a known answer.",
        ("no_numbers.json", "no_numbers_references.json"),
    ),
    "modes": Benchmark(
        "modes.command",
        "tact() without numbers beside other samplers, on targets whose answers are known exactly.",
        ("modes.json",),
    ),
    "narrow_modes": Benchmark(
        "maintained.narrow_modes",
        "How often the search for modes finds a narrow mode in a random direction.",
        ("narrow_modes.json",),
    ),
    "network_warmup": Benchmark(
        "maintained.network_warmup",
        "The numbers that tuning chooses for a network, and its predictions with them.",
        ("network_warmup.json", "network_warmup_apart.json", "network_warmup_cifar10.json"),
        options="--data FOLDER",
    ),
    "out_of_distribution": Benchmark(
        "maintained.out_of_distribution",
        "How well networks tell foreign images from their own.",
        ("out_of_distribution.json",),
        options="--data FOLDER",
    ),
    "table1_parallel": Benchmark(
        "maintained.table1_parallel",
        "Table 1 with one process per method on one GPU; writes a folder of results.",
        options="--data FOLDER",
    ),
}
RESEARCH = {
    "cifar_mobility": Benchmark(
        "research.cifar_mobility",
        "The motion of ξ on the paper's CNN, and the predictions of tempered chains.",
        ("cifar_mobility.json", "cifar_sweep.json"),
        options="--data FOLDER",
    ),
    "cifar_schedules": Benchmark(
        "research.cifar_schedules",
        "Schedules of the temperature for the CNN.",
        ("cifar_schedules.json",),
        options="--data FOLDER",
    ),
    "cifar_places": Benchmark(
        "research.cifar_places",
        "Predictions of several modes together, from the notes of cifar_schedules.",
        options="FILE …",
    ),
    "cifar_thermostats": Benchmark(
        "research.cifar_thermostats",
        "One thermostat for the CNN, or one per tensor.",
        ("cifar_thermostats.json",),
        options="SETTING … --data FOLDER",
    ),
    "cifar_blocks": Benchmark(
        "research.cifar_blocks",
        "A hot block of the CNN's layers while the other layers stand still.",
        ("cifar_blocks.json",),
        options="--data FOLDER",
    ),
    "mlp_thermostats": Benchmark(
        "research.mlp_thermostats",
        "One thermostat for an MLP, or one per tensor.",
        ("mlp_thermostats.json",),
        options="--data FOLDER",
    ),
    "tensor_temperatures": Benchmark(
        "research.tensor_temperatures",
        "The kinetic temperature of each tensor of the CNN under one friction.",
        ("tensor_temperatures.json",),
        options="--data FOLDER",
    ),
    "thermostat_truth": Benchmark(
        "research.thermostat_truth",
        "Which thermostat is closer to the exact posterior of a small network.",
        ("thermostat_truth.json",),
    ),
}
PAGES = {
    "pages": Benchmark("pages.fill", "Fill in the tables and numbers of README, docs, research."),
    "growth_pictures": Benchmark("speed.pictures", "Draw how the time of a step grows."),
    "screenshot": Benchmark("pages.screenshot", "Make the README's picture of a report."),
}
GROUPS = {
    "Speed, beside peers and beside another checkout": SPEED,
    "Maintained: measured again when the library changes": MAINTAINED,
    "Research: experiments that answered one question each": RESEARCH,
    "Pages and pictures made from the records": PAGES,
}
BENCHMARKS = SPEED | MAINTAINED | RESEARCH | PAGES
OTHER_RECORDS = {
    "statistics.json": "make test-slow",
    "calibration.json": "make test-slow",
    "durations.json": "make durations",
}
"""Records that something else writes."""


def listing() -> str:
    """All benchmarks by group, one per line."""
    width = max(map(len, BENCHMARKS))
    lines = []
    for group, members in GROUPS.items():
        lines += ["", f"{group}:"]
        lines += [f"  {name:<{width}}  {one.about}" for name, one in members.items()]
    return "\n".join(lines).strip()


def index(members: dict[str, Benchmark]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The columns and rows of a group's table in ``benchmarks/README.md``."""
    rows = []
    for name, one in members.items():
        command = f"python -m benchmarks {name} {one.options}".strip()
        links = (f"[{record}](records/{record})" for record in one.records)
        rows.append((f"`{command}`", one.about, "<br>".join(links) or "–"))
    return ("command", "what it measures", "record"), tuple(rows)
