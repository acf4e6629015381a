"""``resume``: continue a stored run."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh

from tacthmc import _checks as checks
from tacthmc.compiler._cpu_devices import mesh_of_cores
from tacthmc.compiler._hosts import raise_together
from tacthmc.compiler._mesh import BATCH, check_batch, checked_mesh
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential, SubsetPotential
from tacthmc.run._effective import Effective, Standing, check_until
from tacthmc.run._failure import Failure
from tacthmc.run._feed import Feeder
from tacthmc.run._keep import Keep
from tacthmc.run._load import loaded_run, run_key
from tacthmc.run._newest import Packing, newest
from tacthmc.run._plan import (
    Callback,
    Plan,
    batch_size,
    check_callbacks,
    check_progress,
    without_source,
)
from tacthmc.run._program import Chains, Program, unstacked
from tacthmc.run._result import Run
from tacthmc.run._same_posterior import different_numbers, different_parts, probe, refuse
from tacthmc.run._session import replace_program, run_in_folder
from tacthmc.run._start import check_code, trace_once
from tacthmc.run._stored_program import StoredProgram
from tacthmc.store._folder import Folder, device_name, versions
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
    like: Any = None,
    trust: bool = False,
    changed: bool = False,
) -> Run:
    """Continue a stored run that was killed or interrupted, or make a finished one longer.

    With the same device and versions the draws are, bit for bit, those of a run that was never
    interrupted. The newest intact checkpoint is used. Damaged newer ones are moved to ``damaged``
    in the folder of the run.

    Args:
        store: the folder of the run, or a :class:`tacthmc.Store` with it and new times between
            checkpoints.
        num_steps: the total number of steps per chain, to make a finished run longer.
        sampler: the sampler of the run. It is needed if it has functions or classes that are not
            from this library, and the folder is not trusted.
        potential: the potential of the run, if the folder is not trusted or could not store it. If
            a subset was sampled, it is ``tacthmc.potentials.subset(potential, init, sampled)[0]``.
        mesh: as for :func:`tacthmc.sample`. It may differ from before.
        progress: as for :func:`tacthmc.sample`.
        callbacks: as for :func:`tacthmc.sample`.
        until: another condition that ends the run, as for :func:`tacthmc.sample`. By default it is
            that of the run. A run that its condition has ended goes on with another one only.
        like: an example of a position, if positions have containers of your own (a NamedTuple or a
            module) and the folder is not trusted.
        trust: whether to unpickle the functions and classes in the folder. That can run any code:
            only do it with runs that you or people you trust have made. A folder that this process
            has written needs no trust.
        changed: whether to go on though sampler, potential or data differ from those before. The
            draws are then of two posteriors, and the summary says so. Otherwise a difference is an
            error that names it.

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
            stored = StoredProgram(folder, sampler, potential, like, trust)
            plan = _resumed_plan(folder, stored, num_steps, mesh)
            given = store if isinstance(store, Store) else _store(folder)
            given.check(plan.every)
            plan = replace(plan, store=given, progress=progress, callbacks=tuple(callbacks))
            plan = _with_condition(folder, plan, until, stored)
            return _resumed(folder, plan, stored, changed)
    finally:
        folder.close()


def _store(folder: Folder) -> Store:
    """The store settings of the run."""
    config = folder.config
    return Store(folder.path, config["checkpoint_seconds"], config["checkpoint_steps"])


def _resumed(folder: Folder, plan: Plan, stored: StoredProgram, changed: bool) -> Run:
    chains, notes = newest(folder, _packing(plan, stored), plan.callbacks)
    parts = raise_together(lambda: different_parts(folder, plan))
    failures = [Failure.from_json(fields) for fields in notes["failures"]]
    if failures and not plan.keep_going:
        raise ValueError(
            f"the run in {folder.path} cannot be resumed: {failures[0]} Read its draws with"
            f" tacthmc.load({str(folder.path)!r})."
        )
    if notes["done"] >= plan.intervals or _has_reached(folder, notes, plan):
        return _finished(folder, plan, stored, parts)
    feeder = _feeder(plan, notes, stored.trust)
    _trace_again(plan, chains, feeder)
    size = feeder.batch_size if feeder else batch_size(plan.potential)
    check_batch(plan.program.mesh, size)
    numbers = different_numbers(notes["probe"], probe(plan, chains, feeder))
    if parts or numbers:
        if not changed:
            refuse(folder, parts, numbers)
        kept, step = stored.resumed_kept, notes["steps"]
        raise_together(lambda: replace_program(folder, kept, plan, step, parts + numbers))
    same = _announce(folder, notes, plan)
    _note_length(folder, plan)
    return run_in_folder(plan, folder, stored.resumed_kept, chains, feeder, notes, same=same)


