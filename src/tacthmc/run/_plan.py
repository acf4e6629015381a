"""All that a run is to do, checked."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax

from tacthmc._positions import dimension
from tacthmc._typing import PRNGKey
from tacthmc.potentials import Posterior, Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.potentials._streamed import Source
from tacthmc.run._failure import DivergedWarning, Failure
from tacthmc.run._feed import FEED_BYTES, Feeder
from tacthmc.run._monitor import Snapshot
from tacthmc.run._program import CHUNK_INTERVALS, Chains, Program
from tacthmc.run._record import Record
from tacthmc.run._result import Run
from tacthmc.store._folder import Folder
from tacthmc.store._store import Store

# Draws of one chunk are held on the device: this many numbers at most. An accelerator fills
# them fast and is kept busy by more; on a CPU the memory's cleaning is what would be felt.
CHUNK_NUMBERS = {"cpu": 1 << 22}
MOST_CHUNK_NUMBERS = 1 << 24

Callback = Callable[[Snapshot], Any]


@dataclass
class Outcome:
    """How a run ended."""

    chains: Chains
    done: int
    seconds: float
    compile_seconds: float
    interrupted: bool = False
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """A program, how long it runs, and what is done with what it leaves."""

    program: Program
    potential: Potential
    """The whole one; the program's is without its loader."""
    key: PRNGKey
    num_steps: int
    source: Source | None = None
    store: Store | None = None
    progress: bool | None = None
    callbacks: Sequence[Callback] = field(default=())

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        check_progress(self.progress)
        check_callbacks(self.callbacks)

    @property
    def every(self) -> int:
        """Steps in an interval."""
        return self.program.shape.every

    @property
    def intervals(self) -> int:
        """Intervals in all."""
        return -(-self.num_steps // self.every)

    @property
    def num_chains(self) -> int:
        """How many chains run."""
        return self.program.num_chains

    def result(self, record: Record, outcome: Outcome, folder: Folder | None = None) -> Run:
        """The run as its maker gets it, with a warning for each chain that failed."""
        for failure in outcome.failures:
            warnings.warn(str(failure), DivergedWarning, stacklevel=4)
        return Run(
            program=lambda: (self.program.samplers, self.potential),
            key=self.key,
            record=record,
            chains=outcome.chains,
            failures=tuple(outcome.failures),
            num_steps=outcome.done * self.every,
            keep=self.program.keep,
            interrupted=outcome.interrupted,
            seconds=outcome.seconds,
            compile_seconds=outcome.compile_seconds,
            folder=folder,
        )

    @property
    def shards(self) -> int:
        """Over how many devices chains are spread."""
        mesh, name = self.program.mesh, self.program.shape.chain_axis
        return 1 if mesh is None or name is None else dict(mesh.shape)[name]


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no sequence of functions."""
    if not isinstance(callbacks, (list, tuple)):
        raise TypeError(f"callbacks must be a list of functions; got {callbacks!r}")
    for number, one in enumerate(callbacks):
        if not callable(one):
            raise TypeError(f"callbacks[{number}] must be a function; got {one!r}")


def check_progress(progress: Any) -> None:
    """Refuse what is neither a choice nor left open."""
    if progress not in (None, True, False):
        raise TypeError(f"progress must be True, False or None; got {progress!r}")


def chunk_room(draw: Any, feeder: Feeder | None) -> int:
    """Intervals that a chunk has room for; ``draw`` is what is kept of all chains at once."""
    numbers = CHUNK_NUMBERS.get(jax.default_backend(), MOST_CHUNK_NUMBERS)
    rows = min(CHUNK_INTERVALS, numbers // max(1, dimension(draw)))
    if feeder is not None:
        rows = min(rows, FEED_BYTES // max(1, feeder.bytes_per_interval))
    return max(1, rows)


def without_source(potential: Potential) -> tuple[Potential, Source | None]:
    """The potential as the compiled program sees it, and its loader."""
    inner = innermost(potential)
    if not isinstance(inner, StreamedPosterior):
        return potential, None
    bare = replace(inner, source=None)
    if potential is inner:
        return bare, inner.source
    return eqx.tree_at(innermost, potential, bare), inner.source


def batch_size(potential: Potential) -> int | None:
    """The examples in a batch, where the potential itself knows."""
    inner = innermost(potential)
    return inner.batch_size if isinstance(inner, Posterior) else None
