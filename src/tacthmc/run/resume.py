"""``resume`` and ``load``: a run's folder, gone on with or read."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from tacthmc import checks
from tacthmc.devices import check_batch, checked_mesh, place
from tacthmc.keys import chain_keys
from tacthmc.part import PartPotential
from tacthmc.potential import Potential
from tacthmc.run.chains import traced, unstacked
from tacthmc.run.chunk import Chain, Shape
from tacthmc.run.failure import Failure
from tacthmc.run.feed import Feeder
from tacthmc.run.persist import check_end
from tacthmc.run.plan import Callback, Plan, batch_size, without_source
from tacthmc.run.result import Run
from tacthmc.run.sample import check_checkpoints
from tacthmc.run.session import recorded, restored, stored_record
from tacthmc.samplers.base import Sampler
from tacthmc.store.checkpoint import Checkpoints
from tacthmc.store.errors import StoreError
from tacthmc.store.folder import Folder, versions
from tacthmc.store.program import read_program, read_structure


class OtherVersionWarning(UserWarning):
    """A run goes on with other versions than it began with: numbers may differ in rounding."""


def resume(
    path: str | Path,
    *,
    num_steps: int | None = None,
    sampler: Sampler | None = None,
    potential: Potential | None = None,
    checkpoint_seconds: float | None = None,
    checkpoint_steps: int | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Go on with a stored run that was killed, interrupted, or is to be longer.

    On the same device and versions the draws are those of a run that was never interrupted,
    bit for bit. The newest checkpoint that is sound is used.

    Args:
        path: the run's folder. Resuming runs code from it: only resume what you trust.
        num_steps: steps per chain in all, to make a finished run longer.
        sampler: as it was, where the folder alone could not keep it.
        potential: as it was, where the folder alone could not keep it.
        checkpoint_seconds: as for :func:`tacthmc.sample`; as it was by default.
        checkpoint_steps: as for :func:`tacthmc.sample`; as it was by default.
        mesh: as for :func:`tacthmc.sample`; may differ from before.
        progress: as for :func:`tacthmc.sample`.
        callbacks: as for :func:`tacthmc.sample`.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder, num_warmup=0)
    >>> resume(folder, num_steps=2_000).draws.shape
    (1, 40, 2)
    """
    check_checkpoints(checkpoint_seconds, checkpoint_steps)
    folder = Folder.open(path, write=True, process=jax.process_index())
    with jax.enable_x64(folder.config["x64"]):
        try:
            return _resumed(
                folder,
                num_steps,
                sampler,
                potential,
                checkpoint_seconds,
                checkpoint_steps,
                mesh,
                progress,
                callbacks,
            )
        finally:
            folder.close()


def _resumed(
    folder: Folder,
    num_steps: int | None,
    sampler: Sampler | None,
    potential: Potential | None,
    checkpoint_seconds: float | None,
    checkpoint_steps: int | None,
    mesh: Mesh | None,
    progress: bool | None,
    callbacks: Sequence[Callback],
) -> Run:
    config = folder.config
    total = config["num_steps"] if num_steps is None else num_steps
    checks.whole("num_steps", total, 1)
    if total < config["num_steps"]:
        raise ValueError(
            f"num_steps is {total}, but the run in {folder.path} was begun for"
            f" {config['num_steps']}: it can be made longer, not shorter"
        )
    sampler, potential = _program(folder, sampler, potential)
    plan = _plan(
        folder,
        sampler,
        potential,
        num_steps=total,
        checkpoint_seconds=_or(checkpoint_seconds, config["checkpoint_seconds"]),
        checkpoint_steps=_or(checkpoint_steps, config["checkpoint_steps"]),
        progress=progress,
        callbacks=tuple(callbacks),
    )
    if mesh is not None:
        plan = replace(plan, mesh=checked_mesh(mesh, plan.num_chains))
    plan = plan.placed()
    shapes = read_structure(folder.path)["chains"]
    chains, notes = _newest(folder, plan, shapes)
    failures = [Failure.from_json(fields) for fields in notes["failures"]]
    if failures:
        raise ValueError(
            f"the run in {folder.path} cannot go on: {failures[0]} Read what it has with"
            f" tacthmc.load({str(folder.path)!r})."
        )
    if notes["done"] >= plan.intervals:
        folder.close()
        return load(folder.path)
    _tell(folder, notes, plan)
    if total != config["num_steps"] and jax.process_index() == 0:
        folder.config["num_steps"] = total
        folder.seal()
    feeder = None
    if plan.source is not None:
        feeder = Feeder(plan.source, plan.num_chains, plan.keep_every, plan.mesh, notes["places"])
    check_batch(plan.mesh, feeder.batch_size if feeder else batch_size(plan.potential))
    numbers = jnp.arange(plan.num_chains)
    keys = jax.vmap(chain_keys, in_axes=(None, 0))(_key(config), numbers)[1]
    keys = place(plan.mesh, keys, plan.spmd)
    return recorded(plan, potential, folder, keys, chains, feeder, notes)


