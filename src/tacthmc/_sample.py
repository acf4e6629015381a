"""``sample``: run chains, and tune the sampler first if its numbers are not set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax.sharding import Mesh
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run import Effective, Keep, PerChain, Run
from tacthmc.run._effective import check_until
from tacthmc.run._plan import Callback, check_callbacks, check_progress
from tacthmc.run._sample import run_chains
from tacthmc.run._start import chain_positions, check_start
from tacthmc.samplers import Untuned, UntunedReplicas
from tacthmc.store import Store
from tacthmc.tuning._first import tuned_first
from tacthmc.tuning._tunable import tunable


def sample(
    key: Array,
    sampler: Sampler | Sequence[Sampler] | Untuned | UntunedReplicas,
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
    """Run chains and keep their draws at unit temperature.

    Args:
        key: a key. The random numbers of chain i depend on the key and on i alone, not on the
            number of chains or devices. (``impl="rbg"``, a faster generator on some accelerators,
            is the exception: its numbers depend on the number of chains.)
        sampler: any sampler or optimizer of the package; or a list of them, one for each chain,
            that differ only in their numbers and run in one compiled program. A sampler whose
            numbers are not set, ``tact()`` or ``replica_exchange()``, is tuned by short runs first
            (:func:`tacthmc.tune`). These say so, and move each chain to a better start;
            ``run.tuning`` lists what they chose.
        potential: the energy to sample, exp(−U). To sample some leaves of a pytree and hold the
            others fixed, see :func:`tacthmc.potentials.subset`.
        init: one position for all chains, or one with a leading axis of ``num_chains``. Where
            both readings are possible, a vector is one position and a matrix is one position per
            row. :class:`tacthmc.PerChain` states that there is one for each chain.
        num_steps: steps per chain, rounded up to a multiple of ``keep.every``. With ``until`` they
            are the most.
        num_chains: how many chains run, in one compiled program. With a list of samplers, its
            length.
        keep: which draws are kept (:class:`tacthmc.Keep`). The default is those at unit
            temperature at every 50th step, or as often as tuning chose, after the first tenth of
            the run.
        store: a new folder for the run, or a :class:`tacthmc.Store` with one. Draws and
            statistics stream to it, and :func:`tacthmc.resume` continues a run that was
            interrupted in any way.
        mesh: devices to spread chains (axis ``chains``) and the examples of each batch (axis
            ``batch``) over: ``jax.make_mesh((4, 2), ("chains", "batch"))``. The default is one
            device; on a CPU, as many cores as :func:`tacthmc.use_cpu_devices` was called with.
        progress: whether to show a live display. By default there is one in a terminal, and a
            line a minute elsewhere.
        callbacks: functions called with a :class:`tacthmc.run.Snapshot` after each chunk of about
            a second. A callback that returns True ends the run there. A
            :class:`tacthmc.run.Observer` keeps what it gathered when a run is resumed.
        until: a condition that ends the run, ``tacthmc.effective(400)`` for 400 effective draws
            (:func:`tacthmc.effective`). ``run.until`` says whether it was reached. The default
            warm-up is then the first tenth of the steps that were made; callbacks see its draws,
            too.

    A chain that is no longer finite stops the run at the end of the chunk with a
    ``DivergedWarning``. All earlier draws are kept, and ``run.failures`` says more. Ctrl-C stops
    the run after the current chunk and returns it; a second Ctrl-C stops at once.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = sample(jax.random.key(0), tacthmc.sghmc(0.1), target, jnp.zeros(2), 5_000, 4)
    >>> run.draws.shape
    (4, 90, 2)
    """
    if isinstance(sampler, (Untuned, UntunedReplicas)):
        checks.instance(
            "potential", potential, Potential, "made by tacthmc.potential or .posterior"
        )
        checks.whole("num_chains", num_chains, 1)
        check_progress(progress)
        check_callbacks(callbacks)
        key = checks.key("key", key)
        drawable = tunable(potential, progress)
        starts = chain_positions(drawable, init, num_chains)
        check_start(drawable, starts, key)
        if until is not None:
            check_until(until, keep or Keep(), starts)
        sampler, starts = tuned_first(key, sampler, drawable, starts, num_steps, progress)
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
        until=until,
    )
