"""A group as one compiled program, and the images on which its chains are judged."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.paper.data.image_set import ImageSet
from tacthmc.paper.data.normalize import normalized
from tacthmc.paper.data.shape import shaped
from tacthmc.paper.table1.cell_sampler import CellSampler, cell_sampler
from tacthmc.paper.table1.epochs import Epochs
from tacthmc.paper.table1.group import Cell, Group
from tacthmc.paper.tasks import TASKS, task
from tacthmc.paper.types import PRNGKey
from tacthmc.potentials import Potential
from tacthmc.run import Chains, Keep, PerChain, Program

MANY_NOISES = 2_000_000
"""Beyond all numbers that stand for noise levels."""


def cell_keys(cell: Cell) -> tuple[PRNGKey, PRNGKey]:
    """The key of a cell's first parameters, and the key of all else.

    They depend on the cell alone, so that the same cell in another group has the same numbers up to
    rounding. Parameters start alike at all noise levels and with all methods.
    """
    seed = jax.random.key(cell.seed)
    if cell.chain:
        seed = jax.random.fold_in(seed, MANY_NOISES + cell.chain)
    return jax.random.fold_in(seed, 0), jax.random.fold_in(seed, 1 + round(1e6 * cell.noise))


class GroupProgram:
    """The program of a group's chains; nothing in it changes while they run."""

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
        self.model = ready.model
        self.potential: Potential = ready.potential
        if group.method == "tact" and config.scheduled:
            self.potential = tacthmc.temper_likelihood(ready.potential)
        made = [_cell_sampler(group, cell, data.num_train) for cell in group.cells]
        self.samplers, self.keep = [one.sampler for one in made], _common_keep(made)
        assert self.keep.every is not None
        self.epochs = Epochs(data.num_train, chosen.batch_size * self.keep.every)
        fitting = shaped(data, ready.model)
        self.images = jnp.asarray(fitting.test_images)
        self.host_labels = np.asarray(fitting.test_labels)
        self.labels = jnp.asarray(self.host_labels)
        starts, keys = zip(*(cell_keys(cell) for cell in group.cells), strict=True)
        self.positions = on_device(jax.vmap(ready.init)(jnp.stack(starts)))
        """Each chain's first parameters."""
        self._keys = jnp.stack(keys)
        # One sampler for all chains compiles faster than one for each.
        differ = any(cell.settings for cell in group.cells)
        self.sampler: Any = self.samplers if differ else self.samplers[0]
        self.compiled = Program(
            self.sampler,
            self.potential,
            self.keep,
            num_chains=len(group.cells),
            room=max(1, self.epochs.longest(group.epochs)),
        )

    @property
    def num_chains(self) -> int:
        """How many chains there are."""
        return len(self.group.cells)

    @property
    def keep_every(self) -> int:
        """K."""
        assert self.keep.every is not None
        return self.keep.every

    def start(self) -> Chains:
        """The chains before their first step."""
        return self.compiled.start(self._keys, PerChain(self.positions))


def on_device(arrays: Any) -> Any:
    """Arrays committed to the first device, as those of a checkpoint are.

    JAX compiles a program anew for arrays that may move: so runs that begin and runs that go on
    have the same program.
    """
    return jax.device_put(arrays, jax.devices()[0])


def _cell_sampler(group: Group, cell: Cell, num_data: int) -> CellSampler:
    chosen = TASKS[group.task]
    held = round(group.held * num_data / chosen.batch_size)
    given = dict(cell.settings)
    return cell_sampler(group.configured, chosen, group.method, num_data, given, held)


def _common_keep(made: list[CellSampler]) -> Keep:
    kept = {one.keep for one in made}
    if len(kept) > 1:
        raise ValueError(
            "keep_every must be the same for all chains of a program; got"
            f" {sorted({one.keep.every for one in made if one.keep.every is not None})}"
        )
    return made[0].keep
