r"""TACT-HMC, the paper's sampler, and its two ablations."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from tacthmc import _checks as checks
from tacthmc._typing import Number, Rate
from tacthmc.dynamics._bias import (
    AdaptiveBiasingForce,
    Bias,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
)
from tacthmc.dynamics._coupling import Coupling, PowerCoupling
from tacthmc.dynamics._heated_block import HeatedBlock
from tacthmc.dynamics._integrator import Euler, Integrator
from tacthmc.dynamics._langevin import Langevin, Refresh
from tacthmc.dynamics._linear_map import Frame
from tacthmc.dynamics._relaxation import Relaxed
from tacthmc.dynamics._schedule import Sweep
from tacthmc.dynamics._thermostat import (
    NoThermostat,
    ScalarThermostat,
    TensorThermostat,
    Thermostat,
)
from tacthmc.samplers._untuned import Untuned


@overload
def tact(
    step_size: Rate,
    *,
    noise: Rate | None = None,
    xi_step_size: Rate | None = None,
    xi_noise: Rate | None = None,
    thermostat: Thermostat | None = None,
    xi_thermostat: Thermostat | None = None,
    coupling: Coupling | None = None,
    bias: Bias | None = None,
    mass: Any = None,
    integrator: Integrator | None = None,
    bath_temperature: Number | None = None,
    keep_every: int | None = None,
    keep_within: Number | None = None,
    refresh: Refresh | None = None,
    xi_speed_limit: Number | None = None,
    centre: Any = None,
    frame: Frame | None = None,
    sweep: Sweep | None = None,
    relaxed: Relaxed | None = None,
    heated: HeatedBlock | None = None,
) -> Langevin: ...


@overload
def tact(
    step_size: None = None,
    *,
    noise: Number | None = None,
    xi_step_size: Number | None = None,
    xi_noise: Number | None = None,
    thermostat: Thermostat | None = None,
    xi_thermostat: Thermostat | None = None,
    coupling: Coupling | None = None,
    bias: Bias | None = None,
    keep_every: int | None = None,
    keep_within: Number | None = None,
    refresh: Refresh | None = None,
    centre: Any = None,
    frame: Frame | Literal["diagonal"] | None = None,
) -> Untuned: ...


def tact(
    step_size: Rate | None = None,
    *,
    noise: Rate | None = None,
    xi_step_size: Rate | None = None,
    xi_noise: Rate | None = None,
    thermostat: Thermostat | None = None,
    xi_thermostat: Thermostat | None = None,
    coupling: Coupling | None = None,
    bias: Bias | None = None,
    mass: Any = None,
    integrator: Integrator | None = None,
    bath_temperature: Number | None = None,
    keep_every: int | None = None,
    keep_within: Number | None = None,
    refresh: Refresh | None = None,
    xi_speed_limit: Number | None = None,
    centre: Any = None,
    frame: Any = None,
    sweep: Sweep | None = None,
    relaxed: Relaxed | None = None,
    heated: HeatedBlock | None = None,
) -> Langevin | Untuned:
    r"""Thermostat-assisted continuously-tempered Hamiltonian Monte Carlo.

    In the paper's variables (r = pΔt/m, z = sΔt, η = Δt²/m), with T·λ for λ:

    .. math::
        d\theta &= r_\theta, &
        dr_\theta &= \lambda(\eta_\theta\tilde f + N(0, 2c_\theta\eta_\theta))
            - \lambda^2 z_\theta r_\theta, &
        dz_\theta &= \lambda^2(\langle r_\theta^2\rangle - \eta_\theta T)/\gamma_\theta \\
        d\xi &= r_\xi, &
        dr_\xi &= -\lambda'(\eta_\xi\tilde U + N(0, 2c_\xi\eta_\xi)) + \eta_\xi A'(\xi)
            - \lambda'^2 z_\xi r_\xi, &
        dz_\xi &= \lambda'^2(r_\xi^2 - \eta_\xi T)/\gamma_\xi

    **Invariant density** (Theorem 1), for force noise of variance v_f and energy noise of
    variance v_U:

    .. math::
        \pi \propto \exp\Big(-\frac{\lambda(\xi) U(\theta) - A(\xi)}{T}\Big)\,
        N(r_\theta; 0, \eta_\theta T)\, N(r_\xi; 0, \eta_\xi T)\,
        N\Big(z_\theta; \tfrac{c_\theta + \eta_\theta v_f/2}{T}, \tfrac{\eta_\theta T}{\gamma_\theta D}\Big)\,
        N\Big(z_\xi; \tfrac{c_\xi + \eta_\xi v_U/2}{T}, \tfrac{\eta_\xi T}{\gamma_\xi}\Big)

    inside the well, so that on the plateau |ξ| ≤ ξ0, where λ = T, θ follows the posterior
    exp(−U) *whatever the bias A is*. ξ is uniform once A is the free energy.

    **Assumptions under which this holds**, and what it costs where they fail:

    * θ has relaxed at unit temperature when it is kept. Entering the plateau quickly in high
      dimension leaves θ hotter than the posterior for a while; ``relaxed`` waits for it.
    * The force's noise has the same variance everywhere, also across temperatures, since z_θ
      is shared by all. Where it grows with |θ|, the plateau's variance comes out low.
    * The noises of Ũ and f̃ are independent, and that of Ũ is the same everywhere. One mini-batch
      makes both; for batches of a :func:`tacthmc.posterior` drawn with replacement the splitting
      tilts force and energy against that (:mod:`tacthmc.potentials._batch_noise`), and z_ξ then settles at c_ξ/T.
    * Batches are drawn independently (``batches="replacement"``). Reshuffled epochs are not.
    * The noise is Gaussian and isotropic over the coordinates that share a thermostat, in
      the shape of the friction (see :mod:`tacthmc.dynamics._thermostat`).
    * Nothing is capped. ``xi_speed_limit`` breaks ξ's law (not θ's on the plateau).
    * The step is small: the splitting's error is of order η, Euler's of order √η.

    **Without a step size** the numbers are chosen by short runs before the first step
    (:func:`tacthmc.tune`), all but those that are given. Left out beside a step size, they have
    the defaults below.

    Args:
        step_size: η_θ = Δt²/m in full-data units: U is the sum over the data set. For a
            learning rate per datum see :func:`tact_per_datum`. None to have it chosen.
        noise: c_θ, the level of injected noise, 0.1 by default; the friction per step without
            other noise.
        xi_step_size: η_ξ; η_θ if not given.
        xi_noise: c_ξ; c_θ if not given.
        thermostat: for θ: ScalarThermostat (default), TensorThermostat, DiagonalThermostat,
            MatrixThermostat or NoThermostat, each with inertia γ or relative inertia Γ.
        xi_thermostat: for ξ: ScalarThermostat (default) or NoThermostat.
        coupling: λ(ξ); by default PowerCoupling.up_to(9.0, power=2): the paper's family with
            its plateau, walls and hottest temperature, but n = 2 for its 3, which leaves less
            of ξ's way to temperatures that are hardly above one. Or CustomCoupling.
        bias: AdaptiveBiasingForce() by default; Metadynamics, well_tempered, NoBias, ….
        mass: m_θ relative to the mass in η_θ, 1 by default: a number, or a pytree of numbers (per tensor)
            or arrays (diagonal: preconditioning) that matches the position.
        integrator: Splitting() by default, Euler() for Algorithm 1.
        bath_temperature: T, the thermostats' target. The plateau stays at the posterior's own
            temperature, T/λ = 1, for any T.
        keep_every: K, 50 by default; θ is kept at every K-th step if ξ is on the plateau.
        keep_within: keep only where |ξ| ≤ keep_within·ξ0; 1 by default.
        refresh: which momenta are redrawn at every K-th step; none by default.
        xi_speed_limit: redraw r_ξ whenever |r_ξ| reaches this (the authors use 0.25).
        centre: "mean" lets θ widen about the plateau's mean as ξ heats, which keeps ξ moving in
            high dimension (:mod:`tacthmc.dynamics._temperature_scaled`); a position (or a number for all of it)
            fixes the centre; None is the paper's form.
        frame: linear coordinates to move in (:class:`tacthmc.dynamics.Frame`), where the posterior is
            rounder; None for θ's own.
        sweep: lead ξ up and down by the step count (:class:`tacthmc.dynamics.Sweep`) where what it feels is
            too noisy for it to move by itself; then the invariant density above does not hold,
            but its limit for slow sweeps.
        relaxed: keep nothing after a return to the plateau before the energy has stopped falling
            (:class:`tacthmc.dynamics.Relaxed`).
        heated: the part of the position that moves off the plateau, while the rest stands still
            (:class:`tacthmc.dynamics.HeatedBlock`); all of it by default.

    Rates may be schedules: functions of the step count.

    Reference: R. Luo, J. Wang, Y. Yang, Z. Zhu, J. Wang. *Thermostat-assisted
    continuously-tempered Hamiltonian Monte Carlo for Bayesian learning.* NeurIPS 2018.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 4.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> run = tacthmc.sample(jax.random.key(0), tact(step_size=1e-2), target,
    ...                      init=jnp.ones(1), num_steps=20_000, num_chains=4)
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    """
    settings: dict[str, Any] = {
        "noise": noise,
        "xi_step_size": xi_step_size,
        "xi_noise": xi_noise,
        "thermostat": thermostat,
        "xi_thermostat": xi_thermostat,
        "coupling": coupling,
        "bias": bias,
        "mass": mass,
        "integrator": integrator,
        "bath_temperature": bath_temperature,
        "keep_every": keep_every,
        "keep_within": keep_within,
        "refresh": refresh,
        "xi_speed_limit": xi_speed_limit,
        "centre": centre,
        "frame": frame,
        "sweep": sweep,
        "relaxed": relaxed,
        "heated": heated,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    if step_size is None:
        return Untuned(**given)
    given.setdefault("coupling", PowerCoupling.up_to(9.0, power=2))
    given.setdefault("bias", AdaptiveBiasingForce())
    return Langevin(step_size, **given)


IDLE = ("xi_step_size", "xi_noise", "xi_speed_limit")
"""What does nothing where ξ is swept."""


def tact_per_datum(learning_rate: Rate, num_data: int, **settings: Any) -> Langevin:
    """:func:`tact` with its step size given as a learning rate on the mean loss, η·N.

    The update −η∇U with U the sum over N examples is −(ηN)∇(U/N): what an optimiser calls its
    learning rate is η·N. ``xi_learning_rate`` does the same for ξ; all other settings are
    :func:`tact`'s.

    >>> tact_per_datum(0.01, num_data=50_000).step_size
    2e-07
    """
    checks.positive("learning_rate", learning_rate)
    checks.whole("num_data", num_data, 1)
    xi_rate = settings.pop("xi_learning_rate", None)
    if xi_rate is not None:
        checks.positive("xi_learning_rate", xi_rate)
        settings["xi_step_size"] = _divided(xi_rate, num_data)
    return tact(_divided(learning_rate, num_data), **settings)


def _divided(rate: Rate, by: int) -> Rate:
    return (lambda step: rate(step) / by) if callable(rate) else rate / by


def tact_from_tuple(
    seven: Sequence[Number],
    num_data: int,
    variant: Literal["algorithm1", "splitting", "authors"] = "algorithm1",
    **settings: Any,
) -> Langevin:
    """The paper's 7-tuple [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K], per datum as its authors use it.

    With the loss a mean over N examples, the η's are learning rates: η_full = η/N.

    * "algorithm1": Algorithm 1 to the letter: Euler, the paper's coupling, the bias averaged
      with the global 1/k, momenta of θ and ξ redrawn every K steps on the plateau.
    * "splitting": the same numbers with this library's integrator, bias and thermostats.
    * "authors": the choices of the authors' published code, less its defects: plateau ±0.1,
      walls ±1, temperature 6 at the walls, metadynamics on 2,000 bins of width 1e-3 with the
      increment (1e-3 per datum) spread over 3, η_ξ = η_θ/100 whatever the tuple says, one
      thermostat per tensor, draws kept within 0.85 of the plateau, θ's momenta redrawn every K
      steps everywhere, r_ξ redrawn when it reaches 0.25.

    Each of these is an argument of :func:`tact`; ``settings`` override the variant's choices.

    >>> sampler = tact_from_tuple([0.0010, 0.0010, 0.10, 0.10, 1.0, 1.0, 50], num_data=50_000)
    >>> sampler.step_size, sampler.keep_every
    (2e-08, 50)
    """
    if len(seven) != 7:
        raise ValueError(
            f"expected seven numbers [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K]; got {len(seven)}"
        )
    eta, xi_eta, c, xi_c, gamma, xi_gamma, keep_every = seven
    for name, value in zip(("η_θ", "η_ξ"), (eta, xi_eta), strict=True):
        checks.positive(name, value)
    checks.whole("num_data", num_data, 1)
    if int(keep_every) != keep_every:
        raise ValueError(f"K must be a whole number; got {keep_every!r}")
    common: dict[str, Any] = {
        "noise": c,
        "xi_noise": xi_c,
        "xi_step_size": xi_eta / num_data,
        "thermostat": ScalarThermostat(gamma=gamma),
        "xi_thermostat": ScalarThermostat(gamma=xi_gamma),
        "keep_every": int(keep_every),
    }
    choices: dict[str, dict[str, Any]] = {
        "authors": {
            "xi_step_size": eta / num_data / 100,
            "thermostat": TensorThermostat(gamma=gamma),
            "coupling": PowerCoupling.up_to(6.0, plateau=0.1, wall=1.0),
            # Their bias acts on ξ beside the mean loss: in full-data units it is N times that.
            "bias": Metadynamics(bins=2000, height=1e-3 * num_data, spread=1),
            "integrator": Euler(),
            "keep_within": 0.85,
            "refresh": Refresh(theta=True, everywhere=True),
            "xi_speed_limit": 0.25,
        },
        "algorithm1": {
            "coupling": PowerCoupling(),
            "bias": LiteralAdaptiveBiasingForce(),
            "integrator": Euler(),
            "refresh": Refresh(theta=True, xi=True),
        },
        "splitting": {"coupling": PowerCoupling()},
    }
    if variant not in choices:
        raise ValueError(f"variant must be 'algorithm1', 'splitting' or 'authors'; got {variant!r}")
    made = common | choices[variant] | settings
    if made.get("sweep") is not None:
        # Whose path is prescribed: the tuple's numbers for ξ move nothing.
        made = {k: v for k, v in made.items() if k in settings or k not in IDLE}
    return tact(made.pop("step_size", eta / num_data), **made)


def without_thermostat(step_size: Rate, **settings: Any) -> Langevin:
    """The paper's ablation: tempered, with constant friction instead of thermostats.

    Right only if neither energy nor force has noise of its own; with noisy gradients the
    chain is too hot and its histogram too wide. Settings are :func:`tact`'s.

    >>> type(without_thermostat(0.01).thermostat).__name__
    'NoThermostat'
    """
    return tact(step_size, thermostat=NoThermostat(), xi_thermostat=NoThermostat(), **settings)
