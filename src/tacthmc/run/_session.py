"""What beginning a run and going on with one have in common."""

import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from tacthmc.compiler._hosts import together
from tacthmc.compiler._mesh import place, using
from tacthmc.dynamics._langevin import Langevin
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.potentials._subset import PartPotential
from tacthmc.run._chains import pack_chains, run_chunk, start_chains, unpack_chains, unstacked
from tacthmc.run._chunk import Chain, Filled, Limits
from tacthmc.run._driver import Drive, Outcome
from tacthmc.run._failure import DivergedWarning
from tacthmc.run._feed import Feeder
from tacthmc.run._plan import Plan
from tacthmc.run._record import Record, StoredRecord
from tacthmc.run._result import Run
from tacthmc.run._writer import StoreWriter, array_specs
from tacthmc.store._checkpoint import Checkpoints
from tacthmc.store._errors import StoreError, writing
from tacthmc.store._folder import Folder, device_name
from tacthmc.store._pickles import data_specs, observed, read_structure, write_program


def started(plan: Plan, positions: Any) -> tuple[Chain, Any]:
    """All chains before their first step, and the keys of their steps."""
    with using(plan.mesh):
        positions = place(plan.mesh, positions, plan.spmd)
        return jax.block_until_ready(
            start_chains(plan.sampler, plan.potential, plan.key, positions, plan.swept, plan.spmd)
        )


def chunk_shapes(plan: Plan, keys: Any, chains: Chain, feeder: Feeder | None) -> Filled:
    """What a chunk leaves, without running one."""
    feed = None
    if feeder is not None:
        lead = (plan.num_chains,) if feeder.per_chain else ()
        feed = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(
                (*lead, plan.shape.rows, plan.keep_every, *x.shape), x.dtype
            ),
            feeder.example,
        )
    integer = jnp.zeros((), int)
    per_chain = feeder is not None and feeder.per_chain
    with using(plan.mesh):
        return eqx.filter_eval_shape(
            run_chunk,
            plan.sampler,
            plan.potential,
            keys,
            chains,
            feed,
            Limits(integer, integer),
            plan.shape,
            plan.swept,
            per_chain,
            plan.spmd,
        )[1]


def new_folder(
    store: str | Path,
    plan: Plan,
    potential: Potential,
    chains: Chain,
    keys: Any,
    feeder: Feeder | None,
) -> Folder:
    """A folder with all that does not change in a run; not sealed yet."""
    filled = chunk_shapes(plan, keys, chains, feeder)
    data = observed(potential) if jax.process_index() == 0 else {}
    specs = array_specs(filled, chains, plan.num_chains, plan.shards)
    specs += data_specs(data).values()
    config = {
        "num_chains": plan.num_chains,
        "num_steps": plan.num_steps,
        "num_warmup": plan.num_warmup,
        "keep_every": plan.keep_every,
        "keep": "all" if plan.shape.keep_all else "plateau",
        "rows": plan.shape.rows,
        "swept": plan.swept,
        "checkpoint_seconds": plan.checkpoint_seconds,
        "checkpoint_steps": plan.checkpoint_steps,
        "x64": bool(jnp.result_type(float) == jnp.float64),
        "key": np.asarray(jax.random.key_data(plan.key)).tolist(),
        "key_impl": str(jax.random.key_impl(plan.key)),
        "device": device_name(),
        "processes": jax.process_count(),
        "mesh": None if plan.mesh is None else dict(plan.mesh.shape),
        "sampler": repr(plan.sampler),
        "tuning": _tuning(plan.sampler),
        "potential": type(potential).__name__,
        "part": isinstance(potential, PartPotential),
    }
    folder = together(lambda: Folder.create(store, config, specs, jax.process_index()))

    def fill() -> None:
        if jax.process_index() == 0:
            folder.write_whole("posterior/chain", np.arange(plan.num_chains))
            for name, value in data.items():
                folder.write_whole(f"observed_data/{name}", value)
            kept = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[2:], s.dtype), filled.kept)
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), chains)
            parts = {"sampler": plan.sampler, "potential": potential}
            write_program(folder.path, parts, {"chains": shapes, "kept": kept}, data)

    try:
        with writing(folder.path, "writing the run's settings"):
            together(fill)
    except BaseException:
        folder.close()
        raise
    return folder


def restored(
    checkpoints: Checkpoints, step: int, plan: Plan, shapes: Chain
) -> tuple[Chain, dict[str, Any]]:
    """A checkpoint's state where the plan wants it, and its notes; raises where it is damaged."""
    sharding: Any = SingleDeviceSharding(jax.devices()[0])
    if plan.mesh is not None:
        spec = PartitionSpec(plan.spmd) if plan.spmd else PartitionSpec()
        sharding = NamedSharding(plan.mesh, spec)
    words = eqx.filter_eval_shape(pack_chains, plan.potential, shapes, None)[0]
    like = jax.ShapeDtypeStruct(words.shape, words.dtype, sharding=sharding)
    with using(plan.mesh):
        found, notes = together(lambda: checkpoints.restore(step, like))
        chains, fingerprint = unpack_chains(plan.potential, found, shapes, plan.spmd)
    if int(fingerprint) != notes.get("fingerprint"):
        raise StoreError(f"the checkpoint at step {step} is damaged: its checksum differs")
    return chains, notes


def recorded(
    plan: Plan,
    potential: Potential,
    folder: Folder,
    keys: Any,
    chains: Chain,
    feeder: Feeder | None,
    notes: dict[str, Any] | None,
    compile_seconds: float = 0.0,
    same: bool = True,
) -> Run:
    """Run with a store, from the start or from a checkpoint's ``notes``.

    ``same`` says whether device and versions are those that the run had before.
    """
    writer = None
    before = notes or {"done": 0, "seconds": 0.0, "compile_seconds": 0.0}
    try:
        writer = StoreWriter(folder, plan, notes, same)
        driver = Drive(
            plan,
            keys,
            chains,
            writer,
            feeder,
            done=before["done"],
            seconds=before["seconds"],
            compile_seconds=before["compile_seconds"] + compile_seconds,
        )
        if notes is None:
            driver.first_commit()
            together(folder.seal)
        outcome = driver.run()
    finally:
        if writer is not None:
            writer.close()
        folder.close()
    return finished(plan, potential, stored_record(folder), outcome, folder)


def stored_record(folder: Folder) -> StoredRecord:
    """The record of a run's folder."""
    return StoredRecord(folder, read_structure(folder.path)["kept"])


def finished(
    plan: Plan, potential: Potential, record: Record, outcome: Outcome, folder: Folder | None = None
) -> Run:
    """The run as its maker gets it, with a warning for each chain that failed."""
    for failure in outcome.failures:
        warnings.warn(str(failure), DivergedWarning, stacklevel=3)
    return Run(
        program=lambda: (unstacked(plan.sampler, plan.num_chains, plan.swept), potential),
        key=plan.key,
        record=record,
        state=outcome.chains.state,
        failures=tuple(outcome.failures),
        num_steps=outcome.done * plan.keep_every,
        num_warmup=plan.num_warmup,
        keep_all=plan.shape.keep_all,
        interrupted=outcome.interrupted,
        seconds=outcome.seconds,
        compile_seconds=outcome.compile_seconds,
        folder=folder,
    )


def _tuning(sampler: Sampler) -> Any:
    """What a warm-up chose, where there was one."""
    if not isinstance(sampler, Langevin) or sampler.tuning is None:
        return None
    return {"choices": sampler.tuning.record(), "gradients": sampler.tuning.gradients}