def _plan(folder: Folder, sampler: Sampler, potential: Potential, **changes: Any) -> Plan:
    """The plan that a folder's config tells of."""
    config = folder.config
    bare, source = without_source(potential)
    plan = Plan(
        sampler=sampler,
        swept=config["swept"],
        potential=bare,
        key=_key(config),
        num_chains=config["num_chains"],
        num_steps=config["num_steps"],
        num_warmup=config["num_warmup"],
        shape=Shape(config["rows"], config["keep"] == "all"),
        source=source,
    )
    return replace(plan, **changes)


def _or(given: Any, before: Any) -> Any:
    return before if given is None else given


def _key(config: dict[str, Any]) -> Any:
    data = np.array(config["key"], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl=config["key_impl"])


def _program(
    folder: Folder, sampler: Sampler | None, potential: Potential | None
) -> tuple[Sampler, Potential]:
    """Sampler and potential: those given, else those that the folder keeps."""
    if sampler is not None and potential is not None:
        return traced(sampler), potential
    specs = {s.name: s for s in folder.specs.values() if s.group == "observed_data"}
    parts = read_program(folder.path, folder.root, specs)
    return (
        parts["sampler"] if sampler is None else traced(sampler),
        parts["potential"] if potential is None else potential,
    )


def _newest(folder: Folder, plan: Plan, shapes: Chain) -> tuple[Chain, dict[str, Any]]:
    """The newest checkpoint that is sound."""
    checkpoints = Checkpoints(folder.path)
    try:
        steps = checkpoints.steps()
        reasons = []
        for step in steps:
            try:
                found = restored(checkpoints, step, plan, shapes)
                if folder.lock is not None:
                    check_end(folder, found[1]["counts"], found[1]["rows"])
            except StoreError as error:
                reasons.append(str(error))
                warnings.warn(f"{folder.path}: {error}; trying an older one", stacklevel=4)
                continue
            return found
    finally:
        checkpoints.close()
    why = "; ".join(reasons) or "there is none"
    raise StoreError(
        f"{folder.path} has no sound checkpoint ({why}). Nothing was changed; the draws that were"
        f" written can be read with tacthmc.load({str(folder.path)!r})"
    )


def _tell(folder: Folder, notes: dict[str, Any], plan: Plan) -> None:
    """Say where the run goes on, and how much is computed again."""
    here, before = versions(), folder.config["versions"]
    other = [f"{n} {before[n]} → {here.get(n)}" for n in before if here.get(n) != before[n]]
    if other:
        warnings.warn(
            f"{folder.path} was begun with other versions ({', '.join(other)}): draws from here on"
            " may differ from an uninterrupted run's in rounding",
            OtherVersionWarning,
            stacklevel=5,
        )
    if jax.process_index() == 0:
        again = max(0, min(folder.reached(), plan.intervals * plan.keep_every) - notes["steps"])
        print(
            f"tacthmc: {folder.path} goes on from step {notes['steps']} of"
            f" {plan.intervals * plan.keep_every}; {again} steps are computed again",
            file=sys.stderr,
        )


def load(
    path: str | Path, *, sampler: Sampler | None = None, potential: Potential | None = None
) -> Run:
    """Read a stored run, finished or not; draws are read from disk as they are asked for.

    Args:
        path: the run's folder. Loading runs code from it: only load what you trust.
        sampler: as it was, where the folder alone could not keep it.
        potential: as it was, where the folder alone could not keep it.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder)
    >>> bool((load(folder).draws == run.draws).all())
    True
    """
    folder = Folder.open(path)
    config, status = folder.config, folder.status
    sampler, potential = _program(folder, sampler, potential)

    def state() -> Any:
        plan = _plan(folder, sampler, potential)
        return _newest(folder, plan, read_structure(folder.path)["chains"])[0].state

    return Run(
        samplers=unstacked(sampler, config["num_chains"], config["swept"]),
        potential=potential,
        key=_key(config),
        rest=potential.rest if isinstance(potential, PartPotential) else None,
        record=stored_record(folder),
        state=state,
        failures=tuple(Failure.from_json(fields) for fields in status.get("failures", [])),
        num_steps=status["steps"],
        num_warmup=config["num_warmup"],
        keep_all=config["keep"] == "all",
        interrupted=not status["finished"],
        seconds=status.get("seconds", 0.0),
        compile_seconds=status.get("compile_seconds", 0.0),
        folder=folder,
    )
