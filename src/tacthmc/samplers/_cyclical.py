r"""Cyclical SGHMC: the step size falls in each cycle and then starts again."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate
from tacthmc.dynamics import Info, Langevin, Sampler, State, StepNoise
from tacthmc.potentials import Potential
from tacthmc.samplers._sghmc import sghmc


class CosineCycles(eqx.Module):
    """η0/2·(cos(π·(k mod C)/C) + 1), a schedule.

    >>> falling = CosineCycles(0.4, 4)
    >>> [round(float(falling(k)), 4) for k in (0, 1, 2, 3, 4)]
    [0.4, 0.3414, 0.2, 0.0586, 0.4]
    """

    peak: Number
    steps: Number

    def __call__(self, step: Any) -> Array:
        """The step size at step ``step``."""
        left = jnp.asarray(self.steps) - jnp.asarray(step) % jnp.asarray(self.steps)
        share = left.astype(float) / jnp.asarray(self.steps).astype(float)
        # Mathematically the same as the cosine, which in single precision has no digits left at
        # the end of a long cycle.
        return jnp.asarray(self.peak).astype(share.dtype) * jnp.sin(0.5 * jnp.pi * share) ** 2


class Cyclical(Sampler):
    """SGHMC with cycles of falling step size, as made by :func:`cyclical`."""

    inner: Langevin
    cycle_steps: Number
    explore_steps: Number

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> State:
        return self.inner.init(key, position, model)

    def noise(self, key: PRNGKey, position: Position) -> StepNoise:
        return self.inner.noise(key, position)

    def advance(
        self, noise: StepNoise, state: State, potential: Potential, batch: Batch
    ) -> tuple[State, Info]:
        """A step of SGHMC, without injected noise in the first part of a cycle."""
        whole, first = (
            jnp.asarray(n).astype(state.step.dtype) for n in (self.cycle_steps, self.explore_steps)
        )
        sampling = state.step % whole >= first
        theta = jax.tree.map(lambda n: jnp.where(sampling, n, 0), noise.theta)
        state, info = self.inner.advance(noise._replace(theta=theta), state, potential, batch)
        return state, info._replace(at_unit_temperature=sampling)


def cyclical(
    step_size: Number,
    *,
    cycle_steps: int,
    explore: float | int = 0.8,
    noise: Rate = 0.1,
    noise_estimate: Any = None,
    mass: Any = 1.0,
) -> Cyclical:
    r"""Cyclical SGHMC (Zhang et al. 2020): large steps find a mode, and small steps sample it.

    .. math::
        \eta_k = \frac{\eta_0}{2}\Big(\cos\frac{\pi\,(k \bmod C)}{C} + 1\Big), \qquad
        d\theta = r, \quad dr = \eta_k\tilde f - c\,r + N(0, 2c\eta_k\tau_k)

    with τ_k = 0 in the first part of each cycle (``explore``), which is descent with momentum,
    and τ_k = 1 in the rest. Only draws from the rest are kept. When η changes, the physical
    momentum r/√η is unchanged.

    **It does not leave the posterior invariant.** Each cycle ends near one mode, reached by
    descent from the end of the previous cycle. The weight of a mode is the frequency with which
    that descent finds it, not its weight in the posterior. Within a mode the draws approach the
    posterior as η0 → 0 and as the sampling part becomes long compared with the time that SGHMC
    takes to mix there at the small η at the end of a cycle. A shorter sampling part leaves them too
    narrow, because it starts at temperature zero. The weights of modes become right only in the
    limit where every cycle mixes over all of them, and then no cycles are needed.

    ``run.plateau_share`` is the share of steps in the sampling part. Others are
    never kept, and ``Keep(temperatures="all")`` is an error. If the sampling part is shorter than
    ``Keep(every=…)``, a cycle may leave no draw.

    Args:
        step_size: η0, the largest step size, in full-data units.
        cycle_steps: C, the number of steps in a cycle.
        explore: the share of each cycle without injected noise, in [0, 1).
        noise: c, the level of injected noise and the friction per step.
        noise_estimate: v̂, as in :func:`tacthmc.sghmc`.
        mass: as in :func:`tacthmc.tact`.

    Reference: R. Zhang, C. Li, J. Zhang, C. Chen, A. G. Wilson. *Cyclical stochastic gradient MCMC
    for Bayesian deep learning.* ICLR 2020.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> sampler = cyclical(0.1, cycle_steps=2_000, explore=0.5)
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, init=jnp.zeros(2),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool((run.stats["step"] % 2_000 > 1_000).sum() + (run.stats["step"] % 2_000 == 0).sum()
    ...      == run.stats["step"].size)                      # in the second half of a cycle
    True
    """
    if callable(step_size):
        raise TypeError(
            f"step_size must be a number, the largest of each cycle; got the schedule {step_size!r}"
        )
    checks.positive("step_size", step_size)
    checks.whole("cycle_steps", cycle_steps, 1)
    checks.non_negative("noise", noise)
    checks.non_negative("explore", explore)
    if explore >= 1:
        raise ValueError(f"explore must be in [0, 1); got {explore!r}")
    explore_steps = round(explore * cycle_steps)
    return Cyclical(
        inner=sghmc(
            CosineCycles(step_size, cycle_steps),
            friction=noise,
            noise_estimate=noise_estimate,
            mass=mass,
        ),
        cycle_steps=cycle_steps,
        explore_steps=explore_steps,
    )
