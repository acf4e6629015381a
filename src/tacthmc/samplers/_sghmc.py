r"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import Any

from tacthmc import _checks as checks
from tacthmc._typing import Number, Rate
from tacthmc.dynamics import Integrator, Langevin, NoThermostat, Refresh


def sghmc(
    step_size: Rate,
    *,
    friction: Rate = 0.1,
    noise_estimate: Any = None,
    mass: Any = 1.0,
    integrator: Integrator | None = None,
    bath_temperature: Number = 1.0,
    refresh: Refresh | None = None,
) -> Langevin:
    r"""SGHMC (Chen et al. 2014): Langevin dynamics with momentum and constant friction.

    .. math::
        d\theta = r, \qquad dr = \eta\tilde f - c\,r + N(0, 2c\eta - \eta^2\hat v)

    (for T = 1). It leaves exp(−U)·N(r; 0, η) invariant if the noise of the force has the assumed
    variance v̂, or no noise if ``noise_estimate`` is not given. Where 2c < ηv̂ no noise is injected
    and the chain stays too hot.

    Args:
        step_size: η in full-data units.
        friction: c, the friction per step.
        noise_estimate: v̂, the variance of the noise of the force: a number, or a pytree that
            matches the position. :func:`tacthmc.potentials.measure_noise` measures it.
        mass: as in :func:`tacthmc.tact`.
        integrator: Splitting() by default, or Euler().
        bath_temperature: as in :func:`tacthmc.tact`.
        refresh: when momenta are drawn afresh; by default never.

    Reference: T. Chen, E. Fox, C. Guestrin. *Stochastic gradient Hamiltonian Monte Carlo.*
    ICML 2014.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), sghmc(0.01), target, init=jnp.zeros(2),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool(abs(run.draws.std() - 1.0) < 0.2)
    True
    """
    checks.non_negative("friction", friction)
    return Langevin(
        step_size,
        noise=friction,
        thermostat=NoThermostat(),
        noise_estimate=noise_estimate,
        mass=mass,
        integrator=integrator,
        bath_temperature=bath_temperature,
        refresh=refresh,
    )
