"""Modes that minimizations from over-dispersed starts find, and in which a run has no draw."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc import _checks as checks
from tacthmc._positions import scalar_dtype
from tacthmc.run._by_mode import mode_labels
from tacthmc.run._mode_notes import MIN_NOTABLE_SHARE, place_of
from tacthmc.run._result import Run
from tacthmc.tuning._mode_search import search_modes

MAX_STARTS = 16
"""The number of draws at which minimizations begin, beside the over-dispersed starts."""
MIN_GRADIENTS, RUN_SHARE = 30_000, 0.1
"""What a search may take: so many gradients, or a share of those of the run."""
SEARCH_KEY = 2**31 + 6
"""The number that is folded into the key of the run."""


class MissedMode(NamedTuple):
    """A mode without draws."""

    center: np.ndarray
    share: float
    """Its share by Laplace's approximation."""


class MissedModes(NamedTuple):
    """The result of :func:`missed_modes`. ``str`` says it in words."""

    missed: list[MissedMode]
    """The modes without draws, the heaviest first."""
    known: int
    """The number of modes with draws."""
    exhaustive: bool
    """Whether nearly all starts ended in modes that several starts found."""
    gradients: int
    why_not: str = ""
    """Why there was no search, or why it ended early."""
    notes: tuple[str, ...] = ()
    """A warning for each mode without draws, as a summary has it."""

    def __str__(self) -> str:
        if not self.missed and self.why_not:
            return f"modes were not searched: {self.why_not}"
        lines = [f"{self.known} modes with draws, {len(self.missed)} without"]
        if not self.exhaustive:
            lines.append("there may be more: not all starts ended in modes that are known")
        return "\n".join([*lines, *self.notes])


def missed_modes(run: Run, max_gradients: float | None = None) -> MissedModes:
    """Search for modes in which a run has no draw, whatever sampler made it.

    The search is that of ``tacthmc.tact()`` (:func:`search_modes`): it begins at draws of the run
    and far around them. It needs the energy of all data.

    Args:
        run: a run with draws, whose potential is known.
        max_gradients: the most that the search may take, in gradients of a step; by default a tenth
            of those of the run, and at least 30,000.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> wells = tacthmc.potential(lambda x: jnp.sum(20.0 * (x**2 - 1.0) ** 2))
    >>> key, start = jax.random.key(0), jnp.ones(1)
    >>> run = tacthmc.sample(key, tacthmc.sgnht(0.01), wells, start, 5_000, 4)
    >>> found = missed_modes(run)
    >>> found.missed[0].center.round(1).tolist(), round(found.missed[0].share, 1)
    ([-1.0], 0.5)
    """
    checks.instance("run", run, Run, "a run of tacthmc.sample or tacthmc.load")
    if not run.program_is_known:
        return MissedModes([], 0, False, 0, "the potential of this stored run is not known")
    if not run.num_draws:
        return MissedModes([], 0, False, 0, "there are no draws")
    most = max_gradients
    if most is None:
        spent = run.num_steps * run.num_chains * run.sampler.gradients_per_step
        most = max(MIN_GRADIENTS, RUN_SHARE * spent)
    chains = range(min(run.num_chains, MAX_STARTS))
    draws = [run.cold_draw(chain, 0.99) for chain in chains]
    starts = jax.tree.map(lambda *x: jnp.stack(x), *draws)
    with jax.enable_x64(run.x64):
        key = jax.random.fold_in(run.key, SEARCH_KEY)
        search = search_modes(key, run.potential, starts, most)
        if not search.found:
            why = search.why_not or "no start ended in a minimum"
            return MissedModes([], 0, False, search.gradients, why)
        modes = search.modes(scalar_dtype(draws[0]))
        labels = mode_labels(run, modes)
    counts = np.bincount(labels.ravel(), minlength=modes.count)
    weights = np.exp(np.asarray(modes.log_weights, float))
    shares = weights / weights.sum()
    without = [k for k in range(modes.count) if not counts[k] and shares[k] >= MIN_NOTABLE_SHARE]
    notes = tuple(
        f"! {place_of(modes, k)}, with an estimated share of {shares[k]:.0%}, has no draw: use"
        " tact() without numbers, or start chains there and weigh them by evidence"
        for k in without
    )
    missed = [MissedMode(np.asarray(modes.centers[k]), float(shares[k])) for k in without]
    return MissedModes(
        missed, int(np.sum(counts > 0)), search.exhaustive, search.gradients, search.why_not, notes
    )
