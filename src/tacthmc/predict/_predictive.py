"""A prediction that grows with the draws, in memory that does not."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc.predict._classifier import Logits, logits_of
from tacthmc.predict._prediction import Prediction, pooled
from tacthmc.predict._softmax import draws_together, inputs_together, summed
from tacthmc.run._monitor import Snapshot


class _Sums:
    """Of one chain, or of all."""

    def __init__(self) -> None:
        # In double precision, on the host: thousands of small numbers are added up.
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
    r"""The running average of predictions over draws, as they come.

    .. math:: p(y \mid x) = \frac{1}{\sum_k w_k}\sum_k w_k\,\mathrm{softmax}\,f(x; \theta_k)_y

    Give it draws with :meth:`add`; or a whole run, :func:`tacthmc.predict.over_run`; or give it to
    ``tacthmc.sample(…, callbacks=[predictive])``, which hands it every draw as it is kept. Then
    ``predictive.prediction`` is that of all draws so far.

    Args:
        logits: a model (:mod:`tacthmc.paper.networks`), or a function of a draw and inputs that returns
            scores (n, classes); for a model with a state, of draw, inputs and state.
        inputs: n inputs.
        per_chain: keep a sum for each chain, for ``predictive.chains``.
        batch_size: how many inputs at a time; by default 500 on a CPU and 1,000 elsewhere.
        together: how many draws at a time; by default one on a CPU and 32 elsewhere.

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
        together: int | None = None,
    ):
        """Nothing yet."""
        self._logits = logits_of(logits)
        self._batch_size = inputs_together(batch_size)
        checks.whole("batch_size", self._batch_size, 1)
        self._together = draws_together(together)
        checks.whole("together", self._together, 1)
        self._inputs = jnp.asarray(inputs)
        if not self._inputs.shape or not self._inputs.shape[0]:
            raise ValueError("inputs is empty; expected at least one")
        self._per_chain = per_chain
        self._sums: dict[int, _Sums] = {}

    def add(self, draws: Any, *, weights: Any = None, states: Any = None, chain: int = 0) -> None:
        """Take in draws: a pytree with a leading axis of draws.

        Args:
            draws: the draws.
            weights: of each draw, all alike by default.
            states: the model's state with each draw, where it has one.
            chain: whose draws they are.
        """
        count = number_of_draws(draws)
        weights = np.ones(count) if weights is None else np.asarray(weights, float)
        if weights.shape != (count,) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError(
                f"weights must be {count} finite numbers >= 0, one a draw; got shape"
                f" {weights.shape}"
            )
        sums = self._sums.setdefault(chain if self._per_chain else 0, _Sums())
        for begin in range(0, count, self._together):
            size = min(self._together, _power_of_two(count - begin))
            some, some_states = (_block(tree, begin, size) for tree in (draws, states))
            # A short block is filled up with draws that count nothing: a few programs for all.
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
        """Take in what a run has kept since the last time, as a callback."""
        for chain, kept in snapshot.draws.items():
            if kept.full_energy is not None:
                raise ValueError(
                    "draws of all temperatures (keep='all') have their weights at the run's end"
                    " only: use tacthmc.predict.over_run then"
                )
            if number_of_draws(kept.position):
                self.add(kept.position, states=kept.model, chain=chain)

    @property
    def prediction(self) -> Prediction:
        """That of all draws so far."""
        return pooled(list(self.chains.values()))

    @property
    def chains(self) -> dict[int, Prediction]:
        """Each chain's own, by number (all under 0 without ``per_chain``)."""
        found = {c: s.prediction() for c, s in sorted(self._sums.items()) if s.weight > 0}
        if not found:
            raise ValueError("no draws to average over yet")
        return found


def number_of_draws(draws: Any) -> int:
    """The length of the leading axis that all leaves share."""
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(draws)}
    if len(counts) != 1 or counts == {()}:
        raise ValueError(
            "draws must be parameters that share a leading axis of draws; got leaves of shape"
            f" {jax.tree.map(np.shape, draws)}"
        )
    return next(iter(counts))[0]


def _power_of_two(count: int) -> int:
    """The least that is no less."""
    return 1 << (count - 1).bit_length()


def _block(tree: Any, begin: int, size: int) -> Any:
    def part(leaf: Any) -> Any:
        rows = np.asarray(leaf[begin : begin + size])
        return np.concatenate([rows, rows[:1].repeat(size - len(rows), 0)])

    return jax.tree.map(part, tree)
