"""Table B: every method with the same search, then its final runs."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from tacthmc._checks import nearest
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.protocol import EPOCHS, TASK_ORDER, Protocol
from tacthmc.paper.table1.reproduce import own_records, run_group
from tacthmc.paper.table1.running import Say
from tacthmc.paper.table1.search import best, finals, first_cells, rung
from tacthmc.paper.table1.slices import Slice
from tacthmc.paper.tasks import METHODS

Images = Callable[[str, bool], ImageSet]
"""The images of a task; with validation images in the place of the test images, or as they are."""


def reproduce_b(
    data: Images,
    out: Path,
    *,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    protocol: Protocol | None = None,
    minutes: float | int | None = None,
    command: str = "",
    say: Say = lambda _: None,
) -> bool:
    """Search and final runs of methods on tasks, all of them if none is named.

    Args:
        data: gives the images of a task, as they are or split for validation. Test images are
            asked for when a method's search is over.
        out: the folder of results, in which records of other methods are kept.
        tasks: names; they run in the protocol's order, whatever theirs is.
        methods: names.
        protocol: how much each method gets.
        minutes: after so many the slice ends with the epoch that it is in, all saved; the same
            call goes on.
        command: for the records.
        say: is told what is being done.

    Returns:
        Whether all is finished.
    """
    for name, given, known in (("task", tasks, TASK_ORDER), ("method", methods, METHODS)):
        for one in given:
            if one not in known:
                near = nearest(one, known)
                hint = f" ({near}?)" if near else ""
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {one!r}{hint}")
    protocol = Protocol.of() if protocol is None else protocol
    slices, finished = Slice(minutes), True
    for task in TASK_ORDER:
        for method in METHODS:
            if (tasks and task not in tasks) or (methods and method not in methods):
                continue

            def run(group: Group, validation: bool, task: str = task) -> bool:
                return run_group(group, data(task, validation), out, slices, command, say)

            finished = _method(task, method, protocol, data, out, run) and finished
    return finished


def _method(
    task: str,
    method: str,
    protocol: Protocol,
    data: Images,
    out: Path,
    run: Callable[[Group, bool], bool],
) -> bool:
    cells, former = first_cells(method, protocol), None
    left = [count for count, _ in protocol.rungs[1:]] + [1]
    for number, count in enumerate(left, start=1):
        group = rung(task, method, protocol, number, cells, former)
        if not run(group, True):
            return False
        cells, former = best(own_records(out, group, data(task, True)), count), group
    chosen = {cell.noise: cell.settings for cell in cells}
    return all(run(group, False) for group in finals(task, method, protocol, chosen))


def command_b(
    tasks: Sequence[str],
    methods: Sequence[str],
    protocol: Protocol,
    quick: bool = False,
) -> str:
    """The command that makes the same numbers: without where and in how many slices.

    >>> command_b(["cnn"], ["tact"], Protocol.of(compute="tf32"))
    'tacthmc reproduce table1 --table B --task cnn --method tact --compute tf32'
    """
    usual = Protocol.quick() if quick else Protocol.of()
    parts = ["tacthmc reproduce table1 --table B"]
    noises = [] if protocol.noises == usual.noises else [f"{x:g}" for x in protocol.noises]
    seeds = [] if protocol.seeds == usual.seeds else [str(x) for x in protocol.seeds]
    epochs = [] if protocol.epochs == (usual.epochs if quick else EPOCHS) else [protocol.epochs]
    for option, values in (
        ("--task", tasks),
        ("--method", methods),
        ("--noise", noises),
        ("--seeds", seeds),
        ("--epochs", epochs),
    ):
        if values:
            parts.append(shlex.join([option, *map(str, values)]))
    parts.append(f"--compute {protocol.compute}")
    return " ".join(parts + ["--quick"] * quick)
