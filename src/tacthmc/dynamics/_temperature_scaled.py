r"""Coordinates that breathe with the temperature, so that ξ moves in high dimension too.

At temperature 1/λ a posterior is wider by 1/√λ, and its energy is larger by about D/2·(1/λ − 1)
with fluctuations of √(D/2)/λ. Where ξ alone changes λ, θ has to widen by itself afterwards: ξ is
dragged by those fluctuations, and its round trips fall as 1/D. Here θ widens with ξ,

.. math:: \theta = \mu + \frac{\varphi - \mu}{\sqrt{\lambda(\xi)}},

and φ and ξ are what moves. In these coordinates the density exp(−λU(θ)) of θ reads
exp(−λU(θ(φ, ξ)))·λ^(−D/2), and the force on ξ is −λ′·(E + D/(2λ)) with

.. math:: E = U(\theta) - \tfrac12\nabla U(\theta)\cdot(\theta - \mu).

By the virial theorem ⟨E⟩ = ⟨U⟩ − D/(2λ) at every ξ, so that the free energy A(ξ) is what it was.
The part of it that is known, D/2·log λ, is taken off exactly, with a bias or without; a bias
learns the rest from E, which hardly depends on ξ. Nor does E fluctuate as U does: where U is
quadratic about μ it is constant, whatever D and the curvatures are; in a mode that lies d off μ
its variance is d²/4 times the curvature over λ.

**On the plateau** λ = 1 and θ = φ, for any μ: the posterior is invariant there under the
assumptions of :func:`tacthmc.tact`. μ may change there without moving θ, so it is learnt there:
the mean of θ over the plateau so far, later steps counting more. Like the bias, it costs
efficiency where it is wrong, not correctness.

**The force's noise** moves ξ too now, by −b·N where it moves φ by −a·N, with a = √λ and
b = −½λ′(θ − μ): what heats the velocity of θ itself, λ·dθ/dt = a·dφ/dt + b·dξ/dt. A friction of
strength z_f against it takes that heat out; as an operator on the momenta, in units of their
standard deviations, with ρ² = η_ξ/η_θ,

.. math:: z_f \begin{pmatrix} a^2 & \rho\,a\,b \\ \rho\,a\,b^\top & \rho^2 |b|^2 \end{pmatrix}.

The first entry is θ's thermostat. The others are :func:`crossed`, with for z_f the friction
that the thermostat has settled on, less the share of the injected noise (which moves φ alone).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from tacthmc._positions import scalar_dtype, total
from tacthmc._typing import Position, Scalar


def widened(position: Position, centre: Position, own: Scalar) -> Position:
    """θ = μ + (φ − μ)/√λ.

    >>> import jax.numpy as jnp
    >>> widened(jnp.array([3.0]), jnp.array([1.0]), jnp.array(0.25)).tolist()
    [5.0]
    """
    scale = jax.lax.rsqrt(own)
    return jax.tree.map(lambda x, m: m + scale.astype(x.dtype) * (x - m), position, centre)


def calm_energy(energy: Scalar, gradient: Position, theta: Position, centre: Position) -> Scalar:
    """E = U − ½∇U·(θ − μ).

    >>> import jax.numpy as jnp
    >>> x = jnp.array([3.0, 4.0])                    # U = |x|²/2: E = 0 everywhere
    >>> float(calm_energy(jnp.array(12.5), x, x, jnp.zeros(2)))
    0.0
    """

    def along(g: Array, x: Array, m: Array) -> Array:
        return jnp.sum(g * (x - m))

    sums = jax.tree.leaves(jax.tree.map(along, gradient, theta, centre))
    virial = total(sums, scalar_dtype(theta))
    return energy - 0.5 * virial.astype(energy.dtype)


def recentred(
    centre: Position, position: Position, visits: Scalar, here: Array
) -> tuple[Position, Scalar]:
    """μ and the count after one more step, which is on the plateau or not (``here``).

    Step n has the weight 2/(n + 1), so that the n-th counts n times as much as the first.

    >>> import jax.numpy as jnp
    >>> centre, visits = recentred(jnp.array(5.0), jnp.array(1.0), jnp.array(0.0), jnp.array(True))
    >>> float(centre), float(visits)
    (1.0, 1.0)
    """
    counted = visits + here.astype(visits.dtype)
    rate = jnp.where(here, 2 / (counted + 1), 0)

    def moved(m: Array, x: Array) -> Array:
        return m + rate.astype(m.dtype) * (x - m)

    return jax.tree.map(moved, centre, position), counted


class Crossing(NamedTuple):
    """What joins the frictions of φ and ξ: c (per coordinate of p = r·√(m/η)) and β²."""

    along: Position
    own: Scalar


def crossing(
    friction: Position, a: Scalar, slope: Scalar, away: Position, ratio: Scalar, shapes: Any
) -> Crossing:
    """c = ρ·z_f·a·b·g√m and β² = ρ²·Σ z_f·b²·m·g, with b = −½λ′(θ − μ).

    ``friction`` has z_f for each leaf, ``ratio`` is ρ, ``shapes`` are masses m and shapes g.
    """
    mass, g = shapes

    def coupled(z: Array, x: Array, m: Array, g: Array) -> Array:
        scale = (ratio * a * -0.5 * slope).astype(x.dtype)
        return scale * z.astype(x.dtype) * g * jnp.sqrt(m) * x

    def damped(z: Array, x: Array, m: Array, g: Array) -> Array:
        return jnp.sum(z.astype(x.dtype) * m * g * x * x)

    sums = jax.tree.leaves(jax.tree.map(damped, friction, away, mass, g))
    own = (0.5 * ratio * slope) ** 2 * total(sums, scalar_dtype(away)).astype(slope.dtype)
    return Crossing(jax.tree.map(coupled, friction, away, mass, g), own)


def crossed(
    crossing: Crossing, r: Position, r_xi: Scalar, scales: tuple[Position, Scalar]
) -> tuple[Position, Scalar]:
    """exp(−M) on (r, r_ξ), exactly, with M = [[0, c], [cᵀ, β²]]; ``scales`` are the sds.

    >>> import jax.numpy as jnp
    >>> joined = Crossing(jnp.zeros(2), jnp.array(1.0))
    >>> r, r_xi = crossed(joined, jnp.ones(2), jnp.array(1.0), (jnp.ones(2), jnp.array(1.0)))
    >>> r.tolist(), round(float(r_xi), 4)
    ([1.0, 1.0], 0.3679)
    """
    scale, scale_xi = scales
    dtype = r_xi.dtype
    squares = jax.tree.leaves(jax.tree.map(lambda c: jnp.sum(c * c), crossing.along))
    length = jnp.sqrt(jnp.maximum(total(squares, dtype), jnp.finfo(dtype).tiny))
    dots = jax.tree.leaves(
        jax.tree.map(lambda c, r, s: jnp.sum(c * r / s), crossing.along, r, scale)
    )
    p, p_xi = total(dots, dtype) / length, r_xi / scale_xi
    half = 0.5 * crossing.own
    root = jnp.sqrt(half**2 + length**2)
    slow, fast = jnp.exp(root - half), jnp.exp(-root - half)
    even, odd = 0.5 * (slow + fast), 0.5 * (slow - fast) / root
    # M − β²/2 = [[−β²/2, |c|], [|c|, β²/2]] on (p along c, p_ξ).
    new = even * p - odd * (length * p_xi - half * p)
    new_xi = even * p_xi - odd * (length * p + half * p_xi)
    change = (new - p) / length

    def moved(r: Array, c: Array, s: Array) -> Array:
        return r + change.astype(r.dtype) * c * s

    return jax.tree.map(moved, r, crossing.along, scale), new_xi * scale_xi
