"""Running a plan with a folder, from the start or from a checkpoint."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

from tacthmc.compiler._hosts import raise_together
from tacthmc.compiler._mesh import ambient
from tacthmc.dynamics import Sampler
from tacthmc.potentials import SubsetPotential
from tacthmc.run._driver import Driver
from tacthmc.run._failure import Failure
from tacthmc.run._feed import Feeder
from tacthmc.run._goal import Goal
from tacthmc.run._monitor import Observer
from tacthmc.run._plan import Plan
from tacthmc.run._program import Chains
from tacthmc.run._record import StoredRecord
from tacthmc.run._result import Run
from tacthmc.run._writer import StoreWriter, array_specs
from tacthmc.store._checkpoint import Checkpoints
from tacthmc.store._errors import StoreError, writing
from tacthmc.store._folder import Folder, device_name
from tacthmc.store._pickles import (
    data_specs,
    observed,
    read_structure,
    write_program,
    write_structure,
)


def new_folder(plan: Plan, chains: Chains, feeder: Feeder | None) -> Folder:
    """A folder with everything that does not change in a run. It is not sealed yet."""
    program, store = plan.program, plan.store
    assert store is not None
    chunk = program.chunk_shapes(chains, _feed_shapes(plan, feeder))
    writes_data = store.with_program and jax.process_index() == 0
    data = observed(plan.potential) if writes_data else {}
    specs = array_specs(chunk, chains, plan.num_chains, plan.shards)
    specs += data_specs(data).values()
    keep, mesh = program.keep, program.mesh
    config = {
        "num_chains": plan.num_chains,
        "num_steps": plan.num_steps,
        "keep": keep.to_json(),
        "rows": program.shape.rows,
        "sampler_per_chain": program.shape.sampler_per_chain,
        "keep_going": plan.keep_going,
        "is_driven": plan.is_driven,
        "until": None if plan.until is None else plan.until.to_json(),
        "drops_tenth": plan.drops_tenth,
        "checkpoint_seconds": store.checkpoint_seconds,
        "checkpoint_steps": store.checkpoint_steps,
        "x64": bool(jnp.result_type(float) == jnp.float64),
        "key": np.asarray(jax.random.key_data(plan.key)).tolist(),
        "key_impl": str(jax.random.key_impl(plan.key)),
        "device": device_name(),
        "processes": jax.process_count(),
        "mesh": None if mesh is None else dict(mesh.shape),
        "sampler": repr(program.sampler),
        "tuning": _tuning(program.sampler),
        "potential": type(plan.potential).__name__,
        "subset": isinstance(plan.potential, SubsetPotential),
    }
    folder = raise_together(lambda: Folder.create(store.path, config, specs, jax.process_index()))

    def fill() -> None:
        if jax.process_index() == 0:
            folder.write_whole("posterior/chain", np.arange(plan.num_chains))
            for name, value in data.items():
                folder.write_whole(f"observed_data/{name}", value)
            kept = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[2:], s.dtype), chunk.kept)
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), chains.each)
            write_structure(folder.path, {"chains": shapes, "kept": kept})
            if store.with_program:
                parts = {"sampler": program.sampler, "potential": plan.potential}
                write_program(folder.path, parts, data)

    try:
        with writing(folder.path, "writing the run's settings"):
            raise_together(fill)
    except BaseException:
        folder.close()
        raise
    return folder


def _feed_shapes(plan: Plan, feeder: Feeder | None) -> Any:
    if feeder is None:
        return None
    lead = (plan.num_chains,) if feeder.per_chain else ()
    rows = plan.program.shape.rows
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((*lead, rows, plan.every, *x.shape), x.dtype),
        feeder.example,
    )


def chain_shapes(plan: Plan, each: Any) -> Chains:
    """The shapes of the chains of a stored run, from those of their states (``each``)."""
    return Chains(each, jax.eval_shape(lambda: jax.random.split(plan.key, plan.num_chains)))


def restore(
    checkpoints: Checkpoints, step: int, plan: Plan, shapes: Chains
) -> tuple[Chains, dict[str, Any]]:
    """The chains of a checkpoint on the devices of the plan, and its notes.

    Raises a StoreError if the checkpoint is damaged.
    """
    program = plan.program
    sharding: Any = SingleDeviceSharding(jax.devices()[0])
    if program.mesh is not None:
        name = program.shape.chain_axis
        spec = PartitionSpec(name) if name else PartitionSpec()
        sharding = NamedSharding(program.mesh, spec)
    words = program.packed_shape(shapes)
    like = jax.ShapeDtypeStruct(words.shape, words.dtype, sharding=sharding)
    with ambient(program.mesh):
        found, notes = raise_together(lambda: checkpoints.restore(step, like))
    try:
        return program.unpack(found, shapes), notes
    except ValueError as error:
        raise StoreError(f"the checkpoint at step {step} is damaged: {error}") from error


def restore_memory(plan: Plan, checkpoints: Checkpoints, step: int) -> None:
    """Restore the memory of the observers from a checkpoint."""
    observers = [each for each in plan.callbacks if isinstance(each, Observer)]
    if not any(observer.memory() for observer in observers):
        return
    stored = checkpoints.memory(step)
    for number, observer in enumerate(observers):
        start = f"{number}."
        own = {n.removeprefix(start): v for n, v in stored.items() if n.startswith(start)}
        observer.remember({name: np.asarray(value) for name, value in own.items()})


def run_in_folder(
    plan: Plan,
    folder: Folder,
    chains: Chains,
    feeder: Feeder | None,
    notes: dict[str, Any] | None,
    compile_seconds: float = 0.0,
    same: bool = True,
) -> Run:
    """Run with a store, from the start or from the ``notes`` of a checkpoint.

    ``same`` says whether the devices and versions are the same as before.
    """
    writer = None
    before = notes or {"done": 0, "seconds": 0.0, "compile_seconds": 0.0, "failures": []}
    try:
        goal = None if plan.until is None else Goal(plan, chains)
        if goal is not None and notes is not None:
            goal.go_on(notes, folder)
        writer = StoreWriter(folder, plan, notes, same)
        driver = Driver(
            plan,
            chains,
            writer,
            feeder,
            done=before["done"],
            seconds=before["seconds"],
            compile_seconds=before["compile_seconds"] + compile_seconds,
            failures=[Failure.from_json(fields) for fields in before["failures"]],
            goal=goal,
        )
        if notes is None:
            driver.first_commit()
            raise_together(folder.seal)
        outcome = driver.run()
    finally:
        if writer is not None:
            writer.close()
        folder.close()
    return plan.result(stored_record(folder), outcome, folder)


def stored_record(folder: Folder) -> StoredRecord:
    """The record in the folder of a run."""
    return StoredRecord(folder, read_structure(folder.path)["kept"])


def _tuning(sampler: Sampler) -> Any:
    """The choices of tuning, or None without tuning."""
    tuning = getattr(sampler, "tuning", None)
    return tuning and {"choices": tuning.record(), "gradients": tuning.gradients}
