"""Calibration by simulation: do a sampler's posteriors hold the truth as often as they should?"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._typing import PRNGKey
from tacthmc.calibration._draws import AnySampler, Quantities, Values, is_traceable, together
from tacthmc.calibration._draws import one_by_one as one_after_the_other
from tacthmc.calibration._result import Calibration
from tacthmc.calibration._simulations import simulations
from tacthmc.calibration._thinning import spaced, stride
from tacthmc.dynamics import Sampler
from tacthmc.potentials import Potential
from tacthmc.run._keep import Keep
from tacthmc.samplers import Untuned, UntunedReplicas

SHARE_OF_WARM_UP = 4
"""One step in so many is not kept, if ``keep`` does not say it."""


def calibrate(
    key: Array,
    sampler: AnySampler,
    prior_draw: Callable[[PRNGKey], Any],
    simulate: Callable[[PRNGKey, Any], Any],
    make_potential: Callable[[Any], Potential],
    *,
    num_simulations: int = 500,
    num_steps: int = 20_000,
    num_draws: int = 100,
    keep: Keep | None = None,
    start: Callable[[PRNGKey, Any], Any] | None = None,
    quantities: Callable[[Any, Any], Any] | None = None,
    level: float = 0.01,
    progress: bool | None = False,
) -> Calibration:
    r"""Test a sampler on data whose truth is known (simulation-based calibration).

    .. math:: θ^* \sim p(θ), \qquad y \sim p(y \mid θ^*), \qquad
        θ_1, …, θ_L \sim p(θ \mid y)

    The truth and the draws then have the same law, so that the rank of the truth among the draws is
    uniform over simulations. A sampler whose posteriors are too narrow gives too many extreme
    ranks; one that is biased gives too many ranks at one end. This needs no reference and no known
    posterior. It tests the sampler with its settings, the potential and the warm-up together.

    Every quantity has three checks: a simultaneous band for the distribution function of its ranks
    (:mod:`tacthmc.calibration._rank_band`), and the place and the width of the posteriors
    (:mod:`tacthmc.calibration._scores`). They are divided by their number, so that a right sampler
    is called wrong with probability ``level`` at most. The result says which errors it would have
    found.

    Args:
        key: a key.
        sampler: any sampler. Chains of all simulations run in one compiled program. A sampler
            without numbers, ``tact()`` or ``replica_exchange()``, is tuned for each simulation, and
            these run one after the other.
        prior_draw: a draw θ* from the prior, as ``prior_draw(key)``.
        simulate: data from the model, as ``simulate(key, theta)``: any pytree of arrays, of the
            same shapes for every θ.
        make_potential: the potential for these data, such as a :func:`tacthmc.posterior`. If JAX
            cannot trace it, simulations run one after the other.
        num_simulations: N. The error of a width is about 0.7/√N.
        num_steps: the steps of each chain.
        num_draws: the most draws of a simulation that are compared. They are taken so far apart
            that they are nearly independent.
        keep: which draws are kept; by default those after the first quarter of the steps.
        start: where a chain starts, as ``start(key, data)``; by default at another draw from the
            prior. It must not know θ*.
        quantities: what is ranked, as ``quantities(theta, data)``, which returns numbers or arrays
            (at most 200 numbers); by default every scalar of the position. The potential's energy
            comes besides, if it has one. It notices samplers that are right only on average over
            data sets. To notice a potential that makes a wrong use of the data, rank a number of
            both, such as the sum of squared residuals. Where the labels of components can be
            exchanged, choose quantities that do not depend on them.
        level: the probability that a right sampler is called wrong.
        progress: whether to show a live display.

    Reference: S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman. *Validating Bayesian
    inference algorithms with simulation-based calibration.* 2018. M. Modrák and others.
    *Simulation-based calibration checking for Bayesian computation: the choice of test quantities
    shapes sensitivity.* Bayesian Analysis 2023.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> def prior_draw(key):
    ...     return jax.random.normal(key)
    >>> def simulate(key, mu):
    ...     return mu + jax.random.normal(key, (20,))
    >>> def make_potential(y):
    ...     return tacthmc.posterior(lambda mu: -0.5 * mu**2,
    ...                              lambda mu, x: -0.5 * (x - mu) ** 2, y, batch_size=5)
    >>> found = calibrate(jax.random.key(0), tacthmc.sgnht(1e-3), prior_draw, simulate,
    ...                   make_potential, num_simulations=100, num_steps=4_000)
    >>> found.verdict, found.names
    ('right', ('theta', 'energy'))
    """
    checks.instance(
        "sampler", sampler, (Sampler, Untuned, UntunedReplicas), "one of the package's samplers"
    )
    for name, value, least in (
        ("num_simulations", num_simulations, 2),
        ("num_steps", num_steps, 1),
        ("num_draws", num_draws, 1),
    ):
        checks.whole(name, value, least)
    checks.within("level", level, 0.0, 0.5)
    keep = _keep(keep, sampler, num_steps)
    first, second, third = jax.random.split(checks.key("key", key), 3)
    made = simulations(first, prior_draw, simulate, start, num_simulations)
    asked = Quantities(quantities)
    if isinstance(sampler, Sampler) and is_traceable(make_potential, made):
        values = together(second, sampler, made, make_potential, asked, num_steps, keep, progress)
    else:
        values = one_after_the_other(
            second, sampler, made, make_potential, asked, num_steps, keep, progress
        )
    return _ranked(third, values, num_draws, level)


def _keep(keep: Keep | None, sampler: AnySampler, num_steps: int) -> Keep:
    keep = Keep() if keep is None else keep
    checks.instance("keep", keep, Keep, "a tacthmc.Keep, such as Keep(every=20)")
    if keep.all_temperatures or keep.forget:
        raise ValueError("keep must keep the draws at unit temperature: ranks need equal weights")
    if keep.after is None:
        keep = Keep(keep.every, num_steps // SHARE_OF_WARM_UP, "unit", keep.relaxation_window)
    if keep.after is not None and keep.after >= num_steps:
        raise ValueError(
            f"Keep.after ({keep.after}) must be less than num_steps ({num_steps}): nothing would be"
            " kept"
        )
    return keep if isinstance(sampler, (Untuned, UntunedReplicas)) else keep.with_defaults(sampler)


def _ranked(key: PRNGKey, values: Values, num_draws: int, level: float) -> Calibration:
    """Thin the draws until they are nearly independent, and rank the truths among them."""
    lengths = [len(draws) for draws in values.draws]
    length = int(np.median(lengths)) if lengths else 0
    long = [draws[:length] for draws in values.draws if len(draws) >= length]
    distance = max(
        (stride(np.stack([d[:, q] for d in long])) for q in range(len(values.names)) if long),
        default=1,
    )
    seed = np.asarray(jax.random.key_data(key)).astype(np.uint32).ravel().tolist()
    rng = np.random.default_rng(seed)
    ranks, counts = [], []
    for truth, draws in zip(values.truth, values.draws, strict=True):
        some = draws[spaced(len(draws), distance, num_draws)]
        below, ties = (some < truth).sum(axis=0), (some == truth).sum(axis=0)
        between = rng.random(len(values.names)) * (ties + 1)
        ranks.append((below + between) / (len(some) + 1))
        counts.append(len(some))
    shape = (len(ranks), len(values.names))
    return Calibration(
        names=values.names,
        remaining=_remaining(values),
        ranks=np.asarray(ranks, float).reshape(shape),
        counts=np.asarray(counts, int),
        distance=distance,
        diverged=values.diverged,
        level=level,
    )


def _remaining(values: Values) -> tuple[float, ...] | None:
    """The mean variance of each quantity's draws over that of its truths, without the energy."""
    variances = [draws.var(axis=0) for draws in values.draws if len(draws) > 1]
    if len(variances) < 2:
        return None
    prior = np.maximum(values.truth.var(axis=0), np.finfo(float).tiny)
    count = len(values.names) - values.with_energy
    return tuple(float(x) for x in (np.mean(variances, axis=0) / prior)[:count])
