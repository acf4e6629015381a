r"""Steps of Langevin dynamics that are accepted or rejected, for exact energies.

A step mixes fresh noise into the momenta, makes one leapfrog step, and accepts it by the change of
the total energy; otherwise θ stays and the momenta turn around (Horowitz 1991):

.. math::
    r \leftarrow e^{-c} r + N\big(0, (1 - e^{-2c})\,\eta T/m\big), \qquad
    r_{1/2} = r - \tfrac{\eta}{2m}\nabla U(\theta), \quad \theta' = \theta + r_{1/2}, \quad
    r' = r_{1/2} - \tfrac{\eta}{2m}\nabla U(\theta')

.. math:: P(\text{accept}) = \min\big(1, e^{-\Delta H/T}\big), \qquad
    H = U(\theta) + \tfrac{1}{2\eta}\sum m r^2.

**Invariant density.** exp(−U/T) *exactly, at any step size*: the mixing leaves the Gaussian of the
momenta invariant, and the leapfrog step is reversible and keeps volumes. Too long a step costs
acceptance. There is no noise for a thermostat to absorb, so there is none.

Reference: A. Horowitz. *A generalized guided Monte Carlo algorithm.* Phys. Lett. B 1991.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._positions import scalar_dtype, sum_of_squares, total
from tacthmc._typing import Batch, Position, Scalar
from tacthmc.dynamics._coordinates import Rates
from tacthmc.dynamics._langevin import Integrator, Parts, StepNoise, StepResult
from tacthmc.dynamics._no_thermostat import NoThermostat
from tacthmc.dynamics._state import State
from tacthmc.dynamics._tempering import NoTempering
from tacthmc.potentials import Potential, forces
from tacthmc.potentials._exact import description, has_exact_energies


class Known(eqx.Module):
    """The energy of a position and its gradient."""

    energy: Scalar
    """U, or infinity if it is not known yet."""
    gradient: Position


class Adjusted(Integrator):
    r"""Leapfrog steps with a Metropolis test, for exact energies, without ξ and thermostat.

    The energy and the gradient of a position are kept, so a step takes one gradient. Where they are
    not known, at the start and after a jump, the first step finds them and stays where it is.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> from tacthmc.dynamics import Adjusted, Langevin, NoThermostat
    >>> sampler = Langevin(0.3, thermostat=NoThermostat(), integrator=Adjusted())
    >>> wells = tacthmc.potential(lambda x: jnp.sum(x**4))
    >>> run = tacthmc.sample(jax.random.key(0), sampler, wells, jnp.ones(1), 50_000, 4)
    >>> bool(abs((run.draws**2).mean() - 0.338) < 0.02)                    # Γ(3/4)/Γ(1/4)
    True
    """

    @property
    def num_normals(self) -> int:
        return 2

    def memory(self, position: Position) -> Known:
        unknown = jnp.full((), jnp.inf, scalar_dtype(position))
        return Known(unknown, jax.tree.map(jnp.zeros_like, position))

    def step(
        self,
        parts: Parts,
        now: Rates,
        noise: StepNoise,
        state: State,
        potential: Potential,
        batch: Batch,
    ) -> StepResult:
        if not has_exact_energies(potential):
            raise ValueError(
                "Adjusted() accepts steps by exact energies: take Splitting(), or give a"
                " tacthmc.potential, or a posterior with batch_size = the number of examples; got"
                f" {description(potential)}"
            )
        assert noise.integrator is not None
        eta, bath, start = now.theta.eta, now.theta.bath, state.memory
        dtype = start.energy.dtype
        known = jnp.isfinite(start.energy)
        r = jax.tree.map(partial(_mixed, now), state.momentum, noise.theta, now.mass)

        def kicked(r: Position, gradient: Position) -> Position:
            return jax.tree.map(
                lambda r, g, m: r - 0.5 * (eta / m).astype(r.dtype) * g, r, gradient, now.mass
            )

        half = kicked(r, start.gradient)
        # Where the energy is not known, the step only finds it.
        moved = jax.tree.map(lambda x, v: x + jnp.where(known, v, 0), state.position, half)
        u = forces(potential, moved, batch, state.model)
        there = Known(u.energy.astype(dtype), u.gradient)
        arrived = kicked(half, there.gradient)
        before, after = (total(sum_of_squares(now.mass, x), dtype) for x in (r, arrived))
        change = (there.energy - start.energy + 0.5 * (after - before) / eta.astype(dtype)) / bath
        # Half the sum of two squared normals is distributed as −log of a uniform number, and a
        # change that is not a number makes the comparison false.
        accept = change.astype(dtype) < 0.5 * jnp.sum(noise.integrator**2)
        turned = jax.tree.map(jnp.negative, r)

        def chosen(new: Any, old: Any) -> Any:
            return jax.tree.map(lambda a, b: jnp.where(accept, a, b), new, old)

        memory = chosen(there, start)
        # The momenta of a step that only found the energy are the mixed ones.
        momentum = jax.tree.map(lambda a, b: jnp.where(known, a, b), chosen(arrived, turned), r)
        result = State(
            chosen(moved, state.position),
            momentum,
            state.thermostat,
            state.tempering,
            state.step + 1,
            u.model,
            state.mean_friction,
            state.center,
            memory,
        )
        return StepResult(result, memory.energy, memory.energy, before, None)

    def check(self, parts: Parts) -> None:
        if not isinstance(parts.tempering, NoTempering):
            raise ValueError("Adjusted() needs exact energies of one temperature: leave out ξ")
        if not isinstance(parts.thermostat, NoThermostat):
            raise ValueError(
                "Adjusted() has no noise to absorb: give thermostat=NoThermostat(), got a"
                f" {type(parts.thermostat).__name__}"
            )
        if parts.coordinates.widens:
            raise ValueError("Adjusted() does not move coordinates that widen: leave out center")


def _mixed(now: Rates, r: Array, n: Array, mass: Array) -> Array:
    """e^(−c)·r + N(0, (1 − e^(−2c))·ηT/m)."""
    keep = jnp.exp(-now.theta.c)
    sd = jnp.sqrt((1 - keep**2) * now.theta.eta * now.theta.bath / mass)
    return keep.astype(r.dtype) * r + sd.astype(r.dtype) * n
