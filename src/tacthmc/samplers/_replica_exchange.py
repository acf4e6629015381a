r"""Parallel tempering: replicas at several temperatures, or on a path from a base."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._typing import Number, Rate
from tacthmc.dynamics import Langevin, NoThermostat
from tacthmc.potentials import Potential
from tacthmc.samplers._heated_replicas import ReplicaExchange
from tacthmc.samplers._metropolis import Metropolis, scales_of
from tacthmc.samplers._noisy_move import NoisyMove
from tacthmc.samplers._replica_path import ReplicaPath
from tacthmc.samplers._replica_swaps import checked_energy_noise
from tacthmc.samplers._untuned_replicas import UntunedReplicas, checked_inverse_temperatures

LADDER = (1.0, 9.0 ** (1 / 3), 9.0 ** (2 / 3), 9.0)
"""A geometric ladder, on which the energies of all pairs of neighbors overlap equally."""

SWAP_EVERY = 10
"""The number of steps of Langevin dynamics between rounds of swaps."""


@overload
def replica_exchange(
    step_size: None = None,
    *,
    inverse_temperatures: Sequence[Number] | None = None,
    base: Potential | None = None,
    num_leapfrog: int | None = None,
) -> UntunedReplicas: ...


@overload
def replica_exchange(
    step_size: Number | Sequence[Number],
    *,
    inverse_temperatures: Sequence[Number],
    base: Potential | None = None,
    num_leapfrog: int | None = None,
    swap_every: int | None = None,
    noise: Number | None = None,
    noise_estimate: Any = None,
    energy_noise: Number | Sequence[Number] | Literal["measured"] | None = None,
    mass: Any = None,
) -> ReplicaPath: ...


@overload
def replica_exchange(
    step_size: Rate,
    *,
    temperatures: Sequence[Number] | None = None,
    swap_every: int | None = None,
    noise: Rate | None = None,
    noise_estimate: Any = None,
    energy_noise: Number | Sequence[Number] | Literal["measured"] | None = None,
    mass: Any = None,
) -> ReplicaExchange: ...


def replica_exchange(
    step_size: Rate | Sequence[Number] | None = None,
    *,
    temperatures: Sequence[Number] | None = None,
    inverse_temperatures: Sequence[Number] | None = None,
    base: Potential | None = None,
    num_leapfrog: int | None = None,
    swap_every: int | None = None,
    noise: Rate | None = None,
    noise_estimate: Any = None,
    energy_noise: Number | Sequence[Number] | Literal["measured"] | None = None,
    mass: Any = None,
) -> ReplicaExchange | ReplicaPath | UntunedReplicas:
    r"""Parallel tempering: replicas between the posterior and a base or a high temperature.

    Neighboring replicas swap places, so that what crosses barriers where it is hot arrives at the
    posterior. There are three forms.

    **Without a step size**, short runs before the first step choose the base, the ladder, the
    number of replicas and the step sizes (:mod:`tacthmc.tuning._replicas`)::

        run = tacthmc.sample(key, tacthmc.replica_exchange(), potential, init, 10_000, 4)

    **On a path** (``inverse_temperatures``), rung k has the density

    .. math:: \pi_k(\theta) \propto \exp(-U_0(\theta) - \lambda_k U_1(\theta)), \qquad
        1 = \lambda_0 > \lambda_1 > \dots \ge 0.

    U0 belongs to the base and U0 + U1 is the energy of the posterior: for
    :func:`tacthmc.temper_likelihood` the base is the prior, for
    :func:`tacthmc.samplers.with_base` and the argument ``base`` it is any density. If it is a
    Gaussian (:func:`tacthmc.samplers.gaussian_base`), the replica at λ = 0 is drawn afresh after
    each round of swaps. With ``num_leapfrog``, a step of each replica is a trajectory with a
    Metropolis test (:class:`tacthmc.samplers._metropolis.Metropolis`), and the sampler leaves

    .. math:: \prod_k \pi_k(\theta_k)

    invariant **exactly, at any step size**. That needs exact energies. Without ``num_leapfrog`` it
    is one step of Langevin dynamics, for mini-batches too.

    **At temperatures** (``temperatures``, by default a geometric ladder from 1 to 9), replicas have
    SGHMC (Deng et al. 2020)

    .. math::
        d\theta_k = r_k, \qquad dr_k = \eta\tilde f(\theta_k) - c\,r_k + N(0, 2c\eta T_k)

    and the sampler leaves

    .. math:: \prod_k \exp(-U(\theta_k)/T_k)\,N(r_k; 0, \eta T_k)

    invariant as η → 0. Where only a part of the energy is tempered, these are the densities
    exp(−U0 − U1/T_k) with momenta N(0, η). In all forms only the coldest replica is kept, and it
    follows the posterior.

    **Swaps.** Every ``swap_every`` steps replicas on neighboring rungs i, j = i + 1 (even i in one
    round, odd i in the next) swap with probability

    .. math::
        \min\big(1, \exp\big(\delta(\tilde U_i - \tilde U_j) - \tfrac12\delta^2 v\big)\big),
        \qquad \delta = \lambda_i - \lambda_j,

    where λ is 1/T at temperatures, Ũ is Ũ1 where only a part is tempered, and v is the variance of
    the error of Ũ_i − Ũ_j.

    **The correction.** For a Gaussian error ε of variance v, E[exp(δ(Δ + ε) − δ²v/2)] = exp(δΔ).
    In addition, the probability above averaged over ε is
    a(y) = Φ(y/s − s/2) + e^y·Φ(−y/s − s/2) with y = δΔ and s² = δ²v, and a(y) = e^y·a(−y). So
    detailed balance holds exactly, in spite of the min, at the price of fewer swaps.

    **The momenta** of a replica that moves from T_i to T_j are multiplied by √(T_j/T_i). That maps
    N(0, ηT_i) to N(0, ηT_j), and the factors of the two replicas cancel. So the energies alone
    decide, and no momentum has to be drawn afresh. On a path momenta stay on their rung, to the
    same end. (Unchanged momenta would enter the decision.)

    **Assumptions** for noisy energies. The error is Gaussian, and v is known and the same
    everywhere. All replicas of a chain get the same batch, so v is the variance of the
    *difference*. It is smaller than the sum of the variances of two energies, and zero for noise
    that does not depend on θ. If v is too small, the cold replica is too hot; if v is too large,
    swaps are rarer than necessary. The noise of the force heats all replicas by ηv_f/(2c), as in
    :func:`tacthmc.sghmc`, unless ``noise_estimate`` compensates for it. The batch that decides a
    swap is also that of the step, which couples their errors to the order of η.

    A step costs ``gradients_per_step``: one for each replica, or ``num_leapfrog`` of them.
    ``run.round_trips`` counts the trips coldest → hottest → coldest of one replica.
    ``run.plateau_share`` is its share of time on the coldest rung, 1/K for K replicas.
    ``run.sampler.swap_rates(run.state)`` has the acceptance rate of each pair. On a path,
    ``run.sampler.barrier(run.state)`` is the barrier Λ,
    ``run.sampler.evidence(run.state)`` is log Z, and ``run.state.round_trips`` counts the arrivals
    of all replicas at the posterior from the base.

    Args:
        step_size: η in full-data units, the same for all replicas, or on a path one for each. A
            trajectory makes steps of length √η. None leaves all numbers to tuning.
        temperatures: T_k, at least two numbers that rise from 1. The required number of
            temperatures grows as √D.
        inverse_temperatures: λ_k, at least two numbers that fall from 1, down to 0 if exp(−U0) is
            normalizable. (It is not for :func:`tacthmc.potentials.temper_block`.)
        base: the base of a potential that is not tempered in part.
        num_leapfrog: the number of leapfrog steps of a trajectory.
        swap_every: the number of steps between rounds of swaps: 10, or 1 for trajectories.
        noise: c, the level of injected noise and the friction per step, by default 0.1.
        noise_estimate: v̂, as in :func:`tacthmc.sghmc`.
        energy_noise: v, one number (by default 0) or one for each pair of neighbors; or
            "measured": a running mean of the squared second differences of Ũ_i − Ũ_j in time, over
            6. Second differences contain the noise of each batch, and only the unsteady part of the
            motion of θ over three steps. At a large η and T this makes v slightly too large, never
            too small.
        mass: as in :func:`tacthmc.tact`; for trajectories a number, or a pytree of arrays in the
            shape of the position.

    References: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin. *Non-convex learning via replica
    exchange stochastic gradient MCMC.* ICML 2020. D. Ceperley, M. Dewing. *The penalty method for
    random walks with uncertain energies.* J. Chem. Phys. 1999. S. Syed, A. Bouchard-Côté,
    G. Deligiannidis, A. Doucet. *Non-reversible parallel tempering.* JRSS B 2022.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> sampler = replica_exchange(1e-2)
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, init=jnp.ones(1),
    ...                      num_steps=10_000, num_chains=4)
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    >>> sampler.gradients_per_step
    4
    """
    numbers = {"swap_every": swap_every, "noise": noise, "noise_estimate": noise_estimate}
    numbers |= {"energy_noise": energy_noise, "mass": mass}
    if step_size is None:
        _refuse({"temperatures": temperatures, **numbers}, "needs a step size")
        return UntunedReplicas(inverse_temperatures, base, num_leapfrog)
    if swap_every is None:
        swap_every = SWAP_EVERY if num_leapfrog is None else 1
    checks.whole("swap_every", swap_every, 1)
    energy_noise = 0.0 if energy_noise is None else energy_noise
    mass = 1.0 if mass is None else mass
    for leaf in jax.tree.leaves(mass):
        checks.all_positive("mass", leaf)
    if inverse_temperatures is None:
        _refuse({"base": base, "num_leapfrog": num_leapfrog}, "needs inverse_temperatures")
        temperatures = _checked_ladder(LADDER if temperatures is None else temperatures)
        pairs = len(temperatures) - 1
        rate: Any = step_size
        checks.positive("step_size", rate)
        dynamics = _sghmc(noise, noise_estimate, mass)
        return ReplicaExchange(
            step_size=rate,
            injected=dynamics.injected,
            mass=mass,
            noise_estimate=noise_estimate,
            temperatures=temperatures,
            swap_every=swap_every,
            energy_noise=checked_energy_noise(energy_noise, pairs, swap_every),
        )
    _refuse({"temperatures": temperatures}, "does not go with inverse_temperatures")
    ladder = checked_inverse_temperatures(inverse_temperatures)
    sizes = _step_sizes(step_size, len(ladder))
    if num_leapfrog is None:
        move = NoisyMove(_sghmc(noise, noise_estimate, mass), sizes)
    else:
        _refuse({"noise": noise, "noise_estimate": noise_estimate}, "is not for trajectories")
        checks.whole("num_leapfrog", num_leapfrog, 1)
        move = Metropolis(sizes, scales_of(mass, len(ladder)), num_leapfrog)
    return ReplicaPath(
        ladder,
        move,
        base=base,
        energy_noise=checked_energy_noise(energy_noise, len(ladder) - 1, swap_every),
        swap_every=swap_every,
    )


def _refuse(given: dict[str, Any], why: str) -> None:
    """An error for arguments that are not None."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise ValueError(f"{wrong[0]} {why}; got {given[wrong[0]]!r}")


