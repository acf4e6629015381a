"""The prediction of a finished run, in memory or on disk."""

from collections.abc import Callable
from typing import Any

from tacthmc import _checks as checks
from tacthmc.potentials._subset import SubsetPotential
from tacthmc.predict._classifier import Logits, logits_of
from tacthmc.predict._predictive import Predictive
from tacthmc.run._result import Run


def over_run(
    run: Run,
    logits: Logits,
    inputs: Any,
    *,
    per_chain: bool = False,
    batch_size: int | None = None,
    draws_at_once: int | None = None,
    block: int = 64,
) -> Predictive:
    """Average the predictions of all draws of a run, with their weights.

    Draws are read in blocks, so those of a run on disk (:func:`tacthmc.load`) are never all in
    memory.

    Args:
        run: the run.
        logits: as for :class:`tacthmc.predict.Predictive`.
        inputs: n inputs.
        per_chain: whether ``chains`` of the result has a prediction for each chain.
        batch_size: as for :class:`tacthmc.predict.Predictive`.
        draws_at_once: as for :class:`tacthmc.predict.Predictive`.
        block: the number of draws read at a time.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda w: 0.5 * jnp.sum(w**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sghmc(0.1), target, jnp.zeros(2), 2_000, 3)
    >>> found = over_run(run, lambda w, x: x[:, None] * w, jnp.arange(3.0), per_chain=True)
    >>> found.prediction.probabilities[0].tolist(), len(found.chains)
    ([0.5, 0.5], 3)
    """
    checks.instance("run", run, Run, "a run, from tacthmc.sample or tacthmc.load")
    function = logits_of(logits)
    if _is_part(run):
        function = _of_the_whole(run, function)
    predictive = Predictive(
        function, inputs, per_chain=per_chain, batch_size=batch_size, draws_at_once=draws_at_once
    )
    for chain, kept, weights in run.blocks(block):
        predictive.add(kept.position, weights=weights, states=kept.model, chain=chain)
    return predictive


def _is_part(run: Run) -> bool:
    """Whether draws are a part of the position, and the rest is known."""
    return run.program_is_known and isinstance(run.potential, SubsetPotential)


def _of_the_whole(run: Run, logits: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, of the sampled leaves alone."""
    return lambda draw, *rest: logits(run.whole(draw), *rest)
