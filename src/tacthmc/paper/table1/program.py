"""A group as a compiled program: its chains' start, and an epoch of all of them."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._sampler import Sampler
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.normalize import normalized
from tacthmc.paper.data.shape import shaped
from tacthmc.paper.table1.configs import sampler_settings
from tacthmc.paper.table1.group import Cell, Group
from tacthmc.paper.tasks import METHODS, TASKS, task
from tacthmc.potentials._base import Potential
from tacthmc.potentials._energy_terms import temper_likelihood
from tacthmc.run._arguments import one_sampler
from tacthmc.run._chains import pack_chains, run_chunk, unpack_chains
from tacthmc.run._chunk import Chain, Filled, Limits, Shape, chain_axes, start_chain
from tacthmc.store._errors import StoreError

_CHAINS = 2_000_000
"""Beyond all numbers that stand for noise levels."""


def cell_keys(cell: Cell) -> tuple[PRNGKey, PRNGKey]:
    """Of a cell's first parameters, and of all else.

    They depend on the cell alone, so that the same cell in another group has the same numbers
    up to rounding; parameters start alike at all noise levels and with all methods.
    """
    seed = jax.random.key(cell.seed)
    if cell.chain:
        seed = jax.random.fold_in(seed, _CHAINS + cell.chain)
    return jax.random.fold_in(seed, 0), jax.random.fold_in(seed, 1 + round(1e6 * cell.noise))


def _sampler(group: Group, cell: Cell, num_data: int) -> Sampler:
    config, chosen = group.configured, TASKS[group.task]
    held = round(group.held * num_data / chosen.batch_size)
    given = sampler_settings(config, chosen, group.method, num_data, dict(cell.settings), held)
    return METHODS[group.method](chosen, num_data, config.variant, given)


@partial(eqx.filter_jit, donate="none")
def _started(
    sampler: Sampler, potential: Potential, keys: Array, positions: Position, swept: bool
) -> Chain:
    arrays, rest = eqx.partition(sampler, eqx.is_array)

    def one(arrays: Any, number: Array, key: PRNGKey, position: Position) -> Chain:
        own = eqx.combine(arrays, rest)
        return start_chain(key, own, potential.for_chain(number), position)

    in_axes = (0 if swept else None, 0, 0, 0)
    start = jax.vmap(one, in_axes=in_axes, out_axes=chain_axes(potential))
    return start(arrays, jnp.arange(keys.shape[0]), keys, positions)


class Program:
    """The chains of a group; nothing in it changes while they run."""

    def __init__(self, group: Group, data: ImageSet):
        """Put data and settings on the device."""
        self.group, config, chosen = group, group.configured, TASKS[group.task]
        data = data if config.pixels == "plain" else normalized(data, config.pixels)
        ready = task(
            group.task,
            group.method,
            data,
            variant=config.variant,
            label_share=[cell.noise for cell in group.cells],
            label_kind=config.label_kind,
            compute=group.compute,
        )
        self.model, self.potential = ready.model, ready.potential
        if group.method == "tact" and config.earned:
            self.potential = temper_likelihood(ready.potential)
        self.samplers = [_sampler(group, cell, data.num_train) for cell in group.cells]
        swept = any(cell.settings for cell in group.cells)
        given = self.samplers if swept else self.samplers[0]
        self.sampler, self._swept, self.chains = one_sampler(given, len(group.cells))
        self.steps_per_epoch = data.num_train / chosen.batch_size
        fitting = shaped(data, ready.model)
        self.images = jnp.asarray(fitting.test_images)
        self.host_labels = np.asarray(fitting.test_labels)
        self.labels = jnp.asarray(self.host_labels)
        starts, keys = zip(*(cell_keys(cell) for cell in group.cells), strict=True)
        self._positions = jax.vmap(ready.init)(jnp.stack(starts))
        both = jax.vmap(jax.random.split)(jnp.stack(keys))
        self._start_keys, self._step_keys = both[:, 0], both[:, 1]
        longest = max(self.intervals(epoch) for epoch in range(group.epochs))
        self._shape = Shape(max(1, longest))

    @property
    def keep_every(self) -> int:
        """K."""
        return self.sampler.keep_every

    def intervals(self, epoch: int) -> int:
        """Intervals of K steps that epoch has, the first being 0: now one more, now one less."""
        per_epoch = self.steps_per_epoch / self.keep_every
        return int(np.ceil((epoch + 1) * per_epoch) - np.ceil(epoch * per_epoch))

    def start(self) -> Chain:
        """The chains before their first step."""
        return _started(
            self.sampler, self.potential, self._start_keys, self._positions, self._swept
        )

    def run(self, chains: Chain, intervals: int) -> tuple[Chain, Filled]:
        """So many intervals of all chains; with none, it compiles."""
        limits = Limits(jnp.asarray(intervals), jnp.asarray(0))
        return run_chunk(
            self.sampler,
            self.potential,
            self._step_keys,
            chains,
            None,
            limits,
            self._shape,
            self._swept,
            False,
            None,
        )

    def some(self, chains: Chain, numbers: list[int]) -> Chain:
        """Those chains, in that order."""
        chosen = jnp.asarray(numbers)

        def picked(axis: int | None, part: Any) -> Any:
            return part if axis is None else jax.tree.map(lambda x: x[chosen], part)

        axes = chain_axes(self.potential)
        return jax.tree.map(picked, axes, chains, is_leaf=lambda x: x is None)

    def packed(self, chains: Chain) -> dict[str, np.ndarray]:
        """The chains as arrays of a checkpoint."""
        words, fingerprint = pack_chains(self.potential, chains, None)
        return {"words": np.asarray(words), "fingerprint": np.asarray(fingerprint)}

    def unpacked(self, arrays: dict[str, np.ndarray]) -> Chain:
        """The chains of a checkpoint, if it is sound."""
        like: Any = jax.eval_shape(self.start)
        chains, found = unpack_chains(self.potential, jnp.asarray(arrays["words"]), like, None)
        if int(found) != int(arrays["fingerprint"]):
            raise StoreError("the checkpoint is damaged: its checksum differs")
        return chains
