"""``sample``: run chains, tuning their sampler first where it has no numbers yet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc.dynamics._sampler import Sampler
from tacthmc.potentials._base import Potential
from tacthmc.potentials._subset import subset
from tacthmc.run._arguments import check_progress
from tacthmc.run._plan import Callback
from tacthmc.run._result import Run
from tacthmc.run._sample import run_chains
from tacthmc.run._start import chain_positions, check_start
from tacthmc.samplers._untuned import Untuned
from tacthmc.tuning._first import tuned_first
from tacthmc.tuning._warmup import check_tunable


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
            ``tact()``: then short runs choose them first (:func:`tacthmc.tune`), say so, and
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
        sampled: which leaves of ``init`` to sample (see :func:`tacthmc.potentials.subset`); the others
            stay fixed, common to all chains, and are None in the draws.
        init_per_chain: whether ``init`` has a leading chain axis, where that is to be said.
        store: a new folder to keep the run in: draws and statistics stream to it, and a run
            that was interrupted in any way goes on with :func:`tacthmc.resume`.
        checkpoint_seconds: with a store, no more than this is ever computed again.
        checkpoint_steps: the same in steps; both may be given.
        mesh: devices to spread chains (axis ``chains``) and each batch's examples (axis
            ``batch``) over: ``jax.make_mesh((4, 2), ("chains", "batch"))``. By default one
            device; on a CPU as many cores as :func:`tacthmc.use_cpu_devices` was called for.
        progress: show a live display; by default in a terminal, elsewhere a line a minute.
        callbacks: functions called with a :class:`tacthmc.run.Snapshot` after each chunk of about
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
    if isinstance(sampler, Untuned):
        checks.instance(
            "potential", potential, Potential, "made by tacthmc.potential or .posterior"
        )
        checks.whole("num_chains", num_chains, 1)
        check_progress(progress)
        if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
            key = jax.random.wrap_key_data(jnp.asarray(key))
        if sampled is not None:
            potential, init = subset(potential, init, sampled)
            sampled = None
        check_tunable(potential)
        starts = chain_positions(potential, init, num_chains, init_per_chain)
        check_start(potential, starts, key)
        sampler, init = tuned_first(key, sampler, potential, starts, progress)
        init_per_chain = True
    return run_chains(
        key,
        sampler,
        potential,
        init,
        num_steps,
        num_chains,
        num_warmup=num_warmup,
        keep=keep,
        sampled=sampled,
        init_per_chain=init_per_chain,
        store=store,
        checkpoint_seconds=checkpoint_seconds,
        checkpoint_steps=checkpoint_steps,
        mesh=mesh,
        progress=progress,
        callbacks=callbacks,
    )
