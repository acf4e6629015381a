"""What ``tacthmc reproduce table1`` does: Table A, Table B, or joining results."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.group import groups
from tacthmc.paper.table1.images import images
from tacthmc.paper.table1.merge import merge
from tacthmc.paper.table1.options import Options, settings
from tacthmc.paper.table1.paper import NOISES
from tacthmc.paper.table1.protocol import EPOCHS, Protocol
from tacthmc.paper.table1.reproduce import Say, reproduce, write_tables
from tacthmc.paper.table1.table_b import command_b, reproduce_b
from tacthmc.paper.table1.tables_b import write_table_b

QUICK_NOISES, QUICK_EPOCHS = (0.0, 0.2), 3


class Written(NamedTuple):
    """Whether everything is finished, and the files that were written."""

    finished: bool
    paths: list[Path]


def run(options: Options, say: Say) -> Written:
    """Do what the options ask for."""
    if options.merge:
        return Written(True, merge(options.merge, options.folder))
    return (table_a if options.table == "A" else table_b)(options, say)


def table_a(options: Options, say: Say) -> Written:
    """The paper's settings."""
    asked = groups(
        tasks=options.tasks,
        noises=options.noises or (QUICK_NOISES if options.quick else NOISES),
        methods=options.methods,
        config=options.config or "adapted",
        epochs=options.epochs or (QUICK_EPOCHS if options.quick else None),
        seeds=options.seeds or [0],
        compute=options.compute,
        settings=settings(options.setting),
        draw_every=options.draw_every,
    )

    @cache
    def data(name: str) -> ImageSet:
        return images(name, options.data, options.quick, options.validation)

    finished = reproduce(
        asked, data, options.folder, minutes=options.minutes, command=options.command, say=say
    )
    return Written(finished, write_tables(options.folder))


def table_b(options: Options, say: Say) -> Written:
    """Every method tuned by the same search, then its final runs."""
    _refuse_what_the_protocol_fixes(options)
    usual = Protocol.quick() if options.quick else Protocol.of()
    make = Protocol.quick if options.quick else Protocol.of
    protocol = make(
        options.epochs or (usual.epochs if options.quick else EPOCHS),
        seeds=tuple(options.seeds) or usual.seeds,
        noises=tuple(options.noises) or usual.noises,
        compute=options.compute,
    )

    @cache
    def data(name: str, validation: bool) -> ImageSet:
        # A quick look never sees a test image.
        return images(name, options.data, options.quick, validation or options.quick)

    finished = reproduce_b(
        data,
        options.folder,
        tasks=options.tasks,
        methods=options.methods,
        protocol=protocol,
        minutes=options.minutes,
        command=command_b(options.tasks, options.methods, protocol, options.quick),
        say=say,
    )
    return Written(finished, write_table_b(options.folder))


def _refuse_what_the_protocol_fixes(options: Options) -> None:
    fixed = {
        "--config": options.config,
        "--setting": options.setting,
        "--validation": options.validation,
        "--draw-every": options.draw_every != 1,
    }
    given = [option for option, value in fixed.items() if value]
    if given:
        raise ValueError(f"Table B's protocol fixes what {', '.join(given)} would change")
