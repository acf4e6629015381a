"""Feeding batches from a loader to the device, prepared while the previous chunk runs."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from tacthmc import _checks as checks
from tacthmc.compiler._mesh import BATCH, CHAINS, axis, held_chains
from tacthmc.potentials._streamed import Source
from tacthmc.store._pickles import from_plain_or_pickled, plain_or_pickled

MAX_FEED_BYTES = 1 << 27
"""The largest size of the batches of a chunk. Two chunks are held: in use, and in preparation."""


class Feed(NamedTuple):
    """The batches of a chunk on the device, and the places of the loaders after it."""

    batches: Any
    places: list[Any]


class Stream:
    """The endless batches of one loader, and the place in it."""

    def __init__(self, loader: Any, place: Any = None, trust: bool = False):
        """Begin at ``place``, an earlier result of :meth:`place`, unpickled only with ``trust``."""
        self._loader, self._iterator = loader, iter(loader)
        self._taken = 0
        self._shapes: Any = None
        if place is None:
            return
        if place["state"] is not None and hasattr(self._iterator, "set_state"):
            what = "the state of the loader"
            self._iterator.set_state(from_plain_or_pickled(place["state"], what, trust))
            self._taken = place["taken"]
        else:
            for _ in range(place["taken"]):
                self._next()

    def place(self) -> dict[str, Any]:
        """The place in the loader, as a JSON value."""
        state = None
        if hasattr(self._iterator, "get_state") and hasattr(self._iterator, "set_state"):
            state = plain_or_pickled(self._iterator.get_state())
        return {"taken": self._taken, "state": state}

    def _next(self) -> Any:
        try:
            batch = next(self._iterator)
        except StopIteration:
            again = iter(self._loader)
            if again is self._iterator:
                raise ValueError(
                    f"the loader ended after {self._taken} batches and cannot be started again:"
                    " give an iterable (not a generator), or one that repeats"
                ) from None
            self._iterator = again
            try:
                batch = next(self._iterator)
            except StopIteration:
                raise ValueError("the loader has no batches") from None
        self._taken += 1
        return batch

    def take(self) -> Any:
        """The next batch as NumPy arrays, checked against the shape of the first."""
        batch = self._next()
        named = checks.leaves("a batch of the loader", batch)
        arrays = [checks.host_array(name, leaf) for name, leaf in named]
        batch = jax.tree.unflatten(jax.tree.structure(batch), arrays)
        lengths = {x.shape[:1] for x in jax.tree.leaves(batch)}
        if len(lengths) != 1 or lengths in ({()}, {(0,)}):
            raise ValueError(
                "a batch of the loader must be a pytree of arrays that share their leading length"
                f" (the number of examples); got shapes {[x.shape for x in jax.tree.leaves(batch)]}"
            )
        shapes = jax.tree.map(lambda x: (x.shape, x.dtype), batch)
        if self._shapes is None:
            # All batches have the dtypes of the first one.
            for (name, leaf), array in zip(named, arrays, strict=True):
                checks.tell_precision(name, leaf, array.dtype)
            self._shapes = shapes
        elif shapes != self._shapes:
            raise ValueError(
                f"batch {self._taken} of the loader is {shapes}, the first was {self._shapes}:"
                " all batches must be alike (drop or fill a last partial one)"
            )
        return batch


class Feeder:
    """Prepares the batches of the next chunk in a thread of its own."""

    def __init__(
        self,
        source: Source,
        num_chains: int,
        every: int,
        mesh: Mesh | None,
        places: list[Any] | None,
        trust: bool = False,
    ):
        """Open the loaders, at the ``places`` of a checkpoint if there are any.

        A state that a checkpoint has as a pickle is read with ``trust`` only.
        """
        self.per_chain, self._num_chains = source.per_chain, num_chains
        self._every, self._mesh = every, mesh
        self._held = held_chains(mesh, num_chains) if source.per_chain else np.arange(1)
        # A chain held by another process has no stream here, and that process knows its place.
        places = places or [None] * (num_chains if source.per_chain else 1)
        self.places = places
        self._streams = {int(c): Stream(source.open(int(c)), places[c], trust) for c in self._held}
        # The first batches are checked before the run, and then used in it.
        self._ahead = {c: stream.take() for c, stream in self._streams.items()}
        self.example = next(iter(self._ahead.values()))
        # The precision of floats is a setting of each thread.
        self._x64 = jnp.result_type(float) == jnp.float64
        self._thread = ThreadPoolExecutor(1, "tacthmc-feed")
        self._ready: Future[Feed] | None = None

    @property
    def bytes_per_interval(self) -> int:
        """The size of the batches of one interval, in bytes."""
        chains = self._num_chains if self.per_chain else 1
        return chains * self._every * sum(x.nbytes for x in jax.tree.leaves(self.example))

    @property
    def batch_size(self) -> int:
        """The number of examples in a batch."""
        return len(jax.tree.leaves(self.example)[0])

    def blank(self, rows: int) -> Any:
        """Batches of zeros, for compiling."""
        blank = jax.tree.map(
            lambda x: np.zeros((rows, self._every, *x.shape), x.dtype), self.example
        )
        return self._placed(dict.fromkeys(self._streams, blank))

    def prepare(self, count: int, rows: int) -> None:
        """Begin to prepare the batches of ``count`` intervals."""
        if count:
            self._ready = self._thread.submit(self._made, count, rows)

    def get(self) -> Feed:
        """The prepared batches."""
        assert self._ready is not None
        return self._ready.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(cancel_futures=True)

    def _made(self, count: int, rows: int) -> Feed:
        with jax.enable_x64(self._x64):
            return self._gathered(count, rows)

    def _gathered(self, count: int, rows: int) -> Feed:
        places = list(self.places)
        stacks = {}
        for chain, stream in self._streams.items():
            stack = jax.tree.map(
                lambda x: np.zeros((rows * self._every, *x.shape), x.dtype), self.example
            )
            for k in range(count * self._every):
                batch = self._ahead.pop(chain, None)
                batch = stream.take() if batch is None else batch
                jax.tree.map(lambda s, x, k=k: s.__setitem__(k, x), stack, batch)
            places[chain] = stream.place()
            stacks[chain] = jax.tree.map(
                lambda s: s.reshape(rows, self._every, *s.shape[1:]), stack
            )
        self.places = places
        return Feed(self._placed(stacks), places)

    def _placed(self, stacks: dict[int, Any]) -> Any:
        if not self.per_chain:
            spec = PartitionSpec(None, None, axis(self._mesh, BATCH))
            return jax.tree.map(lambda x: self._put(x.shape, spec, lambda i: x[i]), stacks[0])
        spec = PartitionSpec(axis(self._mesh, CHAINS), None, None, axis(self._mesh, BATCH))

        def put(*leaves: np.ndarray) -> jax.Array:
            by_chain = dict(zip(stacks, leaves, strict=True))

            def part(index: tuple[slice, ...]) -> np.ndarray:
                chains = range(*index[0].indices(self._num_chains))
                return np.stack([by_chain[c][index[1:]] for c in chains])

            return self._put((self._num_chains, *leaves[0].shape), spec, part)

        return jax.tree.map(put, *stacks.values())

    def _put(self, shape: tuple[int, ...], spec: PartitionSpec, part: Any) -> jax.Array:
        if self._mesh is None:
            return jax.device_put(part((slice(None),) * len(shape)))
        return jax.make_array_from_callback(shape, NamedSharding(self._mesh, spec), part)
