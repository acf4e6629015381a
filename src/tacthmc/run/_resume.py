"""``resume`` and ``load``: continue a stored run, or read one."""

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

from tacthmc import _checks as checks
from tacthmc.compiler._cpu_devices import mesh_of_cores
from tacthmc.compiler._hosts import OtherProcessError, raise_together
from tacthmc.compiler._mesh import BATCH, check_batch, checked_mesh
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential, SubsetPotential
from tacthmc.run._effective import Effective, Standing, check_until
from tacthmc.run._failure import Failure
from tacthmc.run._feed import Feeder
from tacthmc.run._keep import Keep
from tacthmc.run._plan import (
    Callback,
    Plan,
    batch_size,
    check_callbacks,
    check_progress,
    without_source,
)
from tacthmc.run._program import Chains, Program, one_sampler, unstacked
from tacthmc.run._result import Run
from tacthmc.run._session import chain_shapes, restore, restore_memory, run_in_folder, stored_record
from tacthmc.run._trimmed import without_warm_up
from tacthmc.run._writer import check_end
from tacthmc.store._checkpoint import Checkpoints
from tacthmc.store._errors import StoreError
from tacthmc.store._folder import Folder, device_name, versions
from tacthmc.store._pickles import read_program, read_structure
from tacthmc.store._store import Store


class OtherVersionWarning(UserWarning):
    """A warning that a resumed run has other versions or devices, so rounding may differ."""


def resume(
    store: Store | str | Path,
    *,
    num_steps: int | None = None,
    sampler: Sampler | Sequence[Sampler] | None = None,
    potential: Potential | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    until: Effective | None = None,
) -> Run:
    """Continue a stored run that was killed or interrupted, or make a finished one longer.

    With the same device and versions the draws are, bit for bit, those of a run that was never
    interrupted. The newest intact checkpoint is used. Damaged newer ones are moved to ``damaged``
    in the folder of the run.

    Args:
        store: the folder of the run, or a :class:`tacthmc.Store` with it and new times between
            checkpoints. Resuming runs code from the folder: only resume what you trust.
        num_steps: the total number of steps per chain, to make a finished run longer.
        sampler: the sampler of the run, if the folder could not store it.
        potential: the potential of the run, if the folder could not store it. If a subset was
            sampled, it is ``tacthmc.potentials.subset(potential, init, sampled)[0]``.
        mesh: as for :func:`tacthmc.sample`. It may differ from before.
        progress: as for :func:`tacthmc.sample`.
        callbacks: as for :func:`tacthmc.sample`.
        until: another condition that ends the run, as for :func:`tacthmc.sample`. By default it is
            that of the run. A run that its condition has ended goes on with another one only.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder, keep=tacthmc.Keep(after=0))
    >>> resume(folder, num_steps=2_000).draws.shape
    (1, 40, 2)
    """
    check_progress(progress)
    check_callbacks(callbacks)
    path = store.path if isinstance(store, Store) else store
    folder = raise_together(lambda: Folder.open(path, write=True, process=jax.process_index()))
    try:
        with jax.enable_x64(folder.config["x64"]):
            plan = _resumed_plan(folder, sampler, potential, num_steps, mesh)
            given = store if isinstance(store, Store) else _store(folder)
            given.check(plan.every)
            plan = replace(plan, store=given, progress=progress, callbacks=tuple(callbacks))
            plan = _with_condition(folder, plan, until)
            return _resumed(folder, plan)
    finally:
        folder.close()


def _store(folder: Folder) -> Store:
    """The store settings of the run."""
    config = folder.config
    return Store(folder.path, config["checkpoint_seconds"], config["checkpoint_steps"])


def _resumed(folder: Folder, plan: Plan) -> Run:
    chains, notes = _newest(folder, plan)
    failures = [Failure.from_json(fields) for fields in notes["failures"]]
    if failures and not plan.keep_going:
        raise ValueError(
            f"the run in {folder.path} cannot be resumed: {failures[0]} Read its draws with"
            f" tacthmc.load({str(folder.path)!r})."
        )
    if notes["done"] >= plan.intervals or _has_reached(folder, notes, plan):
        return _loaded(folder, lambda: (plan.program.sampler, plan.potential))
    feeder = None
    if plan.source is not None:
        source, places = plan.source, notes["places"]
        feeder = raise_together(
            lambda: Feeder(source, plan.num_chains, plan.every, plan.program.mesh, places)
        )
    size = feeder.batch_size if feeder else batch_size(plan.potential)
    check_batch(plan.program.mesh, size)
    same = _announce(folder, notes, plan)
    until = None if plan.until is None else plan.until.to_json()
    now = {"num_steps": plan.num_steps, "until": until}
    if any(folder.config[name] != value for name, value in now.items()):
        folder.config.update(now)
        raise_together(folder.seal)
    return run_in_folder(plan, folder, chains, feeder, notes, same=same)


