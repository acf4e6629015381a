"""The coupling λ(ξ) of the energy to the tempering variable, and ξ's well.

The extended Hamiltonian (the paper's Eq. 4) is λ(ξ)·U(θ) + W(ξ) + kinetic energies, so the
effective temperature at ξ is T/λ(ξ). Everything here is for T = 1. At another bath temperature T
the dynamics multiplies λ by T, which puts the plateau at λ = T, where T/λ = 1.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._typing import Number, Scalar


class Coupling(eqx.Module):
    """λ(ξ) with a plateau λ = 1 on |ξ| ≤ ξ0, inside a well with walls at ±W0."""

    plateau: eqx.AbstractVar[Number]
    wall: eqx.AbstractVar[Number]
    even: eqx.AbstractVar[bool]

    @abstractmethod
    def value_and_slope(self, xi: Scalar) -> tuple[Scalar, Scalar]:
        """λ(ξ) and its derivative λ′(ξ); (1, 0) on the plateau."""

    @property
    def efficiency(self) -> Number:
        """ξ0/W0: the share of time on the plateau when ξ is uniform in its well."""
        return self.plateau / self.wall

    @property
    def hottest(self) -> Array:
        """The effective temperature 1/λ at the (right) wall."""
        return 1 / self.value_and_slope(jnp.asarray(self.wall, float))[0]

    def temperature(self, xi: Float[Array, "..."]) -> Float[Array, "..."]:
        """The effective temperature 1/λ(ξ), elementwise."""
        return 1 / jnp.vectorize(lambda x: self.value_and_slope(x)[0])(xi)

    def on_plateau(self, xi: Scalar, within: Number = 1.0) -> Array:
        """Whether |ξ| ≤ within·ξ0."""
        return jnp.abs(xi) <= within * self.plateau

    def is_hot(self, xi: Scalar) -> Array:
        """Whether ξ is in the outer tenth of the slope, next to a wall."""
        return jnp.abs(xi) >= self.plateau + 0.9 * (self.wall - self.plateau)

    def reflect(self, xi: Scalar, momentum: Scalar) -> tuple[Scalar, Scalar]:
        """Mirror ξ at the walls and reverse its momentum, for an overshoot of any size."""
        wall = jnp.asarray(self.wall).astype(xi.dtype)
        # The remainder modulo 4W0, written out.
        around = xi + wall
        around = around - 4 * wall * jnp.floor(around / (4 * wall))
        mirrored = around > 2 * wall
        folded = wall - jnp.abs(around - 2 * wall)
        outside = jnp.abs(xi) > wall
        flip = outside & mirrored
        return jnp.where(outside, folded, xi), jnp.where(flip, -momentum, momentum)


class PowerCoupling(Coupling):
    r"""The paper's family (Appendix A).

    .. math::
        1/\lambda(\xi) = 1 + \Big(\frac{\max(|\xi|-\xi_0, 0)}{\xi_1-\xi_0}\Big)^n

    with walls at ±W0. The defaults are the paper's for synthetic targets: temperature 2 at ξ1 = 1
    and 9 at the walls, and an efficiency of 20%.

    >>> coupling = PowerCoupling()
    >>> round(coupling.efficiency, 3), round(float(coupling.hottest), 3)
    (0.2, 9.0)
    """

    plateau: Number
    unit: Number
    wall: Number
    power: int = eqx.field(static=True)
    even: bool = eqx.field(static=True)

    def __init__(
        self,
        plateau: Number = 1 / 3,
        unit: Number = 1.0,
        wall: Number = 5 / 3,
        power: int = 3,
    ):
        """Set ξ0 (``plateau``), ξ1 (``unit``, where T = 2), W0 (``wall``) and n (``power``)."""
        checks.positive("plateau (ξ0)", plateau)
        checks.positive("unit (ξ1)", unit)
        checks.positive("wall (W0)", wall)
        checks.whole("power (n)", power, 1)
        check_well(plateau, wall)
        known = checks.concrete(plateau), checks.concrete(unit), checks.concrete(wall)
        if known[0] is not None and known[1] is not None and not np.all(known[1] > known[0]):
            raise ValueError(
                f"unit (ξ1) must be greater than plateau (ξ0); got ξ1 = {unit}, ξ0 = {plateau}"
            )
        self.plateau, self.unit, self.wall, self.power = plateau, unit, wall, power
        self.even = True

    @classmethod
    def up_to(
        cls, hottest: float, plateau: float = 1 / 3, wall: float = 5 / 3, power: int = 3
    ) -> "PowerCoupling":
        """The member of the family that reaches the temperature ``hottest`` at the walls.

        >>> round(float(PowerCoupling.up_to(6.0, plateau=0.1, wall=1.0).hottest), 4)
        6.0
        """
        checks.positive("hottest", hottest)
        if not hottest > 1:
            raise ValueError(f"hottest must be a temperature > 1; got {hottest!r}")
        checks.whole("power (n)", power, 1)
        unit = plateau + (wall - plateau) / (hottest - 1) ** (1 / power)
        return cls(plateau, unit, wall, power)

    def value_and_slope(self, xi: Scalar) -> tuple[Scalar, Scalar]:
        """λ = 1/(1 + uⁿ), λ′ = −sign(ξ)·n·uⁿ⁻¹/(ξ1−ξ0)·λ²."""
        plateau, unit = (jnp.asarray(x).astype(xi.dtype) for x in (self.plateau, self.unit))
        u = jnp.maximum(jnp.abs(xi) - plateau, 0) / (unit - plateau)
        power = jax.lax.integer_pow(u, self.power - 1)
        value = 1 / (1 + power * u)
        slope = -jnp.sign(xi) * self.power * power * value**2 / (unit - plateau)
        # For n = 1 the one-sided slope at the edge is not 0, but on the plateau it has to be.
        return value, jnp.where(u > 0, slope, 0)


class CustomCoupling(Coupling):
    """A user-defined λ(ξ), differentiated exactly by JAX.

    ``function`` maps a scalar ξ to λ > 0 with λ = 1 on |ξ| ≤ ``plateau``. Outside, λ < 1 is
    hotter than the posterior. The function is checked on a grid.

    >>> import jax.numpy as jnp
    >>> smooth = CustomCoupling(
    ...     lambda xi: jnp.exp(-2.0 * jnp.maximum(jnp.abs(xi) - 0.2, 0.0) ** 2), 0.2, 1.0)
    >>> round(float(smooth.hottest), 2)
    3.6
    """

    function: Callable[[Array], Array]
    plateau: Number
    wall: Number
    even: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Array], Array],
        plateau: float,
        wall: float,
        even: bool | None = None,
    ):
        """Couple by ``function``; ``plateau`` is ξ0 and ``wall`` is W0.

        ``even`` says whether λ(−ξ) = λ(ξ); by default that is tested. Inside ``vmap`` or ``jit``
        values cannot be inspected: nothing is checked there, and ``even`` is False by default.
        """
        if not callable(function):
            raise TypeError(f"function must be λ, a function of ξ; got {function!r}")
        checks.positive("plateau (ξ0)", plateau)
        checks.positive("wall (W0)", wall)
        check_well(plateau, wall)
        grid = jnp.linspace(0.0, 1.0, 65)
        right, left = (jax.vmap(function)(sign * grid * wall) for sign in (1, -1))
        edge = jnp.array([-1.001, -1.0, -0.999]) * plateau
        flat = jax.vmap(function)(jnp.concatenate([edge, 0.999 * grid * plateau, -edge[::-1]]))
        if right.shape != (65,):
            raise ValueError(f"function must map a scalar to a scalar; got shape {right.shape[1:]}")
        if checks.concrete(right + flat[:65] + left) is not None:
            sides = np.asarray(right), np.asarray(left)
            _check_function(*sides, np.asarray(flat), plateau)
            even = bool(np.allclose(*sides, rtol=1e-5)) if even is None else even
        self.function, self.plateau, self.wall = function, plateau, wall
        self.even = bool(even)

    def value_and_slope(self, xi: Scalar) -> tuple[Scalar, Scalar]:
        """λ and λ′ by forward differentiation; exactly (1, 0) on the plateau."""
        value, slope = jax.jvp(self.function, (xi,), (jnp.ones_like(xi),))
        flat = self.on_plateau(xi)
        return jnp.where(flat, 1, value), jnp.where(flat, 0, slope)


def _check_function(right: np.ndarray, left: np.ndarray, flat: np.ndarray, plateau: float) -> None:
    if not (np.all(np.isfinite([right, left])) and np.all(right > 0) and np.all(left > 0)):
        raise ValueError("function must give λ > 0 everywhere in the well [−W0, W0]")
    if not np.allclose(flat[2:-2], 1, atol=1e-5):
        raise ValueError(
            f"function must be 1 on the plateau |ξ| ≤ {plateau}; got values from"
            f" {flat.min():g} to {flat.max():g}"
        )
    if not np.allclose(flat, 1, atol=0.05):
        raise ValueError(
            f"function must be continuous at the plateau's edges ±{plateau}: a jump is a force that"
            f" λ′ does not have; got values from {flat.min():g} to {flat.max():g}"
        )


def check_well(plateau: Number, wall: Number) -> None:
    """Require a plateau inside the walls; warn if it is too large a part of the well."""
    inner, outer = checks.concrete(plateau), checks.concrete(wall)
    if inner is None or outer is None:
        return
    if not np.all(inner < outer):
        raise ValueError(
            f"plateau (ξ0) must lie inside the walls (W0); got ξ0 = {plateau}, W0 = {wall}"
        )
    if np.any(inner / outer > 0.25 + 1e-6):
        warnings.warn(
            f"the efficiency ξ0/W0 = {float(np.max(inner / outer)):.2f} exceeds 25%: with the"
            " hottest temperature fixed, a wider plateau makes λ′ steeper, and the paper"
            " (Appendix A) advises against it because ξ's dynamics becomes unstable",
            stacklevel=4,
        )
