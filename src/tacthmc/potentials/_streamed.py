"""Posteriors of data that do not fit on the device, with batches from a loader."""

from collections.abc import Callable, Iterable, Iterator
from mmap import mmap
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc._typing import Batch, PRNGKey
from tacthmc.compiler._async_jit import without_jit
from tacthmc.compiler._mesh import spread_examples
from tacthmc.compiler._random import chain_keys, start_keys, step_keys
from tacthmc.potentials._base import Energy, Traits
from tacthmc.potentials._batches import Batches, Epochs, WithReplacement
from tacthmc.potentials._data import check_functions, common_length, model_arrays
from tacthmc.potentials._posterior import DataPotential, make_order


class Source:
    """A loader, compared by identity: one for all chains, or one for each chain."""

    def __init__(self, loader: Any):
        """Wrap ``loader``, an iterable of batches or a function of the chain's number."""
        self.loader = loader
        self.per_chain = callable(loader) and not hasattr(loader, "__iter__")

    def open(self, chain: int) -> Any:
        """The iterable of one chain, or the shared one."""
        return self.loader(chain) if self.per_chain else self.loader


class StreamedPosterior(DataPotential):
    """A posterior whose batches the driver feeds in from a loader."""

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[..., Any]
    source: Source | None = eqx.field(static=True)
    size: int = eqx.field(static=True)
    batched: bool = eqx.field(static=True)
    model_state: Any = None
    independent: bool = eqx.field(static=True, default=False)
    """Whether batches are known to be drawn with replacement; most loaders go through epochs."""

    @property
    def traits(self) -> Traits:
        return Traits(has_energy=False, independent_batches=self.independent)

    @property
    def batches(self) -> Batches:
        return FedBatches()

    @property
    def num_data(self) -> int:
        return self.size

    def full(self, position: Any) -> Energy:
        raise ValueError(
            "a streamed posterior has no full-data energy: its data come batch by batch"
        )


class FedBatches(Batches):
    """Batches that the driver feeds in. The loader keeps its own place."""

    def init(self, key: PRNGKey) -> tuple[()]:
        return ()

    @property
    def axes(self) -> tuple[()]:
        return ()

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        """The batch that was fed in. It takes the place of the memory."""
        if not jax.tree.leaves(data):
            raise ValueError(
                "a streamed posterior draws no batches of its own: pass one, or use"
                " tacthmc.sample, which feeds them in"
            )
        return data, data

    def fetch(self, selection: Any) -> Batch:
        """The same batch, spread over the devices of a mesh."""
        return spread_examples(selection)


def streamed(
    log_prior: Callable[[Any], Any],
    log_likelihood: Callable[..., Any],
    loader: Iterable[Any] | Callable[[int], Iterable[Any]],
    num_data: int,
    *,
    batched: bool = False,
    model_state: Any = None,
) -> StreamedPosterior:
    """A posterior whose mini-batches come from a loader, prefetched while chains run.

    Args:
        log_prior: log p(θ), of the position.
        log_likelihood: log p(x | θ) of ONE example, as for :func:`tacthmc.posterior`.
        loader: any iterable of batches (pytrees of arrays that share a leading length, which is
            the same for every batch), such as a Grain pipeline, a list or a PyTorch DataLoader. It
            is started again when it ends. All chains then get the same batches: each chain by
            itself is correct, but their errors are correlated. A function of the chain's number
            that returns an iterable gives each chain its own batches;
            :class:`tacthmc.potentials.HostBatches` is one.
        num_data: N, the number of examples that the loader goes through.
        batched: as for :func:`tacthmc.posterior`.
        model_state: as for :func:`tacthmc.posterior`.

    Resuming a stored run moves the loader to its place: by ``get_state`` and ``set_state`` if its
    iterator has them (as Grain's does), otherwise by going through the batches already used, which
    have to be the same again.

    >>> import jax, jax.numpy as jnp, numpy as np, tacthmc
    >>> data = np.random.default_rng(0).normal(1.0, 1.0, 100).astype(np.float32)
    >>> batches = [data[i : i + 20] for i in range(0, 100, 20)]
    >>> model = streamed(lambda m: -0.5 * m**2, lambda m, x: -0.5 * (x - m) ** 2, batches, 100)
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(1e-3), model, jnp.zeros(()), 5000, 2)
    >>> bool(abs(run.draws.mean() - data.sum() / 101) < 0.1)
    True
    """
    check_functions(log_prior, log_likelihood, batched, model_state)
    checks.whole("num_data", num_data, 1)
    if not callable(loader) and not hasattr(loader, "__iter__"):
        raise TypeError(
            f"loader must be an iterable of batches, or a function of the chain's number that"
            f" returns one; got {loader!r}"
        )
    model_state = model_arrays(model_state)
    return StreamedPosterior(
        log_prior=without_jit(log_prior),
        log_likelihood=without_jit(log_likelihood),
        source=Source(loader),
        independent=isinstance(loader, HostBatches)
        and isinstance(loader.order, WithReplacement)
        and 1 < loader.order.batch_size < loader.order.num_data,
        size=num_data,
        batched=batched,
        model_state=model_state,
    )


