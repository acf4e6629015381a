r"""A coupling shaped by the fluctuations of the energy: λ changes slowly where they are large.

When ξ moves by dξ, λ changes by λ′dξ. The laws of θ before and after overlap as long as |λ′dξ|·s is
small, where s is the standard deviation of the energy that acts on ξ at that temperature. The drag
on ξ is λ′ times those fluctuations. Among all couplings with the same ends

.. math:: \int (\lambda'(\xi)\,s(\lambda(\xi)))^2\,d\xi

is smallest if λ′s is constant along the slope (by the Cauchy-Schwarz inequality), so

.. math:: \frac{\xi(\lambda) - \xi_0}{W_0 - \xi_0}
    = \frac{\int_\lambda^1 s\,d\lambda}{\int_{\lambda_{min}}^1 s\,d\lambda}.

For a Gaussian, s ∝ 1/λ gives temperatures that grow exponentially along ξ. Like the power n = 1 of
the paper's family, λ has a kink at the edge of the plateau.

Between ``knots`` equal steps of ξ, λ is a monotone cubic (Fritsch and Carlson 1980), and λ′ is the
exact derivative of that cubic. The force on ξ is therefore that of one Hamiltonian for any s: a
wrong s costs efficiency, not correctness.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._typing import Number, Scalar
from tacthmc.dynamics._coupling import Coupling, check_well

INTEGRAL_STEPS = 4096
"""The number of steps of log T in the integral of s."""

MIN_ROWS = 20
"""The smallest number of rows of a trace for a standard deviation."""


class ShapedCoupling(Coupling):
    """λ(ξ) with λ′·s constant along the slope, for given fluctuations s of the energy.

    :mod:`tacthmc.dynamics._shaped_coupling` has the derivation. ``ShapedCoupling.after(run)``
    measures s in a run.

    >>> import numpy as np, jax.numpy as jnp
    >>> hot = np.array([1.0, 3.0, 9.0])
    >>> coupling = ShapedCoupling(hot, fluctuations=5.0 * hot)       # a Gaussian: s ∝ 1/λ
    >>> [round(float(t), 3) for t in coupling.temperature(jnp.array([0.2, 1.0, 5 / 3]))]
    [1.0, 3.0, 9.0]
    """

    plateau: Number
    wall: Number
    falls: Float[Array, " k"]
    """1 − λ at the knots, which single precision resolves near λ = 1 where it cannot resolve λ."""
    slopes: Float[Array, " k"]
    even: bool = eqx.field(static=True)

    def __init__(
        self,
        temperatures: Any,
        fluctuations: Any,
        *,
        plateau: float = 1 / 3,
        wall: float = 5 / 3,
        knots: int = 64,
    ):
        """Shape by s = ``fluctuations`` at ``temperatures``, which rise from 1 to the hottest.

        ``plateau`` is ξ0 and ``wall`` is W0. Between the temperatures log s is linear in log T.
        """
        checks.positive("plateau (ξ0)", plateau)
        checks.positive("wall (W0)", wall)
        check_well(plateau, wall)
        checks.whole("knots", knots, 2)
        checks.all_positive("temperatures", temperatures)
        checks.all_positive("fluctuations", fluctuations)
        hot, s = np.asarray(temperatures, float), np.asarray(fluctuations, float)
        rising = hot.ndim == 1 and len(hot) > 1 and bool(np.all(np.diff(hot) > 0))
        if not rising or hot[0] != 1:
            raise ValueError(
                "temperatures must be at least two numbers that rise from 1, such as (1, 3, 9);"
                f" got {temperatures!r}"
            )
        if s.shape != hot.shape:
            raise ValueError(
                f"fluctuations must be one number for each of {len(hot)} temperatures; got shape"
                f" {s.shape}"
            )
        falls, slopes = _shape(np.log(hot), np.log(s), knots)
        self.plateau, self.wall, self.even = plateau, wall, True
        self.falls, self.slopes = jnp.asarray(falls), jnp.asarray(slopes)

    @classmethod
    def after(cls, run: Any, *, bins: int = 12, knots: int = 64) -> "ShapedCoupling":
        """A coupling for the fluctuations in a tempered run, with its plateau, walls and hottest.

        s is the standard deviation of the energy that acts on ξ (in ``run.trace``, after warm-up)
        on the plateau and in ``bins`` bins of log T, about a line in λ in each bin. It includes
        mini-batch noise, which drags ξ as well. A bias belongs to its coupling, so begin with a
        new one.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> key, start = jax.random.key(0), jnp.zeros(4)
        >>> run = tacthmc.sample(key, tacthmc.tact(0.1), target, start, 50_000, 4)
        >>> coupling = ShapedCoupling.after(run)
        >>> round(float(coupling.hottest), 3)
        9.0
        >>> xi = tacthmc.dynamics.ContinuousTempering(coupling)
        >>> sampler = tacthmc.tact(0.1, tempering=xi)
        """
        checks.whole("bins", bins, 1)
        old = run.tempered_sampler().tempering.coupling
        column = "xi_energy" if "xi_energy" in run.trace else "energy"
        lam = 1 / np.asarray(run.after_warmup("temperature"), float).ravel()
        energy = np.asarray(run.after_warmup(column), float).ravel()
        places, s = _measured(lam, energy, float(old.hottest), bins)
        return cls(places, s, plateau=float(old.plateau), wall=float(old.wall), knots=knots)

    def value_and_slope(self, xi: Scalar) -> tuple[Scalar, Scalar]:
        """λ and λ′ of the cubic at ξ; (1, 0) on the plateau."""
        plateau, wall = (jnp.asarray(x).astype(xi.dtype) for x in (self.plateau, self.wall))
        pieces = len(self.falls) - 1
        along = (jnp.abs(xi) - plateau) / (wall - plateau) * pieces
        piece = jnp.clip(jnp.floor(along), 0, pieces - 1).astype(int)
        u = along - piece.astype(xi.dtype)
        left, right = (self.falls[piece + i].astype(xi.dtype) for i in (0, 1))
        # Slopes are per piece.
        a, b = (self.slopes[piece + i].astype(xi.dtype) for i in (0, 1))
        rise = left - right
        quadratic, cubic = 3 * rise - 2 * a - b, a + b - 2 * rise
        value = 1 - (left - u * (a + u * (quadratic + u * cubic)))
        slope = (a + u * (2 * quadratic + u * 3 * cubic)) * pieces / (wall - plateau)
        flat = along <= 0
        return jnp.where(flat, 1, value), jnp.where(flat, 0, jnp.sign(xi) * slope)


def _shape(log_hot: np.ndarray, log_s: np.ndarray, knots: int) -> tuple[np.ndarray, np.ndarray]:
    """1 − λ at equal steps of ξ, and the change of λ per step there."""
    fine = np.linspace(0.0, log_hot[-1], INTEGRAL_STEPS + 1)
    # s·|dλ| = s·λ·d(log T).
    weight = np.exp(np.interp(fine, log_hot, log_s) - fine)
    covered = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]))])
    way = covered / covered[-1]
    places = np.interp(np.linspace(0.0, 1.0, knots + 1), way, fine)
    falls = -np.expm1(-places)
    falls[0], falls[-1] = 0.0, -np.expm1(-log_hot[-1])
    total = covered[-1] * (fine[1] - fine[0])
    slopes = -total / knots * np.exp(-np.interp(places, log_hot, log_s))
    rises = -np.diff(falls)
    most = np.minimum(np.abs(np.append(rises, rises[-1])), np.abs(np.append(rises[0], rises)))
    return falls, np.maximum(slopes, -3 * most)


def _measured(
    lam: np.ndarray, energy: np.ndarray, hottest: float, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Temperatures from 1 to the hottest, and the standard deviation of the energy at each."""
    edges = np.linspace(0.0, np.log(hottest), bins + 1)
    number = np.clip(np.searchsorted(edges, -np.log(lam), side="left"), 1, bins)
    groups = [np.flatnonzero(lam == 1)]
    groups += [np.flatnonzero((lam < 1) & (number == i)) for i in range(1, bins + 1)]
    groups = [g for g in groups if len(g) >= MIN_ROWS]
    if sum(bool(np.any(lam[g] < 1)) for g in groups) == 0:
        raise ValueError(
            f"the run has fewer than {MIN_ROWS} rows after warm-up at any temperature above 1, too"
            " few to shape a coupling: run longer, or with a smaller keep=Keep(every=…)"
        )
    s = np.array([_spread(lam[g], energy[g]) for g in groups])
    if not np.any(s > 0):
        raise ValueError(
            "the energy that acts on ξ does not fluctuate in this run: any coupling will do"
        )
    places = np.exp([-np.log(lam[g]).mean() for g in groups])
    inside = (places > 1 + 1e-6) & (places < hottest * (1 - 1e-6))
    # The ends take the value measured next to them. A small lower limit keeps every s positive.
    s = np.maximum(s, 1e-3 * s.max())
    return (
        np.concatenate([[1.0], places[inside], [hottest]]),
        np.concatenate([s[:1], s[inside], s[-1:]]),
    )


def _spread(lam: np.ndarray, energy: np.ndarray) -> float:
    """The standard deviation about a line in λ, which the mean energy follows within a bin."""
    away = lam - lam.mean()
    left = energy - energy.mean()
    if np.ptp(lam) > 1e-9:
        left = left - away * (away @ left) / (away @ away)
    return float(np.sqrt(np.mean(left**2)))
