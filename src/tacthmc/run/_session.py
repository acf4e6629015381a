"""Running a plan with a folder, from the start or from a checkpoint."""

import contextlib
import platform
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.compiler._hosts import raise_together
from tacthmc.dynamics import Sampler
from tacthmc.potentials import SubsetPotential
from tacthmc.run._draw_noise import NOISE_GRADIENTS
from tacthmc.run._driver import Driver
from tacthmc.run._failure import Failure
from tacthmc.run._feed import Feeder
from tacthmc.run._goal import Goal
from tacthmc.run._interval import Kept
from tacthmc.run._plan import Plan
from tacthmc.run._potential_facts import potential_facts
from tacthmc.run._program import Chains
from tacthmc.run._record import StoredRecord
from tacthmc.run._result import Run
from tacthmc.run._same_posterior import FILE as POSTERIOR
from tacthmc.run._same_posterior import write_parts
from tacthmc.run._writer import StoreWriter, array_specs
from tacthmc.store._errors import writing
from tacthmc.store._folder import Folder, device_name
from tacthmc.store._pickles import FILE as PROGRAM
from tacthmc.store._pickles import data_specs, has_program, observed, share_written, write_program
from tacthmc.store._structure import SAMPLER, write_sampler, write_structure

MAX_MEASURED_SECONDS, MAX_COST = 1.0, 0.05
"""The time that measurements at the end of a run may take, and the same as a share of the run."""


def new_folder(plan: Plan, chains: Chains, feeder: Feeder | None) -> tuple[Folder, Kept]:
    """A folder with everything that does not change in a run, and the shapes of a draw.

    The folder is not sealed yet.
    """
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
        "potential": potential_facts(plan.potential)._asdict(),
        "subset": isinstance(plan.potential, SubsetPotential),
    }
    kept = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape[2:], s.dtype), chunk.kept)
    folder = raise_together(lambda: Folder.create(store.path, config, specs, jax.process_index()))

    def fill() -> None:
        if jax.process_index() == 0:
            folder.write_whole("posterior/chain", np.arange(plan.num_chains))
            for name, value in data.items():
                folder.write_whole(f"observed_data/{name}", value)
            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), chains.each)
            write_structure(folder.path, shapes, kept, program.axes.each)
            write_sampler(folder.path, program.sampler)
            write_parts(folder.path, plan)
            if store.with_program:
                parts = {"sampler": program.sampler, "potential": plan.potential, "kept": kept}
                write_program(folder.path, parts, data)

    try:
        with writing(folder.path, "writing the run's settings"):
            raise_together(fill)
            share_written()
    except BaseException:
        folder.close()
        raise
    return folder, kept


def replace_program(
    folder: Folder, kept: Kept, plan: Plan, step: int, differences: list[str]
) -> None:
    """Store another sampler and potential, with what differs, for a run that goes on with them."""
    if jax.process_index() != 0:
        return
    with writing(folder.path, "writing the changed settings"):
        write_sampler(folder.path, plan.program.sampler)
        write_parts(folder.path, plan)
        if has_program(folder.path):
            parts = {"sampler": plan.program.sampler, "potential": plan.potential, "kept": kept}
            # The data of before stay in the store: they are those of the draws before.
            write_program(folder.path, parts, {})
            folder.config["program_python"] = platform.python_version()
        rewritten = [SAMPLER, POSTERIOR, *([PROGRAM] if has_program(folder.path) else [])]
    before = folder.config.get("changes", [])
    folder.config["changes"] = [*before, {"step": step, "what": differences}]
    folder.config["potential"] = potential_facts(plan.potential)._asdict()
    folder.seal(rewritten)


def _feed_shapes(plan: Plan, feeder: Feeder | None) -> Any:
    if feeder is None:
        return None
    lead = (plan.num_chains,) if feeder.per_chain else ()
    rows = plan.program.shape.rows
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((*lead, rows, plan.every, *x.shape), x.dtype),
        feeder.example,
    )


def run_in_folder(
    plan: Plan,
    folder: Folder,
    kept: Kept,
    chains: Chains,
    feeder: Feeder | None,
    notes: dict[str, Any] | None,
    compile_seconds: float = 0.0,
    same: bool = True,
) -> Run:
    """Run with a store, from the start or from the ``notes`` of a checkpoint.

    ``kept`` has the shapes of a draw. ``same`` says whether the devices and versions are the same
    as before.
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
    run = plan.result(StoredRecord(folder, kept), outcome, folder)
    _measure(run)
    return run


def _measure(run: Run) -> None:
    """Measure what readers of the folder cannot, if that takes little time beside the run."""
    if run.interrupted or run.failures or jax.process_count() > 1 or not run.num_steps:
        return
    steps = run.num_steps * run.num_chains * run.sampler.gradients_per_step
    if NOISE_GRADIENTS * run.seconds / steps <= max(MAX_MEASURED_SECONDS, MAX_COST * run.seconds):
        # An error is raised when the user asks for the result.
        with contextlib.suppress(Exception):
            run.thermostats  # noqa: B018


def _tuning(sampler: Sampler) -> Any:
    """The choices of tuning, or None without tuning."""
    tuning = getattr(sampler, "tuning", None)
    return tuning and {"choices": tuning.record(), "gradients": tuning.gradients}
