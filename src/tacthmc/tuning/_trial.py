"""A trial of a tuned sampler: effective draws per gradient, to compare samplers by."""

import jax
import numpy as np
from jaxtyping import Float

from tacthmc._typing import Position, PRNGKey
from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run._keep import Keep
from tacthmc.tuning._bursts import flat_draws, quiet_run

TRIAL_GRADIENTS = 30_000
"""The gradients of a trial."""
MAX_ROWS = 200
"""The largest number of draws of a chain in a trial."""
UNCORRELATED = 0.05
"""The autocorrelation that counts as none."""


def effective_rate(
    key: PRNGKey, sampler: Sampler, potential: Potential, starts: Position, every: int
) -> tuple[float, int]:
    """The fewest effective draws per gradient over coordinates and the energy, and the gradients.

    Where chains stay apart, correlations do not decay, and there are as many draws as chains.
    """
    chains = jax.tree.leaves(starts)[0].shape[0]
    steps = max(TRIAL_GRADIENTS // (chains * sampler.gradients_per_step), 10 * every)
    # The program of a run with another spacing would be compiled anew.
    run = quiet_run(key, sampler, potential, starts, steps, Keep(every=every, after=steps // 10))
    spent = chains * run.num_steps * sampler.gradients_per_step
    if run.failures or not run.num_draws:
        return 0.0, spent
    quantities = [*np.moveaxis(flat_draws(run.draws), 2, 0), np.asarray(run.stats["energy"], float)]
    return min(effective(each) for each in quantities) / spent, spent


def effective(values: Float[np.ndarray, "chains draws"]) -> float:
    """The number of effective draws, about the mean of all chains.

    >>> rng = np.random.default_rng(0)
    >>> bool(700 < effective(rng.normal(size=(8, 100))) <= 800)
    True
    >>> effective(np.repeat(np.arange(8.0)[:, None], 100, axis=1))
    8.0
    """
    rows = values.shape[1]
    values = values[:, :: max(1, rows // MAX_ROWS)]
    count = values.shape[1]
    rho = autocorrelation(values, count - 1)
    below = np.flatnonzero(rho < UNCORRELATED)
    last = below[0] if len(below) else count
    time = min(1 + 2 * float(rho[1:last].sum()), float(count))
    return float(values.size / time)
