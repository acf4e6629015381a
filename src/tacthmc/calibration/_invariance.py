r"""Does a sampler leave a known law alone? A test for samplers and parts of your own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.stats import norm

from tacthmc import _checks as checks
from tacthmc._typing import Position, PRNGKey
from tacthmc.calibration._known_law import (
    Functions,
    KnownLaw,
    Reference,
    exact_positions,
    example_law,
    reference,
    scalars_of,
)
from tacthmc.calibration._scores import POWER
from tacthmc.dynamics import Sampler
from tacthmc.run._program import one_sampler

EVERY = 10
"""Steps between two looks at a chain."""
SHARE_OF_START = 4
"""One step in so many is for momenta, thermostats and ξ, which do not start from their own law."""
SHOWN = 6
ADVICE = (
    "If deviations fall by much from one step to the next, the step is too long to extrapolate:"
    " take a smaller one."
)


@dataclass(frozen=True)
class Invariance:
    """What :func:`invariance` found.

    Each function is a polynomial of the rank of a scalar among exact draws, or a product of two
    ranks; all lie in [−1, 1].
    """

    names: tuple[str, ...]
    """What each function responds to."""
    deviations: np.ndarray
    """The mean of each function minus that of the law, without steps' bias if there is an order."""
    errors: np.ndarray
    """Their standard errors."""
    by_step: dict[float, np.ndarray]
    """The deviations at each step size."""
    detectable_width: float
    """The relative change of the width of any scalar that is found with probability 95%."""
    detectable_bias: float
    """The same for a shift, in standard deviations."""
    order: float | None
    diverged: int = 0
    """The chains that did not stay finite."""
    level: float = 0.01
    """The probability that a right sampler is called wrong."""

    @property
    def p_values(self) -> np.ndarray:
        """The two-sided p-value of each function."""
        return 2 * norm.sf(np.abs(self.deviations / self.errors))

    @property
    def p_value(self) -> float:
        """The smallest p-value times their number, at most 1."""
        if self.diverged:
            return 0.0
        return float(min(1.0, len(self.names) * self.p_values.min()))

    @property
    def verdict(self) -> Literal["right", "wrong"]:
        """Whether the law stays; a chain that diverged makes the sampler wrong."""
        return "wrong" if self.p_value < self.level else "right"

    def __str__(self) -> str:
        """The functions that deviate most, and the verdict."""
        if self.diverged:
            return f"wrong: {self.diverged} chains did not stay finite. Take a smaller step size."
        worst = np.argsort(self.p_values)[:SHOWN]
        size = max(len(self.names[i]) for i in worst)
        steps = "".join(f"  at step {step:<7.3g}" for step in self.by_step)
        lines = [f"{'':<{size}}  deviation ± error      p{steps}"]
        for i in worst:
            each = "".join(f"  {values[i]:+15.4f}" for values in self.by_step.values())
            lines.append(
                f"{self.names[i]:<{size}}  {self.deviations[i]:+.4f} ± {self.errors[i]:.4f}"
                f"  {self.p_values[i]:7.2g}{each}"
            )
        how = (
            "No step bias was allowed for."
            if self.order is None
            else f"Deviations are extrapolated to small steps, with order {self.order:g}."
        )
        return "\n".join(
            [
                *lines,
                how,
                f"A width wrong by {self.detectable_width:.1%} or a bias of"
                f" {self.detectable_bias:.2f} sd would have been found with probability"
                f" {POWER:.0%}.",
                *([ADVICE] if self.order is not None and self.verdict == "wrong" else []),
                f"{self.verdict}: the smallest of {len(self.names)} p-values times their number is"
                f" {self.p_value:.2g}, and the level is {self.level:g}.",
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict and the numbers as JSON."""
        return {
            "verdict": self.verdict,
            "p_value": self.p_value,
            "level": self.level,
            "order": self.order,
            "diverged": self.diverged,
            "detectable_width": self.detectable_width,
            "detectable_bias": self.detectable_bias,
            "names": list(self.names),
            "deviations": self.deviations.tolist(),
            "errors": self.errors.tolist(),
            "by_step": {f"{step:g}": values.tolist() for step, values in self.by_step.items()},
        }


def invariance(
    key: Array,
    make: Callable[[Any], Sampler],
    step_size: float,
    *,
    law: KnownLaw | None = None,
    order: float | None = 1.0,
    num_steps: int = 4_000,
    num_chains: int = 1_000,
    level: float = 0.01,
) -> Invariance:
    r"""Test that a sampler leaves a known law invariant.

    Chains start from exact draws, so that there is nothing to converge to: they have to stay. After
    a quarter of the steps, in which momenta, thermostats and ξ find their own laws, bounded
    functions of the positions are averaged over the draws at unit temperature: ranks of the scalars
    and of the energy among exact draws, polynomials of them, and products of two. Their means under
    the law come from other exact draws.

    With an ``order`` p the chains run with steps η and η/2, and the deviations d are extrapolated
    to η → 0,

    .. math:: d_0 = \frac{2^p\,d(η/2) - d(η)}{2^p - 1},

    so that a sampler is right if only its steps are too long. Take steps for which the deviation
    is small at η already. Chains are independent, which gives the errors, and p-values are divided
    by their number.

    Args:
        key: a key.
        make: the sampler for a step size, as ``make(step_size)``. A part of your own goes in here:
            ``lambda eta: tacthmc.sgnht(eta, thermostat=Mine())``.
        step_size: η.
        law: the law (:class:`tacthmc.calibration.KnownLaw`); by default
            :func:`tacthmc.calibration.example_law`, whose ``force`` adds noise to the force.
        order: the power of η with which the bias falls: 1 for the splitting and for SGLD. It is 0.5
            for ``Euler()``, whose η is a squared time step, if its friction falls with the time
            step, too (``noise=eta**0.5``). None if there is no bias, as with a Metropolis test;
            then only η is run.
        num_steps: the steps of each chain with η; with η/2 they are twice as many.
        num_chains: the number of chains.
        level: the probability that a right sampler is called wrong.

    >>> import jax, tacthmc
    >>> found = invariance(jax.random.key(0), tacthmc.sgld, 0.02, num_steps=1_000, num_chains=200)
    >>> found.verdict, found.detectable_width < 0.2
    ('right', True)
    """
    if not callable(make):
        raise TypeError(f"make must be a function of the step size; got {make!r}")
    checks.positive("step_size", step_size)
    checks.whole("num_steps", num_steps, SHARE_OF_START * EVERY)
    checks.whole("num_chains", num_chains, 100)
    checks.within("level", level, 0.0, 0.5)
    law = example_law() if law is None else law
    checks.instance("law", law, KnownLaw, "a tacthmc.calibration.KnownLaw")
    if order is not None:
        checks.positive("order", order, "a finite number > 0, or None")
    first, *others = jax.random.split(checks.key("key", key), 3)
    known = reference(law, first)
    sizes = [step_size] if order is None else [step_size, step_size / 2]
    found = [
        _deviations(own, make(size), law, known, num_steps * (i + 1), num_chains)
        for i, (own, size) in enumerate(zip(others, sizes, strict=False))
    ]
    deviation, variance = found[0].deviation, found[0].variance
    if order is not None:
        up = 2.0**order
        deviation = (up * found[1].deviation - deviation) / (up - 1)
        variance = (up**2 * found[1].variance + variance) / (up - 1) ** 2
    # The exact draws of the reference are common to all steps.
    errors = np.sqrt(variance + known.error**2)
    seen = norm.isf(level / (2 * len(errors))) + norm.isf(1 - POWER)
    width, bias = (
        float(np.max(np.min(seen * errors[:, None] / np.maximum(np.abs(slope), 1e-9), axis=0)))
        for slope in known.response
    )
    return Invariance(
        names=known.functions.names,
        deviations=deviation,
        errors=errors,
        by_step={size: one.deviation for size, one in zip(sizes, found, strict=True)},
        detectable_width=width,
        detectable_bias=bias,
        order=order,
        diverged=max(one.diverged for one in found),
        level=level,
    )


class _Deviations(NamedTuple):
    deviation: np.ndarray
    variance: np.ndarray
    diverged: int


def _deviations(
    key: PRNGKey, sampler: Any, law: KnownLaw, known: Reference, num_steps: int, num_chains: int
) -> _Deviations:
    """The means of the functions over all chains minus those of the law, and their variances."""
    checks.instance("make(step_size)", sampler, Sampler, "one of the package's samplers")
    # Its numbers become arrays, so that the next step size reuses the compiled program.
    sampler = one_sampler(sampler, 1)[0]
    starts, steps = jax.random.split(key)
    positions = exact_positions(law, starts, num_chains)
    blocks = num_steps // EVERY
    totals, counts = _chain_sums(
        sampler,
        law,
        known.functions,
        jax.random.split(steps, num_chains),
        positions,
        jnp.asarray(blocks),
        jnp.asarray(blocks // SHARE_OF_START),
    )
    totals, counts = np.asarray(totals, float), np.asarray(counts, float)
    sound = np.all(np.isfinite(totals), axis=1)
    if not counts.sum():
        raise ValueError("no chain was at unit temperature when it was looked at: take more steps")
    mean = totals[sound].sum(axis=0) / max(counts[sound].sum(), 1.0)
    # The mean is a ratio of sums over independent chains.
    away = totals[sound] - mean * counts[sound, None]
    variance = (away**2).sum(axis=0) / max(counts[sound].sum(), 1.0) ** 2
    return _Deviations(mean - known.mean, variance, int(np.sum(~sound)))


@eqx.filter_jit
def _chain_sums(
    sampler: Sampler,
    law: KnownLaw,
    functions: Functions,
    keys: Array,
    positions: Position,
    blocks: Array,
    skipped: Array,
) -> tuple[Array, Array]:
    """For each chain the sums of the functions over its draws, and the number of draws."""
    potential = law.potential

    def step(carry: Any, key: PRNGKey) -> tuple[Any, Array]:
        state, data = carry
        first, second = jax.random.split(key)
        data, selection = potential.batches.select(data, first, state.position)
        batch = potential.batches.fetch(selection)
        state, info = sampler.step(second, state, potential, batch)
        draw = info.at_unit_temperature if info.is_draw is None else info.is_draw
        return (state, data), draw

    def chain(key: PRNGKey, position: Position) -> tuple[Array, Array]:
        first, second, third = jax.random.split(key, 3)
        state = sampler.init(first, position, potential.init_model())
        data = potential.batches.init(second)

        def block(i: Array, carry: Any) -> Any:
            inner, total, count = carry
            own = jax.random.split(jax.random.fold_in(third, i), EVERY)
            inner, draws = jax.lax.scan(step, inner, own)
            values = functions(scalars_of(law, sampler.position(inner[0])))
            use = draws[-1] & (i >= skipped)
            # A chain that is no longer finite shows it in its sum, even where it is not a draw.
            values = jnp.where(use | ~jnp.isfinite(values), values, 0.0)
            return inner, total + values, count + use.astype(values.dtype)

        none = functions(scalars_of(law, position)) * 0
        return jax.lax.fori_loop(0, blocks, block, ((state, data), none, none[0]))[1:]

    return jax.vmap(chain)(keys, positions)
