"""Successive halving on validation images: which settings go on, and which is chosen."""

from collections.abc import Sequence

from tacthmc.paper.table1.group import Cell, Group, Stage
from tacthmc.paper.table1.protocol import CONFIG, SEARCH_SEED, Protocol
from tacthmc.paper.table1.records import Record
from tacthmc.paper.table1.search_space import Settings, settings


def first_cells(method: str, protocol: Protocol) -> list[Cell]:
    """All settings at all noise levels."""
    found = settings(method, protocol.rungs[0][0])
    return [Cell(noise, SEARCH_SEED, one) for noise in protocol.noises for one in found]


def rung(
    task: str,
    method: str,
    protocol: Protocol,
    number: int,
    cells: Sequence[Cell],
    former: Group | None,
) -> Group:
    """The chains of a rung, the first being 1; they go on from the former's.

    Draws count from the former rung's end on, so that a rung is judged by what is new in it.
    """
    end = protocol.rungs[number - 1][1]
    begun = protocol.burn_in(end) if former is None else former.epochs
    stage = Stage(
        "search", tuple(cells), burn_in=begun, held=protocol.held, rung=number, former=former
    )
    return _group(task, method, protocol, end, stage)


def best(records: Sequence[Record], count: int) -> list[Cell]:
    """At each noise level apart, the settings with the least log-loss on the validation images.

    Where there is no score, since a chain diverged or had no draw, there is nothing to choose:
    such settings come last.
    """
    noises = list(dict.fromkeys(sorted(record["noise"] for record in records)))
    found: list[Cell] = []
    for noise in noises:
        own = [record for record in records if record["noise"] == noise]
        own.sort(key=_loss)
        found += [Cell(noise, SEARCH_SEED, _given(record)) for record in own[:count]]
    return found


def finals(
    task: str, method: str, protocol: Protocol, chosen: dict[float, Settings]
) -> tuple[Group, Group]:
    """One chain for all epochs, and several that share them, with each seed."""

    def group(chains: int) -> Group:
        epochs = protocol.epochs // chains
        cells = tuple(
            Cell(noise, seed, chosen[noise], chain)
            for noise in protocol.noises
            for seed in protocol.seeds
            for chain in range(chains)
        )
        begun = protocol.burn_in(epochs)
        stage = Stage("final", cells, burn_in=begun, held=begun, chains=chains)
        return _group(task, method, protocol, epochs, stage)

    return group(1), group(protocol.chains)


def _group(task: str, method: str, protocol: Protocol, epochs: int, stage: Stage) -> Group:
    seeds = tuple(dict.fromkeys(cell.seed for cell in stage.cells))
    return Group(
        task, method, CONFIG, protocol.noises, seeds, epochs, protocol.compute, stage=stage
    )


def _loss(record: Record) -> tuple[bool, float]:
    loss = record["log_loss"]
    return loss is None, loss or 0.0


def _given(record: Record) -> Settings:
    return tuple(sorted(record["settings"]["given"].items()))
