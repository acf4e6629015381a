r"""The stochastic gradient Nosé-Hoover thermostat."""

from typing import Any

from tacthmc._typing import Number, Rate
from tacthmc.dynamics import Coordinates, Integrator, Langevin, ModeJumps, Refresh, Thermostat


def sgnht(
    step_size: Rate,
    *,
    noise: Rate = 0.1,
    thermostat: Thermostat | None = None,
    mass: Any = 1.0,
    integrator: Integrator | None = None,
    bath_temperature: Number = 1.0,
    refresh: Refresh | None = None,
    coordinates: Coordinates | None = None,
    jumps: ModeJumps | None = None,
) -> Langevin:
    r"""SGNHT (Ding et al. 2014): TACT-HMC without tempering, the paper's other ablation.

    .. math::
        d\theta = r, \qquad dr = \eta\tilde f + N(0, 2c\eta) - z r, \qquad
        dz = (\langle r^2\rangle - \eta)/\gamma

    (for T = 1). It leaves exp(−U)·N(r; 0, η)·N(z; c + ηv_f/2, η/(γD)) invariant for force noise
    of constant variance v_f. By default each coordinate of a small leaf has its own z, so that v_f
    may differ between coordinates (:class:`tacthmc.dynamics.AutomaticThermostat`). The arguments
    are those of :func:`tacthmc.tact`.

    Reference: N. Ding, Y. Fang, R. Babbush, C. Chen, R. Skeel, H. Neven. *Bayesian sampling
    using stochastic gradient thermostats.* NeurIPS 2014.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), force=3.0)
    >>> run = tacthmc.sample(jax.random.key(0), sgnht(0.01), target, init=jnp.zeros(2),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool(abs(run.draws.std() - 1.0) < 0.2)
    True
    """
    return Langevin(
        step_size,
        noise=noise,
        thermostat=thermostat,
        mass=mass,
        integrator=integrator,
        bath_temperature=bath_temperature,
        refresh=refresh,
        coordinates=coordinates,
        jumps=jumps,
    )


without_tempering = sgnht
"""The name of this ablation in the paper."""