def _with_condition(folder: Folder, plan: Plan, until: Effective | None) -> Plan:
    """The plan with the condition that was given, or that of the run."""
    if until is not None:
        check_until(until, plan.program.keep, read_structure(folder.path)["chains"].state.position)
        return replace(plan, until=until)
    stored = folder.config["until"]
    return plan if stored is None else replace(plan, until=Effective.from_json(stored))


def _has_reached(folder: Folder, notes: dict[str, Any], plan: Plan) -> bool:
    """Whether the run has reached its condition, and it is still the same."""
    if plan.until is None or plan.until.to_json() != folder.config["until"]:
        return False
    if notes["until"] is None or not Standing(*notes["until"]["standing"]).reached:
        return False
    if plan.num_steps > folder.config["num_steps"]:
        raise ValueError(
            f"the run in {folder.path} was ended by its condition, so more steps than before"
            f" ({plan.num_steps}) would change nothing: give another, until=tacthmc.effective(…)"
        )
    return True


def _or(given: Any, before: Any) -> Any:
    return before if given is None else given


def _key(config: dict[str, Any]) -> Any:
    data = np.array(config["key"], np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl=config["key_impl"])


def _resumed_plan(
    folder: Folder,
    sampler: Sampler | Sequence[Sampler] | None,
    potential: Potential | None,
    num_steps: int | None,
    mesh: Mesh | None,
) -> Plan:
    """The plan of a folder with the new arguments, checked against it."""
    config = folder.config
    total = _or(num_steps, config["num_steps"])
    checks.whole("num_steps", total, 1)
    if total < config["num_steps"]:
        raise ValueError(
            f"num_steps is {total}, but the run in {folder.path} was begun for"
            f" {config['num_steps']}: it can be made longer, not shorter"
        )
    given = sampler is not None or potential is not None
    known, potential = _program(folder, sampler, potential)
    if mesh is None and not config["is_driven"]:
        before, chains = config["mesh"] or {}, config["num_chains"]
        mesh = mesh_of_cores(chains, batch_size(potential), lambda _: BATCH in before)
    plan = replace(_plan(folder, known, potential, mesh), num_steps=total)
    if given:
        _check_given(folder, plan)
    return plan


def _plan(folder: Folder, sampler: Sampler, potential: Potential, mesh: Mesh | None = None) -> Plan:
    """The plan in the config of a folder."""
    config, chains = folder.config, folder.config["num_chains"]
    bare, source = without_source(potential)
    each = unstacked(sampler, chains, per_chain=True) if config["sampler_per_chain"] else sampler
    program = Program(
        each,
        bare,
        Keep(**config["keep"]),
        num_chains=chains,
        mesh=checked_mesh(mesh, chains),
        room=config["rows"],
        feed_per_chain=source is not None and source.per_chain,
    )
    driven = {"keep_going": config["keep_going"], "is_driven": config["is_driven"]}
    driven["drops_tenth"] = config["drops_tenth"]
    return Plan(program, potential, _key(config), config["num_steps"], source, **driven)


def _program(
    folder: Folder, sampler: Sampler | Sequence[Sampler] | None, potential: Potential | None
) -> tuple[Sampler, Potential]:
    """The given sampler and potential, or those of the folder."""
    if potential is not None:
        checks.instance("potential", potential, Potential, "the potential of the run")
    given = None if sampler is None else one_sampler(sampler, folder.config["num_chains"])[0]
    if given is not None and potential is not None:
        return given, potential
    specs = {s.name: s for s in folder.specs.values() if s.group == "observed_data"}
    parts = read_program(folder.path, folder.root, specs)
    return _or(given, parts["sampler"]), _or(potential, parts["potential"])


def _check_given(folder: Folder, plan: Plan) -> None:
    """Raise an error if the sampler or potential cannot be that of the run."""
    config = folder.config
    if config["subset"] != isinstance(plan.potential, SubsetPotential):
        sampled = "a subset" if config["subset"] else "the whole"
        raise ValueError(
            f"the run in {folder.path} sampled {sampled} of its position: give its potential, for a"
            " subset tacthmc.potentials.subset(…)[0]"
        )
    structure = read_structure(folder.path)["chains"]
    now = plan.program.start_shapes(plan.key, structure.state.position).each
    shapes = [[(x.shape, str(x.dtype)) for x in jax.tree.leaves(t)] for t in (structure, now)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"sampler or potential differ from those of the run in {folder.path}: its state has"
            f" arrays {shapes[0]}, with these it would have {shapes[1]}"
        )