def _trace_again(plan: Plan, chains: Chains, feeder: Feeder | None) -> None:
    """Forget compiled programs if a function no longer does what it did in this process."""
    positions = chains.each.state.position
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    trace_once(plan.program.potential, one, feeder.example if feeder else None)
    check_code(plan.program.samplers[0], positions)


def _note_length(folder: Folder, plan: Plan) -> None:
    """Store the length and the condition of the run, if they are new."""
    until = None if plan.until is None else plan.until.to_json()
    now = {"num_steps": plan.num_steps, "until": until}
    if any(folder.config[name] != value for name, value in now.items()):
        folder.config.update(now)
        raise_together(folder.seal)


def _finished(folder: Folder, plan: Plan, stored: StoredProgram, parts: list[str]) -> Run:
    """The run, which has nothing more to do."""
    if parts:
        refuse(folder, parts, None)
    several = folder.config["sampler_per_chain"]
    sampler = plan.program.samplers if several else plan.program.sampler
    return loaded_run(folder, StoredProgram(folder, sampler, plan.potential, stored.like))


def _feeder(plan: Plan, notes: dict[str, Any], trust: bool) -> Feeder | None:
    """The loaders of a streamed posterior, where the checkpoint left them."""
    if plan.source is None:
        return None
    source, places, mesh = plan.source, notes["places"], plan.program.mesh
    return raise_together(lambda: Feeder(source, plan.num_chains, plan.every, mesh, places, trust))


def _packing(plan: Plan, stored: StoredProgram) -> Packing:
    """How the chains of the folder are packed, in the containers that the program takes."""
    structure = stored.stored
    each = structure.chains
    if structure.chain_containers:
        each = plan.program.start_shapes(plan.key, stored.positions).each
    packing = Packing.of(each, plan.program.axes.each, plan.key, plan.num_chains)
    return packing.on_devices_of(plan)


def _with_condition(
    folder: Folder, plan: Plan, until: Effective | None, stored: StoredProgram
) -> Plan:
    """The plan with the condition that was given, or that of the run."""
    if until is not None:
        check_until(until, plan.program.keep, stored.positions)
        return replace(plan, until=until)
    before = folder.config["until"]
    return plan if before is None else replace(plan, until=Effective.from_json(before))


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


def _resumed_plan(
    folder: Folder, stored: StoredProgram, num_steps: int | None, mesh: Mesh | None
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
    potential = stored.potential
    if mesh is None and not config["is_driven"]:
        before, chains = config["mesh"] or {}, config["num_chains"]
        mesh = mesh_of_cores(chains, batch_size(potential), lambda _: BATCH in before)
    plan = replace(_plan(folder, stored.sampler, potential, mesh), num_steps=total)
    if stored.is_given:
        _check_given(folder, plan, stored)
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
    return Plan(program, potential, run_key(config), config["num_steps"], source, **driven)


def _check_given(folder: Folder, plan: Plan, stored: StoredProgram) -> None:
    """Raise an error if the sampler or potential cannot be that of the run."""
    config = folder.config
    if config["subset"] != isinstance(plan.potential, SubsetPotential):
        sampled = "a subset" if config["subset"] else "the whole"
        raise ValueError(
            f"the run in {folder.path} sampled {sampled} of its position: give its potential, for a"
            " subset tacthmc.potentials.subset(…)[0]"
        )
    now = plan.program.start_shapes(plan.key, stored.positions).each
    both = stored.stored.chains, now
    shapes = [[(x.shape, str(x.dtype)) for x in jax.tree.leaves(tree)] for tree in both]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"sampler or potential differ from those of the run in {folder.path}: its state has"
            f" arrays {shapes[0]}, with these it would have {shapes[1]}"
        )


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
        last = plan.intervals * plan.every
        reached = folder.reached()
        again = "an unknown number of"
        if reached is not None or notes["steps"] == 0:
            again = str(max(0, min(reached or 0, last) - notes["steps"]))
        print(
            f"tacthmc: {folder.path} goes on from step {notes['steps']} of {last};"
            f" {again} steps are computed again",
            file=sys.stderr,
        )
    return not other
