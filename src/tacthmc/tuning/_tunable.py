"""What tuning needs of a potential: that it can draw its own batches, for one chain or many."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.potentials import Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.potentials._gathered import gathered, with_innermost
from tacthmc.run._feed import Stream

MIN_BATCHES, MAX_EXAMPLES, MAX_BYTES = 16, 50_000, 1 << 27
"""The number of batches of a stream that are gathered at least, if it has so many, and the number
and the size of examples at which that ends."""


def tunable(potential: Potential, progress: bool | None = None) -> Potential:
    """The potential, or one like it that draws its own batches. Others raise an error.

    From the loader of a streamed posterior, examples are gathered into memory. Tuning draws its
    batches from them. The run begins the loader anew, so no batch is lost.
    """
    if potential.traits.num_chains is not None:
        raise ValueError(
            "tuning is for one potential, and this one differs from chain to chain: tune on that of"
            " one chain, tacthmc.tune(key, sampler, potential.for_chain(0), init)"
        )
    if potential.traits.remembers:
        warnings.warn(
            "tuning measures the noise of the energy without the table of losses of a chain"
            " (loss_table), so ξ gets heavier than necessary: try a larger step_size of the"
            " tempering",
            stacklevel=3,
        )
    inner = innermost(potential)
    if not isinstance(inner, StreamedPosterior):
        return potential
    if progress is not False and jax.process_index() == 0:
        print("tuning: gathering examples from the loader", flush=True)
    examples, batch_size = _gathered_examples(inner)
    return with_innermost(potential, gathered(inner, examples, batch_size))


def _gathered_examples(streamed: StreamedPosterior) -> tuple[Any, int]:
    """Examples of the stream of the first chain, and the size of a batch."""
    assert streamed.source is not None
    loader = streamed.source.open(0)
    if not streamed.source.per_chain and iter(loader) is loader:
        raise ValueError(
            "loader must be an iterable that can be started again, such as a list, a DataLoader or"
            " a function of the chain's number, because tuning reads from it before the run; got"
            f" {type(loader).__name__}, which can be read once"
        )
    stream = Stream(loader)
    batches = [stream.take()]
    leaves = jax.tree.leaves(batches[0])
    batch_size, size = leaves[0].shape[0], sum(x.nbytes for x in leaves)
    wanted = max(MIN_BATCHES, min(MAX_EXAMPLES // batch_size, MAX_BYTES // max(size, 1)))
    # Not more than the loader goes through once.
    wanted = max(1, min(wanted, streamed.num_data // batch_size))
    batches += [stream.take() for _ in range(wanted - 1)]
    return jax.tree.map(lambda *x: jnp.asarray(np.concatenate(x)), *batches), batch_size
