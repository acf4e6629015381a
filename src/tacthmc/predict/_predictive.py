"""A running average of predictions, whose memory does not grow with the draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc.predict._classifier import Logits, logits_of
from tacthmc.predict._prediction import Prediction, pooled
from tacthmc.predict._softmax import (
    check_code,
    chosen_batch_size,
    chosen_draws_at_once,
    number_of_draws,
    summed,
)
from tacthmc.run._monitor import Snapshot


class _Sums:
    """Weighted sums over the draws of one chain, or of all chains."""

    def __init__(self) -> None:
        # In double precision on the host, because thousands of small numbers are added.
        self.probabilities: np.ndarray | float = 0.0
        self.entropies: np.ndarray | float = 0.0
        self.weight = 0.0

    def prediction(self) -> Prediction:
        assert isinstance(self.probabilities, np.ndarray)
        assert isinstance(self.entropies, np.ndarray)
        return Prediction(
            self.probabilities / self.weight, self.entropies / self.weight, self.weight
        )


class Predictive:
    r"""The running average of predictions over draws.

    .. math:: p(y \mid x) = \frac{1}{\sum_k w_k}\sum_k w_k\,\mathrm{softmax}\,f(x; \theta_k)_y

    Add draws with :meth:`add`, or pass it to ``tacthmc.sample(…, callbacks=[predictive])``, which
    adds every draw when it is kept; ``predictive.prediction`` is the average so far.
    :func:`tacthmc.predict.over_run` does the same for a finished run.

    Args:
        logits: a function of a draw and inputs (and of a state, for a model that has one) that
            returns scores (n, classes), or an object with such a method ``logits``.
        inputs: n inputs.
        per_chain: keep a sum for each chain, for ``predictive.chains``.
        batch_size: the number of inputs evaluated at a time; by default 500, or 1,000 on an
            accelerator.
        draws_at_once: the number of draws evaluated at a time; by default one, or 32 on an
            accelerator.

    >>> import jax, jax.numpy as jnp
    >>> from tacthmc.paper.networks import mlp
    >>> model = mlp(inputs=4, hidden=3, classes=2)
    >>> draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    >>> predictive = Predictive(model, jnp.ones((7, 4)))
    >>> for k in range(5):
    ...     predictive.add(jax.tree.map(lambda x: x[k : k + 1], draws))
    >>> predictive.prediction.probabilities.shape, predictive.prediction.weight
    ((7, 2), 5.0)
    """

    def __init__(
        self,
        logits: Logits,
        inputs: Any,
        *,
        per_chain: bool = False,
        batch_size: int | None = None,
        draws_at_once: int | None = None,
    ):
        """Begin without draws."""
        self._logits = logits_of(logits)
        self._batch_size = chosen_batch_size(batch_size)
        checks.whole("batch_size", self._batch_size, 1)
        self._draws_at_once = chosen_draws_at_once(draws_at_once)
        checks.whole("draws_at_once", self._draws_at_once, 1)
        checks.flag("per_chain", per_chain)
        self._inputs = checks.array("inputs", inputs)
        if not self._inputs.shape or not self._inputs.shape[0]:
            raise ValueError("inputs is empty; expected at least one")
        self._per_chain = per_chain
        self._sums: dict[int, _Sums] = {}

    def add(self, draws: Any, *, weights: Any = None, states: Any = None, chain: int = 0) -> None:
        """Add draws, a pytree with a leading axis of draws.

        Args:
            draws: the draws.
            weights: the weight of each draw; by default all are equal.
            states: the model state of each draw, if there is one.
            chain: the number of their chain.
        """
        count = number_of_draws(draws)
        weights = np.ones(count) if weights is None else np.asarray(weights, float)
        if weights.shape != (count,) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError(
                f"weights must be {count} finite numbers >= 0, one a draw; got shape"
                f" {weights.shape}"
            )
        if not self._sums:
            check_code(self._logits, draws, states, self._inputs)
        sums = self._sums.setdefault(chain if self._per_chain else 0, _Sums())
        for begin in range(0, count, self._draws_at_once):
            size = min(self._draws_at_once, _power_of_two(count - begin))
            some, some_states = (_block(tree, begin, size) for tree in (draws, states))
            # A short block is filled up with draws of weight zero, so that a few compiled programs
            # are enough for all sizes.
            part = np.zeros(size)
            part[: count - begin] = weights[begin : begin + size]
            found = summed(
                self._logits,
                some,
                some_states,
                jnp.asarray(part, jnp.float32),
                self._inputs,
                self._batch_size,
                size,
            )
            probabilities, entropies = (np.asarray(x, float) for x in found)
            sums.probabilities = sums.probabilities + probabilities
            sums.entropies = sums.entropies + entropies
            sums.weight += float(part.sum())

    def __call__(self, snapshot: Snapshot) -> None:
        """Add the draws of a chunk, as a callback of a run."""
        for chain, kept in snapshot.draws.items():
            if kept.full_energy is not None:
                raise ValueError(
                    "draws of all temperatures (Keep(temperatures='all')) have weights only at the"
                    " end of the run: use tacthmc.predict.over_run then"
                )
            if number_of_draws(kept.position):
                self.add(kept.position, states=kept.model, chain=chain)

    @property
    def prediction(self) -> Prediction:
        """The prediction of all draws so far."""
        return pooled(list(self.chains.values()))

    @property
    def chains(self) -> dict[int, Prediction]:
        """The prediction of each chain by number; without ``per_chain`` that of all under 0."""
        found = {c: s.prediction() for c, s in sorted(self._sums.items()) if s.weight > 0}
        if not found:
            raise ValueError("no draws to average over yet")
        return found


def _power_of_two(count: int) -> int:
    """The smallest power of two that is at least ``count``."""
    return 1 << (count - 1).bit_length()


def _block(tree: Any, begin: int, size: int) -> Any:
    def part(leaf: Any) -> Any:
        rows = np.asarray(leaf[begin : begin + size])
        return np.concatenate([rows, rows[:1].repeat(size - len(rows), 0)])

    return jax.tree.map(part, tree)
