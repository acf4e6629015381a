"""The newest intact checkpoint of a stored run, for a program or for a reader without one."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from tacthmc._typing import PRNGKey
from tacthmc.compiler._hosts import OtherProcessError, raise_together
from tacthmc.compiler._mesh import ambient
from tacthmc.run._monitor import Observer
from tacthmc.run._plan import Callback, Plan
from tacthmc.run._program import Chains, packed_shape, unpacked
from tacthmc.run._writer import check_end
from tacthmc.store._checkpoint import Checkpoints
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder
from tacthmc.store._mend import mend_the_end


class Packing(NamedTuple):
    """How the chains of a run are packed, and on which devices they are wanted."""

    shapes: Chains
    axes: Chains
    mesh: Mesh | None = None
    chain_axis: str | None = None

    @classmethod
    def of(cls, each: Any, axes: Any, key: PRNGKey, chains: int) -> "Packing":
        """For one device, from the shapes of the states of the chains."""
        keys = jax.eval_shape(lambda: jax.random.split(key, chains))
        all_keys: Any = 0
        return cls(Chains(each, keys), Chains(axes, all_keys))

    def on_devices_of(self, plan: Plan) -> "Packing":
        """For the devices of a plan."""
        return self._replace(mesh=plan.program.mesh, chain_axis=plan.program.shape.chain_axis)


def newest(
    folder: Folder, packing: Packing, callbacks: Sequence[Callback] = ()
) -> tuple[Chains, dict[str, Any]]:
    """The chains and notes of the newest intact checkpoint; observers get their memory back.

    If the folder is open for writing, damaged checkpoints are moved.
    """
    writes = folder.lock is not None
    if writes:
        raise_together(lambda: _mend_statistics(folder))
    checkpoints = Checkpoints(folder.path, write=writes)
    found, reasons, damaged = None, [], []
    try:
        for step in checkpoints.steps():
            try:
                chains, notes = _restored(checkpoints, step, packing)
                if writes:
                    ends = notes["counts"], notes["rows"]
                    raise_together(lambda ends=ends: check_end(folder, *ends))
            except (StoreError, OtherProcessError) as error:
                reasons.append(str(error))
                damaged.append(step)
                warnings.warn(f"{folder.path}: {error}; trying an older one", stacklevel=5)
                continue
            _restore_memory(callbacks, checkpoints, step)
            found = chains, notes
            break
    finally:
        checkpoints.close()
    if found is None:
        why = "; ".join(reasons) or "there is none"
        raise StoreError(
            f"{folder.path} has no sound checkpoint ({why}). The draws that were written can be"
            f" read with tacthmc.load({str(folder.path)!r}), and `tacthmc repair {folder.path}`"
            " saves what is not damaged"
        )
    if writes and jax.process_index() == 0:
        for step in damaged:
            folder.move_aside(f"checkpoints/{step}")
    return found


def _mend_statistics(folder: Folder) -> None:
    """Mend statistics that would keep a run from going on."""
    if jax.process_index() == 0:
        # A condition looks at the statistics of all draws.
        all_of = () if folder.config["until"] is None else ("sample_stats",)
        mend_the_end(folder, folder.status, all_of)


def _restored(
    checkpoints: Checkpoints, step: int, packing: Packing
) -> tuple[Chains, dict[str, Any]]:
    """The chains of a checkpoint, and its notes. Raises a StoreError if it is damaged."""
    sharding: Any = SingleDeviceSharding(jax.devices()[0])
    if packing.mesh is not None:
        name = packing.chain_axis
        spec = PartitionSpec(name) if name else PartitionSpec()
        sharding = NamedSharding(packing.mesh, spec)
    words = packed_shape(packing.shapes, packing.axes)
    like = jax.ShapeDtypeStruct(words.shape, words.dtype, sharding=sharding)
    with ambient(packing.mesh):
        found, notes = raise_together(lambda: checkpoints.restore(step, like))
    try:
        return unpacked(found, *packing), notes
    except ValueError as error:
        raise StoreError(f"the checkpoint at step {step} is damaged: {error}") from error


def _restore_memory(callbacks: Sequence[Callback], checkpoints: Checkpoints, step: int) -> None:
    """Restore the memory of the observers from a checkpoint."""
    observers = [each for each in callbacks if isinstance(each, Observer)]
    if not any(observer.memory() for observer in observers):
        return
    stored = checkpoints.memory(step)
    for number, observer in enumerate(observers):
        start = f"{number}."
        own = {n.removeprefix(start): v for n, v in stored.items() if n.startswith(start)}
        observer.remember({name: np.asarray(value) for name, value in own.items()})
