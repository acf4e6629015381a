"""Successive halving on validation images: which settings go on, and which is chosen."""

from collections.abc import Sequence

from tacthmc.paper.table1.group import Cell, Group, Stage
from tacthmc.paper.table1.protocol import CONFIG, SEARCH_SEED, Protocol
from tacthmc.paper.table1.records import Record
from tacthmc.paper.table1.search_space import Settings, settings


def first_cells(method: str, protocol: Protocol) -> list[Cell]:
    """A cell for each setting at each noise level."""
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
    """The chains of a rung, which go on from those of the former one; the first rung is 1.

    Draws count from the former rung's end on, so that a rung is judged by its own draws.
    """
    end = protocol.rungs[number - 1][1]
    begun = protocol.burn_in(end) if former is None else former.epochs
    stage = Stage(
        "search", tuple(cells), burn_in=begun, held=protocol.held, rung=number, former=former
    )
    return _group(task, method, protocol, end, stage)


def best(records: Sequence[Record], count: int) -> list[Cell]:
    """The settings with the least log-loss on the validation images, at each noise level apart.

    Settings without a score, since their chain diverged or had no draw, come last.
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
    """A group with one chain for all epochs, and one with several that share them."""

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
