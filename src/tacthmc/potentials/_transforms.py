r"""Maps from free coordinates to constrained values, with their Jacobians.

Samplers move in all of ℝᴰ. A value x that has a boundary is written as x = f(φ) of a free φ, and
the density of φ is

.. math:: \pi(f(\varphi))\,\Big|\det \frac{\partial f}{\partial \varphi}\Big|.

Draws of φ, mapped by f, then follow π. The Jacobian moves modes, but no expectations.
"""

import math
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tacthmc._typing import Scalar


class Transform(eqx.Module):
    """A map from free coordinates to constrained values, one array to one array."""

    @abstractmethod
    def constrain(self, free: Array) -> Array:
        """x = f(φ)."""

    @abstractmethod
    def free(self, value: Array) -> Array:
        """φ = f⁻¹(x); not finite outside of the constraint and on its boundary."""

    @abstractmethod
    def log_jacobian(self, free: Array) -> Scalar:
        """log |det ∂f/∂φ|, summed over the array."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What values have to be, for error messages."""


class Above(Transform):
    """x > low, as x = low + exp φ.

    >>> import jax.numpy as jnp
    >>> above = Above(1.0)
    >>> float(above.constrain(jnp.array(0.0))), float(above.free(jnp.array(2.0)))
    (2.0, 0.0)
    """

    low: float

    def __init__(self, low: float = 0.0):
        """Check the end."""
        self.low = _end("low", low)

    def constrain(self, free: Array) -> Array:
        return self.low + jnp.exp(free)

    def free(self, value: Array) -> Array:
        return jnp.log(value - self.low)

    def log_jacobian(self, free: Array) -> Scalar:
        return jnp.sum(free)

    @property
    def expected(self) -> str:
        return f"larger than {self.low:g}"


class Between(Transform):
    """low < x < high, as x = low + (high − low)/(1 + exp(−φ)).

    >>> import jax.numpy as jnp
    >>> between = Between(-1.0, 3.0)
    >>> float(between.constrain(jnp.array(0.0))), float(between.free(jnp.array(1.0)))
    (1.0, 0.0)
    """

    low: float
    high: float

    def __init__(self, low: float = 0.0, high: float = 1.0):
        """Check the ends."""
        self.low, self.high = _end("low", low), _end("high", high)
        if not self.low < self.high:
            raise ValueError(f"low must be smaller than high; got low={low} and high={high}")

    def constrain(self, free: Array) -> Array:
        return self.low + (self.high - self.low) * jax.nn.sigmoid(free)

    def free(self, value: Array) -> Array:
        return jnp.log(value - self.low) - jnp.log(self.high - value)

    def log_jacobian(self, free: Array) -> Scalar:
        width = math.log(self.high - self.low)
        return jnp.sum(width + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free))

    @property
    def expected(self) -> str:
        return f"between {self.low:g} and {self.high:g}"


def _end(name: str, value: float) -> float:
    """The end of an interval."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number; got {value!r}")
    return float(value)


class Simplex(Transform):
    """Positive numbers along the last axis whose sum is one, from one number less.

    It breaks a stick: a share σ(φ_k − log(K − k)) of what is left goes to the k-th number. So φ = 0
    makes all numbers equal.

    >>> import jax.numpy as jnp
    >>> Simplex().constrain(jnp.zeros(3)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def constrain(self, free: Array) -> Array:
        log_share, log_left = self._logs(free)
        before = jnp.concatenate([jnp.zeros_like(log_left[..., :1]), log_left], axis=-1)
        logs = jnp.concatenate([log_share, jnp.zeros_like(log_share[..., :1])], axis=-1)
        return jnp.exp(before + logs)

    def free(self, value: Array) -> Array:
        rest = jnp.cumsum(value[..., ::-1], axis=-1)[..., ::-1]
        return jnp.log(value[..., :-1]) - jnp.log(rest[..., 1:]) + _even(value[..., :-1])

    def log_jacobian(self, free: Array) -> Scalar:
        """x_k = s_k·(what is left), and ds/dφ = s(1 − s). The matrix is triangular."""
        log_share, log_left = self._logs(free)
        # log(x_k·(1 − s_k)): the share times what is left before it, times 1 − s.
        return jnp.sum(log_share + log_left)

    def _logs(self, free: Array) -> tuple[Array, Array]:
        """log s_k, and the logarithm of what is left after it."""
        shifted = free - _even(free)
        return jax.nn.log_sigmoid(shifted), jnp.cumsum(jax.nn.log_sigmoid(-shifted), axis=-1)

    @property
    def expected(self) -> str:
        return "positive, with a sum of one along the last axis"


def _even(free: Float[Array, "*n k"]) -> Float[Array, "*n k"]:
    """log(K − k) along the last axis: what makes all numbers of a simplex equal."""
    left = jnp.arange(free.shape[-1], 0, -1).astype(free.dtype)
    return jnp.broadcast_to(jnp.log(left), free.shape)


class Ordered(Transform):
    """Numbers that increase along the last axis: x₁ = φ₁, and x_k = x_{k−1} + exp φ_k.

    For components of a mixture whose labels would switch.

    >>> import jax.numpy as jnp
    >>> Ordered().constrain(jnp.array([1.0, 0.0, 0.0])).tolist()
    [1.0, 2.0, 3.0]
    """

    def constrain(self, free: Array) -> Array:
        steps = jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], axis=-1)
        return jnp.cumsum(steps, axis=-1)

    def free(self, value: Array) -> Array:
        return jnp.concatenate([value[..., :1], jnp.log(jnp.diff(value, axis=-1))], axis=-1)

    def log_jacobian(self, free: Array) -> Scalar:
        return jnp.sum(free[..., 1:])

    @property
    def expected(self) -> str:
        return "increasing along the last axis"


positive = Above(0.0)
"""x > 0, as x = exp φ."""
unit = Between(0.0, 1.0)
"""0 < x < 1."""
simplex = Simplex()
"""Positive numbers along the last axis with a sum of one."""
ordered = Ordered()
"""Numbers that increase along the last axis."""
