"""``sample``: begin a run."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import checks
from tacthmc.cores import mesh_of_cores
from tacthmc.devices import check_batch, checked_mesh
from tacthmc.hosts import together
from tacthmc.part import part
from tacthmc.potential import Potential
from tacthmc.run.arguments import check_callbacks, check_checkpoints, check_progress, one_sampler
from tacthmc.run.chunk import Shape
from tacthmc.run.drive import Drive
from tacthmc.run.feed import Feeder
from tacthmc.run.plan import Callback, Plan, batch_size, chunk_rows, without_source
from tacthmc.run.record import MemoryRecord
from tacthmc.run.result import Run
from tacthmc.run.session import finished, new_folder, recorded, started
from tacthmc.run.start import chain_positions, check_start
from tacthmc.samplers.base import Sampler
from tacthmc.tuning.untuned import Untuned
from tacthmc.work import gradient_work


def sample(
    key: Array,
    sampler: Sampler | Sequence[Sampler] | Untuned,
    potential: Potential,
    init: Any,
    num_steps: int,
    num_chains: int = 1,
    *,
    num_warmup: int | None = None,
    keep: Literal["plateau", "all", "nothing"] = "plateau",
    sampled: Any = None,
    init_per_chain: bool | None = None,
    store: str | Path | None = None,
    checkpoint_seconds: float | None = 120.0,
    checkpoint_steps: int | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Run chains and keep their draws at unit temperature.

    Args:
        key: a key; chain i's random numbers depend on it and on i alone, however many other
            chains run and on however many devices. (Not so with ``impl="rbg"``, a faster
            generator on some accelerators whose numbers depend on the number of chains.)
        sampler: any of the package's samplers or optimisers; or a list with one per chain that
            differ in their numbers only, all in one compiled program. Or one without its numbers,
            ``tact()``: then short runs choose them first (:func:`tacthmc.warmup`), say so, and
            leave each chain where it starts from; ``run.tuning`` has what they chose.
        potential: the energy to sample, exp(−U).
        init: one position for all chains, or one with a leading axis of ``num_chains``. Where
            both readings make sense, a vector is one position and a matrix one per row.
        num_steps: steps per chain, warm-up included, rounded up to a whole number of
            ``sampler.keep_every``.
        num_chains: how many chains run, in one compiled program; as many as there are samplers
            where those are a list.
        num_warmup: the first steps, never kept; a tenth of ``num_steps`` by default.
        keep: "plateau" keeps draws at unit temperature only; "all" those of all temperatures,
            with ``run.log_weights`` that turn them into draws from the posterior. The weights
            need the full-data energy, at every ``keep_every``-th step. "nothing" hands draws at
            unit temperature to the callbacks and forgets them, for models whose draws would
            fill the memory: the run then has its trace only.
        sampled: which leaves of ``init`` to sample (see :func:`tacthmc.part`); the others
            stay fixed, common to all chains, and are None in the draws.
        init_per_chain: whether ``init`` has a leading chain axis, where that is to be said.
        store: a new folder to keep the run in: draws and statistics stream to it, and a run
            that was interrupted in any way goes on with :func:`tacthmc.resume`.
        checkpoint_seconds: with a store, no more than this is ever computed again.
        checkpoint_steps: the same in steps; both may be given.
        mesh: devices to spread chains (axis ``chains``) and each batch's examples (axis
            ``batch``) over: ``jax.make_mesh((4, 2), ("chains", "batch"))``. By default one
            device; on a CPU as many cores as :func:`tacthmc.use_cores` was called for.
        progress: show a live display; by default in a terminal, elsewhere a line a minute.
        callbacks: functions called with a :class:`tacthmc.Snapshot` after each chunk of about
            a second; one that returns True ends the run there.

    A chain that is no longer finite stops the run at the end of its chunk with a
    ``DivergedWarning``; all draws up to there are kept, and ``run.failures`` says more.
    Ctrl-C stops the run after its chunk and returns it; a second one stops at once.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = sample(jax.random.key(0), tacthmc.sghmc(0.1), target, jnp.zeros(2), 5_000, 4)
    >>> run.draws.shape
    (4, 90, 2)
    """
    swept = False
    if not isinstance(sampler, Untuned):
        sampler, swept, num_chains = one_sampler(sampler, num_chains)
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 1)
    num_warmup = num_steps // 10 if num_warmup is None else num_warmup
    checks.whole("num_warmup", num_warmup, 0)
    if num_warmup >= num_steps:
        raise ValueError(
            f"num_warmup ({num_warmup}) must be less than num_steps ({num_steps}): nothing"
            " would be kept"
        )
    _check_keep(keep, sampler, potential, store is not None)
    check_callbacks(callbacks)
    check_progress(progress)
    if store is not None and not isinstance(store, (str, Path)):
        raise TypeError(f"store must be the path of a new folder; got {store!r}")
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    if key.shape != ():
        raise ValueError(f"key must be one key, shape (); got an array of keys, shape {key.shape}")
    if sampled is not None:
        potential, init = part(potential, init, sampled)
    if isinstance(sampler, Untuned):
        # Imported here, since a warm-up samples.
        from tacthmc.tuning.first import tuned_first
        from tacthmc.tuning.warmup import check_tunable

        check_tunable(potential)
        starts = chain_positions(potential, init, num_chains, init_per_chain)
        check_start(potential, starts, key)
        sampler, init = tuned_first(key, sampler, potential, starts, progress)
        init_per_chain = True
        sampler, swept, num_chains = one_sampler(sampler, num_chains)
    check_checkpoints(checkpoint_seconds, checkpoint_steps, sampler.keep_every)
    whole_potential = potential
    potential, source = without_source(potential)
    if mesh is None:

        def batches(ways: int) -> bool:
            first = chain_positions(potential, init, num_chains, init_per_chain)
            # What a model's state learns of a batch, it learns of the whole.
            own = potential.of_chain(0)
            if own.init_model() is not None:
                return False
            one = jax.tree.map(lambda x: x[0], first)
            return gradient_work(own, own.init_data(key), one, None).spreads_batches(ways)

        mesh = mesh_of_cores(num_chains, batch_size(potential), batches)
    mesh = checked_mesh(mesh, num_chains)
    feeder = None
    if source is not None:
        feeder = together(lambda: Feeder(source, num_chains, sampler.keep_every, mesh, None))
    check_batch(mesh, feeder.batch_size if feeder else batch_size(potential))
    fed = feeder.example if feeder else None
    positions = chain_positions(potential, init, num_chains, init_per_chain, fed)
    check_start(potential, positions, key, fed)
    each_draw = (positions, [potential.kept_model(potential.init_model())] * num_chains)
    plan = Plan(
        sampler=sampler,
        swept=swept,
        potential=potential,
        key=key,
        num_chains=num_chains,
        num_steps=num_steps,
        num_warmup=num_warmup,
        shape=Shape(chunk_rows(each_draw, feeder), keep == "all"),
        mesh=mesh,
        source=source,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_steps=checkpoint_steps,
        progress=progress,
        callbacks=tuple(callbacks),
        forget=keep == "nothing",
    )
    plan = plan.placed()
    begun = time.perf_counter()
    chains, keys = started(plan, positions)
    compile_seconds = time.perf_counter() - begun
    if store is None:
        record = MemoryRecord(num_chains)
        outcome = Drive(plan, keys, chains, record, feeder, compile_seconds=compile_seconds).run()
        return finished(plan, whole_potential, record, outcome)
    folder = new_folder(store, plan, whole_potential, chains, keys, feeder)
    return recorded(
        plan, whole_potential, folder, keys, chains, feeder, None, compile_seconds=compile_seconds
    )


def _check_keep(keep: str, sampler: Any, potential: Potential, stored: bool) -> None:
    if keep not in ("plateau", "all", "nothing"):
        raise ValueError(f"keep must be 'plateau', 'all' or 'nothing'; got {keep!r}")
    if keep == "nothing" and stored:
        raise ValueError("keep='nothing' forgets draws, and a store is there to have them")
    if keep == "all" and not potential.has_energy:
        raise ValueError(
            "keep='all' weighs draws by their full-data energy, which this potential does not"
            " have (a mini-batch's energy would give wrong weights): use keep='plateau', or a"
            " tacthmc.posterior with resident data and no model_state"
        )
    each = sampler if isinstance(sampler, Sequence) else [sampler]
    if keep == "all" and not all(getattr(one, "has_law_when_hot", True) for one in each):
        raise ValueError(
            "keep='all' weighs draws by the law of all of θ at every temperature, and here ξ is led"
            " while a part of θ stands still (sweep with heated): use keep='plateau'"
        )
