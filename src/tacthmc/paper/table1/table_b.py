"""Table B: the same search for every method, then its final runs."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacthmc.paper import checks
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.table1.group import Group
from tacthmc.paper.table1.protocol import TASK_ORDER, Protocol
from tacthmc.paper.table1.reproduce import Say, own_records, run_group
from tacthmc.paper.table1.search import best, finals, first_cells, rung
from tacthmc.paper.table1.slices import Slice
from tacthmc.paper.tasks import METHODS

Images = Callable[[str, bool], ImageSet]
"""The images of a task: with validation images in the place of the test images, or as they are."""


@dataclass(frozen=True)
class _Slice:
    """Groups of Table B in one slice."""

    data: Images
    out: Path
    protocol: Protocol
    slices: Slice
    command: str
    say: Say

    def run(self, group: Group, validation: bool) -> bool:
        """Run a group; returns whether it is finished."""
        images = self.data(group.task, validation)
        return run_group(group, images, self.out, self.slices, self.command, self.say)

    def method(self, task: str, method: str) -> bool:
        """Search and final runs of a method; returns whether they are finished."""
        cells, former = first_cells(method, self.protocol), None
        left = [count for count, _ in self.protocol.rungs[1:]] + [1]
        for number, count in enumerate(left, start=1):
            group = rung(task, method, self.protocol, number, cells, former)
            if not self.run(group, True):
                return False
            records = own_records(self.out, group, self.data(task, True))
            cells, former = best(records, count), group
        chosen = {cell.noise: cell.settings for cell in cells}
        return all(self.run(group, False) for group in finals(task, method, self.protocol, chosen))


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
    """Search and final runs of methods on tasks; of all methods or tasks if none is named.

    Args:
        data: gives the images of a task, as they are or split for validation. It is asked for test
            images only when a method's search is over.
        out: the folder of results, in which records of other methods stay.
        tasks: names; they run in the protocol's order.
        methods: names.
        protocol: how much each method gets.
        minutes: the slice ends after the epoch in which these minutes are over, and everything is
            saved; the same call goes on.
        command: for the records.
        say: prints what is being done.

    Returns:
        Whether everything is finished.
    """
    for name, given, known in (("task", tasks, TASK_ORDER), ("method", methods, METHODS)):
        for one in given:
            checks.one_of(name, one, known)
    protocol = Protocol.of() if protocol is None else protocol
    now = _Slice(data, out, protocol, Slice(minutes), command, say)
    finished = [
        now.method(task, method)
        for task in TASK_ORDER
        if not tasks or task in tasks
        for method in METHODS
        if not methods or method in methods
    ]
    return all(finished)


def command_b(
    tasks: Sequence[str],
    methods: Sequence[str],
    protocol: Protocol,
    quick: bool = False,
) -> str:
    """The command that makes the same numbers, without the folders and the slices.

    >>> command_b(["cnn"], ["tact"], Protocol.of(compute="tf32"))
    'tacthmc reproduce table1 --table B --task cnn --method tact --compute tf32'
    """
    usual = Protocol.quick() if quick else Protocol.of()
    parts = ["tacthmc reproduce table1 --table B"]
    for option, values, default in (
        ("--task", tasks, ()),
        ("--method", methods, ()),
        ("--noise", [f"{x:g}" for x in protocol.noises], [f"{x:g}" for x in usual.noises]),
        ("--seeds", protocol.seeds, usual.seeds),
        ("--epochs", [protocol.epochs], [usual.epochs]),
    ):
        if values and list(values) != list(default):
            parts.append(shlex.join([option, *map(str, values)]))
    parts.append(f"--compute {protocol.compute}")
    return " ".join(parts + ["--quick"] * quick)
