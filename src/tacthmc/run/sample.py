"""The driver: chains by vmap, one compiled program in chunks, everything kept in memory."""

import time
import warnings
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from tacthmc import checks
from tacthmc._typing import Position
from tacthmc.part import PartPotential, part
from tacthmc.positions import dimension
from tacthmc.potential import Potential
from tacthmc.run.chunk import Chain, chain_axes, run_intervals, start_chain
from tacthmc.run.collect import Collector
from tacthmc.run.failure import DivergedWarning
from tacthmc.run.progress import Progress
from tacthmc.run.result import Run
from tacthmc.run.start import chain_positions, check_start
from tacthmc.samplers.base import Sampler

# Candidates for draws of one chunk are held on the device: this many numbers at most.
CHUNK_NUMBERS = 1 << 22
CHUNK_INTERVALS = 1000


@partial(eqx.filter_jit, donate="none")
def _start(
    sampler: Sampler, potential: Potential, keys: Array, positions: Position
) -> tuple[Chain, Array]:
    # Two streams a chain: one to start, one for its steps.
    pairs = jax.vmap(jax.random.split)(keys)
    start = jax.vmap(
        lambda key, position: start_chain(key, sampler, potential, position),
        out_axes=chain_axes(potential),
    )
    return start(pairs[:, 0], positions), pairs[:, 1]


@partial(eqx.filter_jit, donate="none")
def _chunk(
    sampler: Sampler,
    potential: Potential,
    keys: Array,
    chains: Chain,
    count: Int[Array, ""],
    rows: int,
) -> tuple[Chain, Any]:
    axes = chain_axes(potential)
    run = jax.vmap(
        lambda key, chain: run_intervals(sampler, potential, key, chain, count, rows),
        in_axes=(0, axes),
        out_axes=(axes, 0),
    )
    return run(keys, chains)


def sample(
    key: Array,
    sampler: Sampler,
    potential: Potential,
    init: Any,
    num_steps: int,
    num_chains: int = 1,
    *,
    num_warmup: int | None = None,
    sampled: Any = None,
    init_per_chain: bool | None = None,
    progress: bool | None = None,
) -> Run:
    """Run chains and keep their draws at unit temperature.

    Args:
        key: a key; chain i's random numbers depend on it and on i alone.
        sampler: any of the package's samplers or optimisers.
        potential: the energy to sample, exp(−U).
        init: one position for all chains, or one with a leading axis of ``num_chains``. Where
            both readings make sense, a vector is one position and a matrix one per row.
        num_steps: steps per chain, warm-up included, rounded up to a whole number of
            ``sampler.keep_every``.
        num_chains: how many chains run, in one compiled program.
        num_warmup: the first steps, never kept; a tenth of ``num_steps`` by default.
        sampled: which leaves of ``init`` to sample (see :func:`tacthmc.part`); the others
            stay fixed, common to all chains, and are None in the draws.
        init_per_chain: whether ``init`` has a leading chain axis, where that is to be said.
        progress: show a progress bar; by default only in a terminal.

    A chain that is no longer finite stops the run at the end of its chunk with a
    ``DivergedWarning``; all draws up to there are kept, and ``run.failures`` says more.
    Ctrl-C ends the run and returns the chunks that were finished.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = sample(jax.random.key(0), tacthmc.sghmc(0.1), target, jnp.zeros(2), 5_000, 4)
    >>> run.draws.shape
    (4, 90, 2)
    """
    checks.instance("sampler", sampler, Sampler, "one of the package's samplers")
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.whole("num_steps", num_steps, 1)
    checks.whole("num_chains", num_chains, 1)
    num_warmup = num_steps // 10 if num_warmup is None else num_warmup
    checks.whole("num_warmup", num_warmup, 0)
    if num_warmup >= num_steps:
        raise ValueError(
            f"num_warmup ({num_warmup}) must be less than num_steps ({num_steps}): nothing"
            " would be kept"
        )
    if not jnp.issubdtype(jnp.asarray(key).dtype, jax.dtypes.prng_key):
        key = jax.random.wrap_key_data(jnp.asarray(key))
    if sampled is not None:
        potential, init = part(potential, init, sampled)
    positions = chain_positions(potential, init, num_chains, init_per_chain)
    sampler = _traced(sampler)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, jnp.arange(num_chains))
    check_start(potential, positions, keys)

    begun = time.perf_counter()
    chains, step_keys = _start(sampler, potential, keys, positions)
    intervals = -(-num_steps // sampler.keep_every)
    numbers = max(1, dimension(positions))
    rows = max(1, min(CHUNK_INTERVALS, CHUNK_NUMBERS // numbers, intervals))
    collector = Collector(num_chains, num_warmup)
    interrupted, finished = False, chains
    first_chunk = 0.0
    with Progress(intervals * sampler.keep_every, num_chains, progress) as bar:
        done = 0
        try:
            while done < intervals:
                count = min(rows, intervals - done)
                chains, filled = _chunk(
                    sampler, potential, step_keys, chains, jnp.asarray(count), rows
                )
                collector.add(filled, count, chains.health)
                done += count
                finished = chains
                first_chunk = first_chunk or time.perf_counter() - begun
                bar.update(done * sampler.keep_every, collector)
                if collector.failures:
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    for failure in collector.failures:
        warnings.warn(str(failure), DivergedWarning, stacklevel=2)
    rest = potential.rest if isinstance(potential, PartPotential) else None
    return Run(
        sampler=sampler,
        potential=potential,
        key=key,
        rest=rest,
        collected=collector.finished(),
        state=finished.state,
        num_steps=done * sampler.keep_every,
        num_warmup=num_warmup,
        interrupted=interrupted,
        seconds=time.perf_counter() - begun,
        first_chunk_seconds=first_chunk,
    )


def _traced(sampler: Sampler) -> Sampler:
    """Numbers as (weakly typed) arrays, so that other numbers find the same program."""

    def traced(leaf: Any) -> Any:
        if isinstance(leaf, (float, int, np.number)) and not isinstance(leaf, bool):
            return jnp.asarray(leaf)
        return leaf

    return jax.tree.map(traced, sampler)