class HostBatches:
    """Batches for each chain from arrays that stay on the host, such as memory-mapped files.

    The indices are those that :func:`tacthmc.posterior` draws with the same key, so
    ``sample(key, …)`` gives the same draws with either.

    >>> import jax, numpy as np, tacthmc
    >>> data = np.arange(10)
    >>> loader = HostBatches(data, 4, jax.random.key(0))
    >>> batches = iter(loader(0))          # those of chain 0
    >>> next(batches).shape
    (4,)
    """

    BLOCK_STEPS = 256
    """For how many steps indices are drawn at a time."""

    def __init__(
        self,
        data: Any,
        batch_size: int,
        key: PRNGKey,
        batches: Literal["replacement", "epochs"] = "replacement",
    ):
        """Draw from ``data``, a pytree of array-likes that take an array of indices."""
        num_data = common_length(data)
        self.data = data
        self.order = make_order(batches, num_data, batch_size)
        key = checks.key("key", key)
        self.key_data = np.asarray(jax.random.key_data(key))
        self.key_impl = str(jax.random.key_impl(key))

    def __getstate__(self) -> dict[str, Any]:
        """The state for a pickle, with the paths of memory-mapped files instead of their data."""
        return {**vars(self), "data": jax.tree.map(_as_file, self.data)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the files again."""
        vars(self).update(state)
        self.data = jax.tree.map(
            lambda x: x.open() if isinstance(x, _File) else x,
            state["data"],
            is_leaf=lambda x: isinstance(x, _File),
        )

    def __call__(self, chain: int) -> "ChainBatches":
        """The endless batches of one chain."""
        return ChainBatches(self, chain)


class _File(NamedTuple):
    """The place of a memory-mapped array on disk."""

    name: str
    dtype: Any
    offset: int
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    def open(self) -> np.memmap:
        """Map the file into memory."""
        return np.memmap(self.name, self.dtype, "r", self.offset, self.shape, self.order)


def _as_file(leaf: Any) -> Any:
    # Only an array that is a whole map: a view does not know its offset in the file.
    if not isinstance(leaf, np.memmap) or not isinstance(leaf.base, mmap):
        return leaf
    order = "C" if leaf.flags.c_contiguous else "F"
    return _File(str(leaf.filename), leaf.dtype, leaf.offset, leaf.shape, order)


class ChainBatches:
    """The batches of one chain of a :class:`HostBatches`."""

    def __init__(self, whole: HostBatches, chain: int):
        self._whole = whole
        key = jax.random.wrap_key_data(jnp.asarray(whole.key_data), impl=whole.key_impl)
        start, self._steps = chain_keys(key, chain)
        self._memory = whole.order.init(start_keys(start)[1])
        self._begun, self._taken = 0, 0
        self._indices = np.zeros((0, whole.order.batch_size), int)

    def __iter__(self) -> Iterator[Any]:
        return self

    def _advance(self) -> None:
        self._begun += len(self._indices)
        self._memory, indices = _index_block(
            self._whole.order,
            self._memory,
            self._steps,
            jnp.asarray(self._begun),
            self._whole.BLOCK_STEPS,
        )
        self._indices = np.asarray(indices)

    def __next__(self) -> Any:
        while self._taken >= self._begun + len(self._indices):
            self._advance()
        chosen = self._indices[self._taken - self._begun]
        self._taken += 1
        return jax.tree.map(lambda x: np.asarray(x[chosen]), self._whole.data)

    def get_state(self) -> dict[str, int]:
        """How many batches have been taken."""
        return {"taken": self._taken}

    def set_state(self, state: dict[str, int]) -> None:
        """Skip to a later state. Only indices are drawn again; no data are read."""
        if state["taken"] < self._taken:
            raise ValueError(f"cannot go back from batch {self._taken} to {state['taken']}")
        self._taken = state["taken"]


@eqx.filter_jit
def _index_block(
    order: WithReplacement | Epochs, memory: Any, steps: PRNGKey, begin: Any, count: int
) -> tuple[Any, Any]:
    def one(memory: Any, step: Any) -> tuple[Any, Any]:
        return order.next(memory, step_keys(steps, step)[1])

    return jax.lax.scan(one, memory, begin + jnp.arange(count))
