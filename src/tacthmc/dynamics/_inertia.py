"""Thermal inertia, absolute or relative."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._typing import Number, Rate
from tacthmc.dynamics._rates import rate_at


class Inertia(eqx.Module):
    """How fast a thermostat reacts: the paper's γ, or a number of steps Γ.

    A thermostat obeys dz = λ²·[⟨r²⟩ − ηT]/γ. With η ~ 1e-8, as in a network's posterior,
    γ = 1 hardly moves it in a million steps. Γ says the same relative to the target,
    dz = λ²·[⟨r²⟩/(ηT) − 1]/Γ, and works at any scale: γ = Γ·η·T.
    """

    gamma: Rate | None
    steps: Rate | None

    def __init__(self, gamma: Rate | None = None, steps: Rate | None = None):
        """Give ``gamma`` (γ, absolute) or ``steps`` (Γ, relative; 100 by default)."""
        if gamma is not None and steps is not None:
            raise ValueError(
                f"give gamma (absolute) or steps (relative), not both; got gamma={gamma!r},"
                f" steps={steps!r}"
            )
        if gamma is None and steps is None:
            steps = 100.0
        if gamma is not None:
            checks.positive("gamma", gamma)
        if steps is not None:
            checks.positive("steps", steps)
        self.gamma, self.steps = gamma, steps

    def at(self, step: Array, eta: Array, bath: Number) -> Array:
        """γ at a step, given the step size η and the bath temperature T."""
        if self.gamma is not None:
            return rate_at(self.gamma, step, eta.dtype)
        assert self.steps is not None
        gamma = rate_at(self.steps, step, eta.dtype) * eta * bath
        # A schedule may touch η = 0: then nothing moves, the thermostat neither.
        return jnp.where(gamma > 0, gamma, jnp.inf)
