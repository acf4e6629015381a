"""``sample``: run chains, tuning their sampler first where it has no numbers yet."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run import Keep, PerChain, Run
from tacthmc.run._plan import Callback, check_callbacks, check_progress
from tacthmc.run._sample import one_key, run_chains
from tacthmc.run._start import chain_positions, check_start
from tacthmc.samplers import Untuned
from tacthmc.store import Store
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
    keep: Keep | None = None,
    store: Store | str | Path | None = None,
    mesh: Mesh | None = None,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Run chains and keep their draws at unit temperature.

    Args:
        key: a key; chain i's random numbers depend on it and on i alone, however many other
            chains run and on however many devices. (Not so with ``impl="rbg"``, a faster
            generator on some accelerators whose numbers depend on the number of chains.)
        sampler: any of the package's samplers or optimizers; or a list with one per chain that
            differ in their numbers only, all in one compiled program. Or one without its numbers,
            ``tact()``: then short runs choose them first (:func:`tacthmc.tune`), say so, and
            leave each chain where it starts from; ``run.tuning`` has what they chose.
        potential: the energy to sample, exp(−U). To sample some leaves of a pytree and hold the
            others fixed, see :func:`tacthmc.potentials.subset`.
        init: one position for all chains, or one with a leading axis of ``num_chains``. Where
            both readings make sense, a vector is one position and a matrix one per row;
            :class:`tacthmc.PerChain` says that there is one for each chain.
        num_steps: steps per chain, rounded up to a whole number of ``keep.every``.
        num_chains: how many chains run, in one compiled program; as many as there are samplers
            where those are a list.
        keep: which draws are kept (:class:`tacthmc.Keep`); by default those at unit temperature
            at every 50th step, or as often as tuning chose, after the first tenth.
        store: a new folder to keep the run in, or a :class:`tacthmc.Store` of it: draws and
            statistics stream to it, and a run that was interrupted in any way goes on with
            :func:`tacthmc.resume`.
        mesh: devices to spread chains (axis ``chains``) and each batch's examples (axis
            ``batch``) over: ``jax.make_mesh((4, 2), ("chains", "batch"))``. By default one
            device; on a CPU as many cores as :func:`tacthmc.use_cpu_devices` was called for.
        progress: show a live display; by default in a terminal, elsewhere a line a minute.
        callbacks: functions called with a :class:`tacthmc.run.Snapshot` after each chunk of about
            a second; one that returns True ends the run there. A
            :class:`tacthmc.run.Observer` remembers what it gathered when a run is resumed.

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
        check_callbacks(callbacks)
        key = one_key(key)
        check_tunable(potential)
        starts = chain_positions(potential, init, num_chains)
        check_start(potential, starts, key)
        sampler, starts = tuned_first(key, sampler, potential, starts, progress)
        init = PerChain(starts)
    return run_chains(
        key,
        sampler,
        potential,
        init,
        num_steps,
        num_chains,
        keep=keep,
        store=store,
        mesh=mesh,
        progress=progress,
        callbacks=callbacks,
    )