def _newest(folder: Folder, plan: Plan) -> tuple[Chains, dict[str, Any]]:
    """The newest intact checkpoint. If the folder is open for writing, damaged ones are moved."""
    shapes = chain_shapes(plan, read_structure(folder.path)["chains"])
    writes = folder.lock is not None
    checkpoints = Checkpoints(folder.path, write=writes)
    found, reasons, damaged = None, [], []
    try:
        for step in checkpoints.steps():
            try:
                chains, notes = restore(checkpoints, step, plan, shapes)
                if writes:
                    ends = notes["counts"], notes["rows"]
                    raise_together(lambda ends=ends: check_end(folder, *ends))
            except (StoreError, OtherProcessError) as error:
                reasons.append(str(error))
                damaged.append(step)
                warnings.warn(f"{folder.path}: {error}; trying an older one", stacklevel=5)
                continue
            restore_memory(plan, checkpoints, step)
            found = chains, notes
            break
    finally:
        checkpoints.close()
    if found is None:
        why = "; ".join(reasons) or "there is none"
        raise StoreError(
            f"{folder.path} has no sound checkpoint ({why}). Nothing was changed; the draws that"
            f" were written can be read with tacthmc.load({str(folder.path)!r})"
        )
    if writes and jax.process_index() == 0:
        for step in damaged:
            folder.move_aside(f"checkpoints/{step}")
    return found


def _announce(folder: Folder, notes: dict[str, Any], plan: Plan) -> bool:
    """Report where the run continues; returns whether repeated steps will give the same numbers."""
    config, here = folder.config, versions()
    before = config["versions"]
    other = [f"{n} {before[n]} → {here.get(n)}" for n in before if here.get(n) != before[n]]
    mesh = None if plan.program.mesh is None else dict(plan.program.mesh.shape)
    for name, was, now in (
        ("device", config["device"], device_name()),
        ("mesh", config["mesh"], mesh),
        ("processes", config["processes"], jax.process_count()),
    ):
        if was != now:
            other.append(f"{name} {was} → {now}")
    if other:
        warnings.warn(
            f"{folder.path} was begun with something else ({', '.join(other)}): later draws may"
            " differ in rounding from those of an uninterrupted run",
            OtherVersionWarning,
            stacklevel=4,
        )
    if jax.process_index() == 0:
        again = max(0, min(folder.reached(), plan.intervals * plan.every) - notes["steps"])
        print(
            f"tacthmc: {folder.path} goes on from step {notes['steps']} of"
            f" {plan.intervals * plan.every}; {again} steps are computed again",
            file=sys.stderr,
        )
    return not other


def load(
    path: str | Path,
    *,
    sampler: Sampler | Sequence[Sampler] | None = None,
    potential: Potential | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Read a stored run, finished or not. Draws are read from disk when they are needed.

    Args:
        path: the folder of the run. Loading runs code from it: only load what you trust.
        sampler: the sampler of the run, if the folder could not store it. Draws, trace and
            statistics do not need it.
        potential: the potential of the run, under the same conditions.
        callbacks: observers, whose memory at the end of the run is restored.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      store=folder)
    >>> bool((load(folder).draws == run.draws).all())
    True
    """
    check_callbacks(callbacks)
    folder = Folder.open(path)
    return _loaded(folder, lambda: _program(folder, sampler, potential), callbacks)


def _loaded(folder: Folder, program: Any, callbacks: Sequence[Callback] = ()) -> Run:
    config, status = folder.config, folder.status

    def known() -> tuple[list[Sampler], Potential]:
        with jax.enable_x64(config["x64"]):
            sampler, potential = program()
            per_chain = config["sampler_per_chain"]
            return unstacked(sampler, config["num_chains"], per_chain), potential

    def chains() -> Any:
        with jax.enable_x64(config["x64"]):
            sampler, potential = program()
            plan = replace(_plan(folder, sampler, potential), callbacks=tuple(callbacks))
            return _newest(Folder.open(folder.path), plan)[0]

    failures = tuple(Failure.from_json(fields) for fields in status.get("failures", []))
    record, keep = stored_record(folder), Keep(**config["keep"])
    if config["drops_tenth"]:
        record, keep = without_warm_up(record, keep, status["steps"])
    until = status.get("until")
    return Run(
        program=known,
        key=_key(config),
        record=record,
        # Observers need their memory now. Otherwise nothing is read before it is used.
        chains=chains() if callbacks else chains,
        failures=failures,
        num_steps=status["steps"],
        keep=keep,
        interrupted=not status["finished"] and (config["keep_going"] or not failures),
        seconds=status.get("seconds", 0.0),
        compile_seconds=status.get("compile_seconds", 0.0),
        folder=folder,
        until=None if until is None else Standing(*until["standing"]),
    )