def _sghmc(noise: Rate | None, noise_estimate: Any, mass: Any) -> Langevin:
    """The dynamics of a replica, with numbers that are checked, but for its step size."""
    noise = 0.1 if noise is None else noise
    return Langevin(
        1.0, noise=noise, thermostat=NoThermostat(), noise_estimate=noise_estimate, mass=mass
    )


def _step_sizes(given: Any, rungs: int) -> Float[Array, " k"]:
    if callable(given):
        raise TypeError("step_size must be a number, or one for each rung; got a schedule")
    several = tuple(given) if isinstance(given, (list, tuple)) or jnp.ndim(given) else (given,)
    for one in several:
        checks.positive("step_size", one)
    if len(several) not in (1, rungs):
        raise ValueError(f"step_size must be a number, or {rungs} of them; got {given!r}")
    return jnp.broadcast_to(jnp.stack([jnp.asarray(x, float) for x in several]), (rungs,))


def _checked_ladder(temperatures: Any) -> tuple[Number, ...]:
    ladder = tuple(temperatures)
    for one in ladder:
        checks.positive("temperatures", one, "finite numbers > 0")
    # Traced numbers are unknown here and not checked.
    known = [value for value in map(checks.concrete, ladder) if value is not None]
    scalars = all(value.shape == () for value in known)
    traced = len(known) < len(ladder)
    if len(ladder) < 2 or not scalars or not (traced or _rises_from_one(known)):
        raise ValueError(
            "temperatures must be at least two numbers that rise from 1, such as (1, 3, 9); got"
            f" {temperatures!r}"
        )
    return ladder if traced else tuple(float(value) for value in known)


def _rises_from_one(ladder: Sequence[Any]) -> bool:
    return bool(ladder[0] == 1.0) and all(bool(a < b) for a, b in pairwise(ladder))
