"""The options of ``python -m benchmarks speed``, and the names of its cases; the cases themselves load more."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class CaseName(StrEnum):
    """What can be measured."""

    mixture = "mixture"
    networks = "networks"
    overhead = "overhead"
    growth = "growth"


Out = Annotated[Path, typer.Option(help="The JSON file; cases in it that are not run are kept.")]
Only = Annotated[
    list[CaseName] | None,
    typer.Option(
        help="One case; may be repeated, all by default. mixture: 1-D against BlackJAX and"
        " posteriors. networks: against PyTorch. overhead: a step against its gradient. growth:"
        " with dimension, chains, draws.",
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: a look, not a measurement.")]
Repeats = Annotated[
    int | None,
    typer.Option(
        help="Rounds by turns; 5 (networks 9, overhead 11), with --quick 3.",
        min=1,
        show_default=False,
    ),
]
EXAMPLES = (
    "python -m benchmarks speed --quick",
    "python -m benchmarks speed --out bench.json",
    "python -m benchmarks speed --only mixture --only overhead --repeats 9",
)
