"""The plan of a run, with its arguments checked."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax

from tacthmc import _checks as checks
from tacthmc._positions import dimension
from tacthmc._typing import PRNGKey
from tacthmc.potentials import Posterior, Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.potentials._streamed import Source
from tacthmc.run._effective import Effective, Standing
from tacthmc.run._failure import DivergedWarning, Failure
from tacthmc.run._feed import MAX_FEED_BYTES, Feeder
from tacthmc.run._monitor import Snapshot
from tacthmc.run._potential_facts import potential_facts
from tacthmc.run._program import CHUNK_INTERVALS, Chains, Program
from tacthmc.run._record import Record
from tacthmc.run._result import Run
from tacthmc.run._trimmed import WARM_UP_PART, without_warm_up
from tacthmc.store._folder import Folder
from tacthmc.store._store import Store

MAX_CHUNK_NUMBERS = 1 << 24
"""The largest number of values in the draws of one chunk, which are held on the device."""
MAX_CPU_CHUNK_NUMBERS = 1 << 22
"""The same on a CPU, where clearing more memory would take noticeable time."""

Callback = Callable[[Snapshot], Any]


@dataclass
class Outcome:
    """The end of a run."""

    chains: Chains
    done: int
    seconds: float
    compile_seconds: float
    interrupted: bool = False
    failures: list[Failure] = field(default_factory=list)
    standing: Standing | None = None
    """Where the condition of the run stands, if it has one."""


@dataclass(frozen=True)
class Plan:
    """A program, the length of its run, and the options of the driver."""

    program: Program
    potential: Potential
    """The user's potential. That of the program has no loader."""
    key: PRNGKey
    num_steps: int
    source: Source | None = None
    store: Store | None = None
    progress: bool | None = None
    callbacks: Sequence[Callback] = field(default=())
    keep_going: bool = False
    """Whether the run continues after a chain has failed."""
    is_driven: bool = False
    """Whether the caller made the program, and with it chose the devices."""
    until: Effective | None = None
    """The condition that may end the run before ``num_steps``."""
    drops_tenth: bool = False
    """Whether the warm-up is the first tenth of the steps that are made in the end."""

    def __post_init__(self) -> None:
        """Check the options."""
        check_steps(self.total)
        check_progress(self.progress)
        check_callbacks(self.callbacks)

    @property
    def every(self) -> int:
        """The number of steps in an interval."""
        return self.program.shape.every

    @property
    def intervals(self) -> int:
        """The number of intervals of the whole run."""
        return -(-self.num_steps // self.every)

    @property
    def total(self) -> int:
        """The number of steps of the whole run: ``num_steps`` in whole intervals."""
        return self.intervals * self.every

    @property
    def num_chains(self) -> int:
        """The number of chains."""
        return self.program.num_chains

    def warm_up(self, steps: int) -> int:
        """The last step without draws, after so many steps."""
        after = self.program.keep.after
        assert after is not None
        return steps // WARM_UP_PART if self.drops_tenth else after

    def result(self, record: Record, outcome: Outcome, folder: Folder | None = None) -> Run:
        """The finished run, with a warning for each chain that failed."""
        for failure in outcome.failures:
            warnings.warn(str(failure), DivergedWarning, stacklevel=4)
        keep, steps = self.program.keep, outcome.done * self.every
        if self.drops_tenth:
            record, keep = without_warm_up(record, keep, steps)
        return Run(
            samplers=lambda: self.program.samplers,
            potential=lambda: self.potential,
            facts=lambda: potential_facts(self.potential),
            key=self.key,
            record=record,
            chains=outcome.chains,
            failures=tuple(outcome.failures),
            num_steps=steps,
            keep=keep,
            until=outcome.standing,
            interrupted=outcome.interrupted,
            seconds=outcome.seconds,
            compile_seconds=outcome.compile_seconds,
            folder=folder,
            is_made_here=True,
        )

    @property
    def shards(self) -> int:
        """The number of devices that share the chains."""
        mesh, name = self.program.mesh, self.program.shape.chain_axis
        return 1 if mesh is None or name is None else dict(mesh.shape)[name]


def check_steps(total: int, made: int = 0) -> None:
    """Require a number of steps, after those that were made, that a chain can count to.

    Chains count their steps, and random numbers and schedules depend on the count. So a count that
    begins again would give other chains than those that were asked for.
    """
    # Schedules look a few steps ahead.
    most = checks.largest_integer() // 1000 * 1000
    if made + total > most:
        begun = f" after the {made} that its chains have made" if made else ""
        raise ValueError(
            f"num_steps must be at most {most - made}, the steps that integers of"
            f" {most.bit_length() + 1} bits can count{begun}; got {total} in whole intervals."
            " jax.config.update('jax_enable_x64', True) makes them 64 bits, or run more chains"
        )


def check_callbacks(callbacks: Any) -> None:
    """Require a list of functions."""
    if not isinstance(callbacks, (list, tuple)):
        raise TypeError(f"callbacks must be a list of functions; got {callbacks!r}")
    for number, one in enumerate(callbacks):
        if not callable(one):
            raise TypeError(f"callbacks[{number}] must be a function; got {one!r}")


def check_progress(progress: Any) -> None:
    """Require True, False or None."""
    if progress not in (None, True, False):
        raise TypeError(f"progress must be True, False or None; got {progress!r}")


def chunk_room(draw: Any, feeder: Feeder | None) -> int:
    """The number of intervals that a chunk can hold; ``draw`` has one draw of every chain."""
    on_cpu = jax.default_backend() == "cpu"
    numbers = MAX_CPU_CHUNK_NUMBERS if on_cpu else MAX_CHUNK_NUMBERS
    rows = min(CHUNK_INTERVALS, numbers // max(1, dimension(draw)))
    if feeder is not None:
        rows = min(rows, MAX_FEED_BYTES // max(1, feeder.bytes_per_interval))
    return max(1, rows)


def without_source(potential: Potential) -> tuple[Potential, Source | None]:
    """The potential for the compiled program, and its loader."""
    inner = innermost(potential)
    if not isinstance(inner, StreamedPosterior):
        return potential, None
    bare = replace(inner, source=None)
    if potential is inner:
        return bare, inner.source
    return eqx.tree_at(innermost, potential, bare), inner.source


def batch_size(potential: Potential) -> int | None:
    """The number of examples in a batch, or None if the potential does not fix it."""
    inner = innermost(potential)
    return inner.batch_size if isinstance(inner, Posterior) else None
