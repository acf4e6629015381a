"""All that a run is to do, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh

from tacthmc._positions import dimension
from tacthmc._typing import PRNGKey
from tacthmc.compiler._mesh import CHAINS, axis, place
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential, innermost
from tacthmc.potentials._posterior import Posterior
from tacthmc.potentials._streamed import Source, StreamedPosterior
from tacthmc.run._chunk import Shape
from tacthmc.run._feed import FEED_BYTES, Feeder
from tacthmc.run._monitor import Snapshot

# Draws of one chunk are held on the device: this many numbers at most. An accelerator fills
# them fast and is kept busy by more; on a CPU the memory's cleaning is what would be felt.
CHUNK_NUMBERS = {"cpu": 1 << 22}
MOST_CHUNK_NUMBERS = 1 << 24
CHUNK_INTERVALS = 1000

Callback = Callable[[Snapshot], Any]


@dataclass(frozen=True)
class Plan:
    """What to run; the sampler has a leading chain axis where settings are ``swept``."""

    sampler: Sampler
    swept: bool
    potential: Potential
    key: PRNGKey
    num_chains: int
    num_steps: int
    num_warmup: int
    shape: Shape
    mesh: Mesh | None = None
    source: Source | None = None
    checkpoint_seconds: float | None = 120.0
    checkpoint_steps: int | None = None
    progress: bool | None = None
    callbacks: Sequence[Callback] = field(default=())
    forget: bool = False
    """Whether draws are for callbacks alone."""

    @property
    def keep_every(self) -> int:
        """Steps in an interval."""
        return self.sampler.keep_every

    @property
    def intervals(self) -> int:
        """Intervals in all."""
        return -(-self.num_steps // self.keep_every)

    @property
    def spmd(self) -> str | None:
        """The mesh's axis of chains."""
        return axis(self.mesh, CHAINS)

    @property
    def shards(self) -> int:
        """Over how many devices chains are spread."""
        return 1 if self.mesh is None else dict(self.mesh.shape).get(CHAINS, 1)

    def placed(self) -> "Plan":
        """With data and settings on every device of the mesh."""
        if self.mesh is None:
            return self
        arrays, rest = eqx.partition((self.sampler, self.potential, self.key), eqx.is_array)
        sampler, potential, key = eqx.combine(place(self.mesh, arrays), rest)
        return replace(self, sampler=sampler, potential=potential, key=key)

    def commit_intervals(self) -> int | None:
        """Intervals between two checkpoints, if steps count.

        Half of what was asked for: while one checkpoint is being written the one before it
        is the newest, and still no more than the interval asked for is computed again.
        """
        if self.checkpoint_steps is None:
            return None
        return self.checkpoint_steps // (2 * self.keep_every)


def chunk_rows(draw: Any, feeder: Feeder | None) -> int:
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
