"""The start of a run: check arguments, build the program, start chains and run them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc.compiler._cpu_devices import mesh_of_cores
from tacthmc.compiler._hosts import raise_together
from tacthmc.compiler._mesh import check_batch, checked_mesh
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run._driver import Driver
from tacthmc.run._effective import Effective, check_until
from tacthmc.run._feed import Feeder
from tacthmc.run._goal import Goal
from tacthmc.run._gradient_cost import gradient_cost
from tacthmc.run._keep import Keep
from tacthmc.run._plan import (
    Callback,
    Plan,
    batch_size,
    check_steps,
    chunk_room,
    without_source,
)
from tacthmc.run._program import Chains, Program
from tacthmc.run._record import MemoryRecord
from tacthmc.run._result import Run
from tacthmc.run._session import new_folder, run_in_folder
from tacthmc.run._start import chain_positions, check_start
from tacthmc.store._store import Store, as_store


def run_chains(
    key: Array,
    sampler: Sampler | Sequence[Sampler],
    potential: Potential,
    init: Any,
    num_steps: int,
    num_chains: int = 1,
    *,
    keep: Keep | None = None,
    store: Store | str | Path | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    until: Effective | None = None,
) -> Run:
    """:func:`tacthmc.sample` for a sampler whose numbers are all set."""
    first, num_chains = _first(sampler, num_chains)
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 1)
    drops_tenth = until is not None and (keep is None or keep.after is None)
    keep = _checked_keep(keep, first, potential, None if drops_tenth else num_steps)
    assert keep.every is not None
    if store is not None:
        store = as_store(store, keep.every)
    key = checks.key("key", key)
    bare, source = without_source(potential)
    if mesh is None:
        mesh = _mesh_of_cores(bare, init, num_chains, key)
    mesh = checked_mesh(mesh, num_chains)
    feeder = None
    if source is not None:
        every = keep.every
        feeder = raise_together(lambda: Feeder(source, num_chains, every, mesh, None))
    check_batch(mesh, feeder.batch_size if feeder else batch_size(bare))
    example = feeder.example if feeder else None
    positions = chain_positions(bare, init, num_chains, example)
    check_start(bare, positions, key, example)
    if until is not None:
        check_until(until, keep, positions)
    each_draw = (positions, [bare.kept_model(bare.init_model())] * num_chains)
    program = Program(
        sampler,
        bare,
        keep,
        num_chains=num_chains,
        mesh=mesh,
        room=chunk_room(each_draw, feeder),
        feed_per_chain=feeder is not None and feeder.per_chain,
    )
    plan = Plan(
        program,
        potential,
        key,
        num_steps,
        source,
        store,
        progress,
        callbacks,
        until=until,
        drops_tenth=drops_tenth,
    )
    begun = time.perf_counter()
    chains = program.start_at(key, positions)
    return run_plan(plan, chains, feeder, time.perf_counter() - begun)


def drive(
    program: Program,
    chains: Chains,
    num_steps: int,
    *,
    key: Array,
    store: Store | str | Path | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    keep_going: bool = False,
    until: Effective | None = None,
) -> Run:
    """Run a program from started chains, as :func:`tacthmc.sample` does.

    It is for chains with individual starts: each with its own key, or picked from another run. With
    ``keep_going`` the run continues for the other chains after one has failed. The warm-up is the
    ``after`` of the program's :class:`tacthmc.Keep`, also with ``until``.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> program = Program(tacthmc.sgnht(0.1), target, Keep(every=10), num_chains=2)
    >>> keys = jax.random.split(jax.random.key(0), 2)
    >>> chains = program.start(keys, jnp.zeros(3))
    >>> drive(program, chains, 1_000, key=jax.random.key(0), progress=False).draws.shape
    (2, 100, 3)
    """
    checks.instance("program", program, Program, "a tacthmc.Program")
    checks.whole("num_steps", num_steps, 1)
    if store is not None:
        store = as_store(store, program.shape.every)
    plan = Plan(
        program,
        program.potential,
        checks.key("key", key),
        num_steps,
        store=store,
        progress=progress,
        callbacks=callbacks,
        keep_going=keep_going,
        is_driven=True,
        until=until,
    )
    check_steps(plan.total, int(np.max(np.asarray(chains.each.state.step))))
    if until is not None:
        check_until(until, program.keep, chains.each.state.position)
    return run_plan(plan, chains, None)


def run_plan(
    plan: Plan, chains: Chains, feeder: Feeder | None, compile_seconds: float = 0.0
) -> Run:
    """Run a plan from chains that have made no step."""
    if plan.store is None:
        record = MemoryRecord(plan.num_chains)
        goal = None if plan.until is None else Goal(plan, chains)
        driver = Driver(plan, chains, record, feeder, compile_seconds=compile_seconds, goal=goal)
        return plan.result(record, driver.run())
    folder, kept = new_folder(plan, chains, feeder)
    return run_in_folder(plan, folder, kept, chains, feeder, None, compile_seconds=compile_seconds)


def _first(sampler: Any, num_chains: Any) -> tuple[Any, int]:
    """The first of several samplers, and the number of chains."""
    if isinstance(sampler, (list, tuple)):
        if not sampler:
            raise ValueError("sampler is an empty list; expected a sampler for each chain")
        checks.instance("sampler[0]", sampler[0], Sampler, "one of the package's samplers")
        return sampler[0], len(sampler) if num_chains == 1 else num_chains
    checks.instance("sampler", sampler, Sampler, "one of the package's samplers, or a list of them")
    checks.whole("num_chains", num_chains, 1)
    return sampler, num_chains


def _checked_keep(keep: Any, sampler: Any, potential: Potential, num_steps: int | None) -> Keep:
    keep = Keep() if keep is None else keep
    checks.instance("keep", keep, Keep, "a tacthmc.Keep, such as Keep(every=20)")
    keep = keep.with_defaults(sampler, num_steps)
    keep.check(sampler, potential)
    if keep.after is not None and num_steps is not None and keep.after >= num_steps:
        raise ValueError(
            f"Keep.after ({keep.after}) must be less than num_steps ({num_steps}): nothing would be"
            " kept"
        )
    return keep


def _mesh_of_cores(potential: Potential, init: Any, num_chains: int, key: Array) -> Mesh | None:
    """The mesh of a run without one: over CPU cores, if there are several."""

    def batches(ways: int) -> bool:
        first = chain_positions(potential, init, num_chains)
        # A model state is updated from the whole batch at once.
        own = potential.for_chain(0)
        if own.init_model() is not None:
            return False
        one = jax.tree.map(lambda x: x[0], first)
        return gradient_cost(own, own.batches.init(key), one, None).spreads_batches(ways)

    return mesh_of_cores(num_chains, batch_size(potential), batches)
