r"""Langevin dynamics with a Metropolis test, for exact energies."""

from typing import Any

from tacthmc._typing import Number, Rate
from tacthmc.dynamics import Adjusted, Coordinates, Langevin, ModeJumps, NoThermostat


def adjusted_langevin(
    step_size: Rate,
    *,
    noise: Rate = 0.1,
    mass: Any = 1.0,
    bath_temperature: Number = 1.0,
    coordinates: Coordinates | None = None,
    jumps: ModeJumps | None = None,
) -> Langevin:
    r"""Guided Monte Carlo (Horowitz 1991): leapfrog steps that are accepted or rejected.

    It leaves exp(−U/T)·N(r; 0, ηT/m) invariant at any step size
    (:class:`tacthmc.dynamics.Adjusted` has the equations). Energies have to be exact. Too long a
    step costs acceptance, and after a rejection momenta turn around: take steps of which nine in
    ten are accepted. The arguments are those of :func:`tacthmc.tact`.

    Reference: A. Horowitz. *A generalized guided Monte Carlo algorithm.* Phys. Lett. B 1991.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), adjusted_langevin(0.5), target, jnp.zeros(2),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool(abs(run.draws.std() - 1.0) < 0.1)
    True
    """
    return Langevin(
        step_size,
        noise=noise,
        thermostat=NoThermostat(),
        mass=mass,
        integrator=Adjusted(),
        bath_temperature=bath_temperature,
        coordinates=coordinates,
        jumps=jumps,
    )
