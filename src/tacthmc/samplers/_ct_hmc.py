r"""Continuously tempered HMC: trajectories between the target and a base, accepted or rejected."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from tacthmc import _checks as checks
from tacthmc._positions import checked, rate_at, scalar_dtype, spread, sum_of_squares, total
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate, Scalar
from tacthmc.compiler._random import normals
from tacthmc.dynamics import Info, Sampler
from tacthmc.potentials import Potential
from tacthmc.potentials._exact import description, has_exact_energies
from tacthmc.samplers._conditional_weights import LogEvidence, evidence, log_weights

CONTROL_TRAJECTORY = 2.0
"""How far a trajectory of default step size moves u, about the sd π/√3 of its law where λ is
uniform."""

HOT = 0.1
"""The inverse temperature below which a chain counts as being at the base."""


class CTHMCState(eqx.Module):
    """The state of a chain between two trajectories."""

    position: Position
    control: Scalar
    """u, which determines λ."""
    accepted: Int[Array, ""]
    """The number of trajectories accepted."""
    step: Int[Array, ""]
    """The number of trajectories made."""
    model: Any = None


class CTHMCNoise(NamedTuple):
    """The standard normals of one trajectory."""

    theta: Position
    control: Scalar
    accept: Float[Array, "2"]


class Point(NamedTuple):
    """A place (θ, u) with its energies and forces."""

    position: Position
    control: Scalar
    extended: Scalar
    """U0 + λ(u)(U1 + log ζ) + the energy of u."""
    total: Scalar
    """U0 + U1, the energy of the target."""
    tempered: Scalar
    """U1, the energy of the target above that of the base."""
    gradient: tuple[Position, Scalar]
    """The derivatives of ``extended`` by θ and u."""


class Momentum(NamedTuple):
    """How far one step moves θ and u."""

    theta: Position
    control: Scalar


class Scales(NamedTuple):
    """The step sizes and masses of a trajectory."""

    eta: Scalar
    control_eta: Scalar
    mass: Position


class ContinuouslyTemperedHMC(Sampler):
    """HMC on the position and its inverse temperature, as made by :func:`ct_hmc`."""

    step_size: Rate
    num_leapfrog: int = eqx.field(static=True)
    log_evidence: Number
    plateau: Number
    tempering_step_size: Rate
    mass: Any

    @property
    def gradients_per_step(self) -> int:
        """One for each leapfrog step, and one where the trajectory begins."""
        return self.num_leapfrog + 1

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> CTHMCState:
        """θ as given, and u = 0."""
        position = checked(position)
        control, zero = jnp.zeros((), scalar_dtype(position)), jnp.zeros((), int)
        return CTHMCState(position, control, zero, jnp.zeros_like(zero), model)

    def noise(self, key: PRNGKey, position: Position) -> CTHMCNoise:
        theta, extra = normals(key, position, extra=3)
        return CTHMCNoise(theta, extra[0], extra[1:])

    def advance(
        self, noise: CTHMCNoise, state: CTHMCState, potential: Potential, batch: Batch
    ) -> tuple[CTHMCState, Info]:
        """One trajectory with fresh momenta, accepted or rejected as a whole."""
        check_potential(potential)
        scales = self._scales(state)
        momentum = self._fresh(noise, scales)
        start = self._point(potential, state.position, state.control)
        end, arrived = self.trajectory(potential, start, momentum, scales)
        heat = _kinetic(arrived, scales) - _kinetic(momentum, scales)
        # Half the sum of two squared normals is distributed as −log of a uniform number. A
        # trajectory whose energy is not finite is rejected.
        threshold = 0.5 * jnp.sum(noise.accept**2)
        accept = end.extended - start.extended + heat < threshold
        now: Point = jax.tree.map(partial(jnp.where, accept), end, start)
        after = CTHMCState(
            position=now.position,
            control=now.control,
            accepted=state.accepted + accept.astype(state.accepted.dtype),
            step=state.step + 1,
            model=state.model,
        )
        lam = self.inverse_temperature(now.control)
        info = Info(
            energy=now.total,
            at_unit_temperature=self._on_plateau(now.control),
            temperature=1 / lam,
            hot=lam <= HOT,
            xi_energy=now.tempered,
        )
        return after, info

    def inverse_temperature(self, control: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """λ(u) = min(σ(u)/(1 − a), 1)."""
        plateau = jnp.asarray(self.plateau).astype(control.dtype)
        return jnp.minimum(jax.nn.sigmoid(control) / (1 - plateau), 1)

    def trajectory(
        self, potential: Potential, start: Point, momentum: Momentum, scales: Scales
    ) -> tuple[Point, Momentum]:
        """``num_leapfrog`` steps of half a kick, a drift, and half a kick."""

        def step(carry: tuple[Point, Momentum], _: None) -> tuple[tuple[Point, Momentum], None]:
            point, momentum = carry
            momentum = _half_kick(point, momentum, scales)
            position = jax.tree.map(jnp.add, point.position, momentum.theta)
            point = self._point(potential, position, point.control + momentum.control)
            return (point, _half_kick(point, momentum, scales)), None

        return jax.lax.scan(step, (start, momentum), length=self.num_leapfrog)[0]

    def acceptance_rate(self, state: CTHMCState) -> Float[Array, "*c"]:
        """The share of trajectories accepted; 0.6 to 0.9 is efficient.

        >>> import jax, jax.numpy as jnp, tacthmc
        >>> from tacthmc import samplers
        >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        >>> target = samplers.with_base(target, samplers.gaussian_base(0.0, 2.0))
        >>> sampler = samplers.ct_hmc(0.1, 5)
        >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 1_000)
        >>> bool((sampler.acceptance_rate(run.state) > 0.8).all())
        True
        """
        return state.accepted / jnp.maximum(state.step, 1)

    def log_weights(
        self, energies: np.ndarray, inverse_temperature: float = 1.0
    ) -> Float[np.ndarray, "..."]:
        """log p(λ | θ) of draws at all temperatures, as weights with a mean of one.

        With them, draws of all temperatures are draws from the target, or at any λ from the base
        (0) to the target (1) (:mod:`tacthmc.samplers._conditional_weights`). ``run.log_weights``
        are those of the target with learned normalizers instead of ``log_evidence``.

        Args:
            energies: ``run.stats["tempered_energy"]`` of a run with ``Keep(temperatures="all")``.
            inverse_temperature: λ.
        """
        if not 0 <= inverse_temperature <= 1:
            raise ValueError(f"inverse_temperature must be in [0, 1]; got {inverse_temperature!r}")
        weights = log_weights(
            energies, float(self.log_evidence), float(self.plateau), inverse_temperature
        )
        top = weights.max()
        return weights - top - np.log(np.mean(np.exp(weights - top)))

    def evidence(self, energies: np.ndarray) -> LogEvidence:
        """log Z of exp(−U) relative to the base, and its standard error over chains.

        Args:
            energies: U1 of each chain and row, ``run.after_warmup("xi_energy")``, at all
                temperatures whatever is kept.
        """
        energies = np.atleast_2d(np.asarray(energies, float))
        return evidence(energies, float(self.log_evidence), float(self.plateau))

    def _on_plateau(self, control: Scalar) -> Bool[Array, ""]:
        plateau = jnp.asarray(self.plateau).astype(control.dtype)
        # Rounding reaches σ(u) = 1 without a plateau, too.
        return (plateau > 0) & (jax.nn.sigmoid(control) >= 1 - plateau)

    def _scales(self, state: CTHMCState) -> Scales:
        dtype = state.control.dtype
        eta, control = (
            rate_at(rate, state.step, dtype) for rate in (self.step_size, self.tempering_step_size)
        )
        return Scales(eta, control, spread(self.mass, state.position, "mass"))

    def _fresh(self, noise: CTHMCNoise, scales: Scales) -> Momentum:
        def fresh(n: Array, m: Array) -> Array:
            return n * jnp.sqrt(scales.eta.astype(n.dtype) / m)

        theta = jax.tree.map(fresh, noise.theta, scales.mass)
        return Momentum(theta, noise.control * jnp.sqrt(scales.control_eta))

    def _point(self, potential: Potential, position: Position, control: Scalar) -> Point:
        def extended(position: Position, control: Scalar) -> tuple[Scalar, tuple[Scalar, Scalar]]:
            energy = potential.full(position)
            fixed, tempered = (
                jnp.asarray(x).astype(control.dtype) for x in (energy.fixed, energy.tempered)
            )
            guess = jnp.asarray(self.log_evidence).astype(control.dtype)
            bridge = fixed + self.inverse_temperature(control) * (tempered + guess)
            # −log of the density σ′(u) of a u for which σ(u) is uniform.
            own = jax.nn.softplus(control) + jax.nn.softplus(-control)
            return bridge + own, (fixed + tempered, tempered)

        both = jax.value_and_grad(extended, argnums=(0, 1), has_aux=True)
        (value, (whole, tempered)), gradient = both(position, control)
        return Point(position, control, value, whole, tempered, gradient)


def _half_kick(point: Point, momentum: Momentum, scales: Scales) -> Momentum:
    def kicked(r: Array, gradient: Array, m: Array) -> Array:
        return r - 0.5 * scales.eta.astype(r.dtype) / m * gradient

    by_theta, by_control = point.gradient
    return Momentum(
        jax.tree.map(kicked, momentum.theta, by_theta, scales.mass),
        momentum.control - 0.5 * scales.control_eta * by_control,
    )


def _kinetic(momentum: Momentum, scales: Scales) -> Scalar:
    """½Σ m·r²/η of θ and u."""
    theta = total(sum_of_squares(scales.mass, momentum.theta), scales.eta.dtype) / scales.eta
    return 0.5 * (theta + momentum.control**2 / scales.control_eta)


def check_potential(potential: Potential) -> None:
    """Require a base, and energies without noise."""
    if not has_exact_energies(potential):
        raise ValueError(
            "ct_hmc needs exact energies, because it would take the noise of a batch for a change"
            " of the energy when it accepts or rejects: give it a tacthmc.potential, or a"
            f" posterior with batch_size = the number of examples; got {description(potential)}."
            " tact and samplers.ctld take mini-batches"
        )
    if not potential.traits.is_split:
        raise ValueError(
            "ct_hmc moves between the target and a base, and this potential has no base: use"
            " tacthmc.temper_likelihood(posterior), where the prior is the base, or"
            " samplers.with_base(potential, samplers.gaussian_base(mean, scale))"
        )


def ct_hmc(
    step_size: Rate,
    num_leapfrog: int,
    *,
    log_evidence: Number = 0.0,
    plateau: Number = 0.2,
    tempering_step_size: Rate | None = None,
    mass: Any = 1.0,
) -> ContinuouslyTemperedHMC:
    r"""Continuously tempered HMC (Graham and Storkey 2017): exact energies, and no step-size bias.

    One HMC moves the position θ and a control variable u. With U0 the energy of a base density and
    U0 + U1 that of the target, it leaves

    .. math:: \pi(\theta, u) \propto \exp\big(-U_0(\theta)
        - \lambda(u)\,(U_1(\theta) + \log\zeta)\big)\,\sigma'(u), \qquad
        \lambda(u) = \min\Big(\frac{\sigma(u)}{1 - a},\,1\Big)

    invariant **exactly, at any step size**, with σ the logistic function. The factor σ′(u) is the
    Jacobian of λ: where the energies do not act, λ is uniform on [0, 1], except for the share a
    (``plateau``) at λ = 1. A step is one trajectory: momenta drawn afresh, ``num_leapfrog``
    leapfrog steps

    .. math:: r \leftarrow r - \tfrac12\eta\nabla, \qquad (\theta, u) \leftarrow (\theta, u) + r,
        \qquad r \leftarrow r - \tfrac12\eta\nabla,

    and the end is accepted with probability min(1, exp(−ΔH)). Otherwise the chain stays where it
    was. It costs ``num_leapfrog`` + 1 gradients.

    **The plateau is not in the paper**, whose λ is σ(u) itself (``plateau=0``) and reaches 1 only
    in the limit. Draws on it, where λ = 1, follow the target, so a run keeps them like those of any
    tempered sampler. The paper's own estimator uses the draws of all temperatures, with the
    conditional density of λ at the target as weights, and has log Z too:
    ``run = tacthmc.sample(…, keep=Keep(temperatures="all"))``, then
    ``sampler.log_weights(run.stats["tempered_energy"])`` and
    ``sampler.evidence(run.after_warmup("xi_energy"))``. (``run.log_weights`` are the same weights
    with learned normalizers.)

    **The base** belongs to the potential. :func:`tacthmc.temper_likelihood` makes the prior the
    base, and log Z is then the log evidence if the prior is normalized.
    :func:`tacthmc.samplers.with_base` sets any other, such as
    :func:`tacthmc.samplers.gaussian_base`. exp(−U0) has to be normalizable, which it is not for
    :func:`tacthmc.potentials.temper_block`.

    **Assumptions.** The energies are exact: mini-batches are refused, because the acceptance would
    be wrong. λ is near uniform, so that the chain visits the target, only if ``log_evidence`` is
    near log Z, within a few units. Begin with a guess, and take ``sampler.evidence`` of a first run
    for a second one; the law of the draws is right for any guess. Passages between base and target
    become rarer as the tempered energy fluctuates more, as in all continuous tempering.

    ``run.round_trips`` counts trips from the target to the base (λ ≤ 0.1) and back.
    ``sampler.acceptance_rate(run.state)`` is the share of trajectories that were accepted.

    Args:
        step_size: η of θ, the square of the usual step size ε of HMC.
        num_leapfrog: L, the number of leapfrog steps in a trajectory.
        log_evidence: log ζ, a guess of log Z relative to the base.
        plateau: a, in [0, 1): the share at λ = 1 if the guess is right.
        tempering_step_size: η of u; by default (2/L)², so that a trajectory crosses the range of u.
        mass: as in :func:`tacthmc.tact`.

    References: M. M. Graham, A. J. Storkey. *Continuously tempered Hamiltonian Monte Carlo.*
    UAI 2017. G. Gobbo, B. J. Leimkuhler. *Extended Hamiltonian approach to continuous tempering.*
    Phys. Rev. E 2015.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> from tacthmc import Keep, samplers
    >>> wells = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> target = samplers.with_base(wells, samplers.gaussian_base(0.0, 1.5))
    >>> sampler = ct_hmc(0.01, 10)
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.ones(1), 4_000, 4,
    ...                      keep=Keep(every=2))
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    >>> bool(abs(sampler.evidence(run.after_warmup("xi_energy")).value + 0.05) < 0.2)    # log Z
    True
    """
    checks.positive("step_size", step_size)
    checks.whole("num_leapfrog", num_leapfrog, 1)
    checks.finite("log_evidence", log_evidence)
    checks.non_negative("plateau", plateau)
    share = checks.concrete(plateau)
    if share is not None and share >= 1:
        raise ValueError(f"plateau must be in [0, 1); got {plateau!r}")
    if tempering_step_size is None:
        tempering_step_size = (CONTROL_TRAJECTORY / num_leapfrog) ** 2
    checks.positive("tempering_step_size", tempering_step_size)
    for leaf in jax.tree.leaves(mass):
        checks.all_positive("mass", leaf)
    return ContinuouslyTemperedHMC(
        step_size=step_size,
        num_leapfrog=num_leapfrog,
        log_evidence=log_evidence,
        plateau=plateau,
        tempering_step_size=tempering_step_size,
        mass=mass,
    )
