r"""TACT-HMC, the paper's sampler, and its two ablations."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from tacthmc import _checks as checks
from tacthmc._typing import Number, Rate
from tacthmc.dynamics import (
    ContinuousTempering,
    Coordinates,
    Euler,
    Integrator,
    Langevin,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
    NoThermostat,
    PowerCoupling,
    Refresh,
    ScalarThermostat,
    Tempering,
    TensorThermostat,
    Thermostat,
)
from tacthmc.samplers._untuned import Untuned


@overload
def tact(
    step_size: Rate,
    *,
    noise: Rate | None = None,
    tempering: Tempering | None = None,
    thermostat: Thermostat | None = None,
    coordinates: Coordinates | None = None,
    mass: Any = None,
    integrator: Integrator | None = None,
    bath_temperature: Number | None = None,
    refresh: Refresh | None = None,
) -> Langevin: ...


@overload
def tact(
    step_size: None = None,
    *,
    noise: Number | None = None,
    tempering: ContinuousTempering | None = None,
    thermostat: Thermostat | None = None,
    coordinates: Coordinates | None = None,
    refresh: Refresh | None = None,
) -> Untuned: ...


def tact(
    step_size: Rate | None = None,
    *,
    noise: Rate | None = None,
    tempering: Tempering | None = None,
    thermostat: Thermostat | None = None,
    coordinates: Coordinates | None = None,
    mass: Any = None,
    integrator: Integrator | None = None,
    bath_temperature: Number | None = None,
    refresh: Refresh | None = None,
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
        N\Big(z_\theta; \tfrac{c_\theta + \eta_\theta v_f/2}{T},
            \tfrac{\eta_\theta T}{\gamma_\theta D}\Big)\,
        N\Big(z_\xi; \tfrac{c_\xi + \eta_\xi v_U/2}{T}, \tfrac{\eta_\xi T}{\gamma_\xi}\Big)

    inside the well, so that on the plateau |ξ| ≤ ξ0, where λ = T, θ follows the posterior
    exp(−U) *whatever the bias A is*. ξ is uniform once A is the free energy.

    **Assumptions under which this holds**, and what it costs where they fail:

    * θ has relaxed at unit temperature when it is kept. Entering the plateau quickly in high
      dimension leaves θ hotter than the posterior for a while; ``Keep(relaxation_window=…)`` waits.
    * The force's noise has the same variance everywhere, also across temperatures, since z_θ
      is shared by all. Where it grows with |θ|, the plateau's variance comes out low.
    * The noises of Ũ and f̃ are independent, and that of Ũ is the same everywhere. One mini-batch
      makes both. For batches of a :func:`tacthmc.posterior` drawn with replacement the splitting
      corrects for that, as below, and z_ξ then settles at c_ξ/T.
    * Batches are drawn independently (``batches="replacement"``). Reshuffled epochs are not.
    * The noise is Gaussian and isotropic over the coordinates that share a thermostat, in
      the shape of the friction (see :mod:`tacthmc.dynamics._thermostat`).
    * Nothing is capped. ``ContinuousTempering(max_speed=…)`` breaks ξ's law (not θ's on the plateau).
    * The step is small: the splitting's error is of order η, Euler's of order √η.

    **The covariance correction** (:class:`tacthmc.dynamics.CovarianceCorrection`) takes out the heat
    that the noise common to f̃ and Ũ brings in. With v̂_U the batch's own estimate of the energy's
    variance, force and energy of a step are those of

    .. math:: \tilde U(\theta) + \tfrac12\,\Delta\lambda\,\hat v_U(\theta), \qquad
        \Delta\lambda = \lambda' r_\xi / T,

    and ``ContinuousTempering(batch_noise=None)`` leaves it out.

    **Without a step size** the numbers are chosen by short runs before the first step
    (:func:`tacthmc.tune`), all but those that are given. Left out beside a step size, they have
    the defaults below.

    Args:
        step_size: η_θ = Δt²/m in full-data units: U is the sum over the data set. For a learning
            rate on the mean loss see :func:`tacthmc.samplers.per_datum`. None to have it chosen.
        noise: c_θ, the level of injected noise, 0.1 by default; the friction per step without
            other noise.
        tempering: everything about ξ: :class:`tacthmc.dynamics.ContinuousTempering` by default,
            the paper's, with the coupling λ(ξ), the bias, η_ξ, c_ξ and ξ's thermostat; or
            :class:`tacthmc.dynamics.ScheduledTempering`, where the energy is too noisy for ξ to
            move by itself. Then the invariant density above does not hold, but its limit for
            slow schedules.
        thermostat: for θ: ScalarThermostat (default), TensorThermostat, DiagonalThermostat,
            MatrixThermostat or NoThermostat, each with inertia γ or relative inertia Γ.
        coordinates: linear ones, in which the posterior is rounder, or ones that widen with the
            temperature, which keeps ξ moving in high dimension
            (:class:`tacthmc.dynamics.Coordinates`); θ's own by default.
        mass: m_θ relative to the mass in η_θ, 1 by default: a number, or a pytree of numbers (one
            per tensor) or arrays (diagonal preconditioning) that matches the position.
        integrator: Splitting() by default, Euler() for Algorithm 1.
        bath_temperature: T, the thermostats' target. The plateau stays at the posterior's own
            temperature, T/λ = 1, for any T.
        refresh: when θ's momenta are drawn afresh (:class:`tacthmc.dynamics.Refresh`); never by
            default.

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
    if step_size is None:
        given = {"mass": mass, "integrator": integrator, "bath_temperature": bath_temperature}
        for name, value in given.items():
            if value is not None:
                raise TypeError(
                    f"{name} goes with numbers of your own, tact(step_size, {name}=…); without a"
                    f" step size it would do nothing. Got {value!r}"
                )
        fixed: dict[str, Any] = {"noise": noise, "tempering": tempering}
        return Untuned(thermostat=thermostat, coordinates=coordinates, refresh=refresh, **fixed)
    return Langevin(
        step_size,
        noise=0.1 if noise is None else noise,
        thermostat=thermostat,
        tempering=ContinuousTempering() if tempering is None else tempering,
        coordinates=coordinates,
        mass=1.0 if mass is None else mass,
        integrator=integrator,
        bath_temperature=1.0 if bath_temperature is None else bath_temperature,
        refresh=refresh,
    )


def per_datum(learning_rate: Rate, num_data: int) -> Rate:
    """The step size η of a learning rate on the mean loss, η·N.

    The update −η∇U with U the sum over N examples is −(ηN)∇(U/N): what an optimizer calls its
    learning rate is η·N. ``tact(per_datum(0.01, 50_000))`` takes it, as do all other samplers.

    >>> per_datum(0.01, num_data=50_000)
    2e-07
    """
    checks.positive("learning_rate", learning_rate)
    checks.whole("num_data", num_data, 1)
    if callable(learning_rate):
        return lambda step: learning_rate(step) / num_data
    return learning_rate / num_data


def tact_from_tuple(
    seven: Sequence[Number],
    num_data: int,
    variant: Literal["algorithm1", "splitting", "authors"] = "algorithm1",
) -> Langevin:
    """The paper's 7-tuple [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K], per datum as its authors use it.

    With the loss a mean over N examples, the η's are learning rates: η_full = η/N. K also says
    which draws are kept: ``sample(…, keep=tacthmc.Keep(every=K))``.

    * "algorithm1": Algorithm 1 to the letter: Euler, the paper's coupling, the bias averaged
      with the global 1/k, momenta of θ and ξ redrawn every K steps on the plateau.
    * "splitting": the same numbers with this library's integrator, bias and thermostats.
    * "authors": the choices of the authors' published code, less its defects: plateau ±0.1,
      walls ±1, temperature 6 at the walls, metadynamics on 2,000 bins of width 1e-3 with the
      increment (1e-3 per datum) spread over 3, η_ξ = η_θ/100 whatever the tuple says, one
      thermostat per tensor, draws kept within 0.85 of the plateau, θ's momenta redrawn every K
      steps everywhere, r_ξ redrawn when it reaches 0.25.

    >>> sampler = tact_from_tuple([0.0010, 0.0010, 0.10, 0.10, 1.0, 1.0, 50], num_data=50_000)
    >>> sampler.step_size, sampler.refresh.every
    (2e-08, 50)
    """
    eta, xi_eta, c, xi_c, gamma, xi_gamma, every = _checked_seven(seven)
    checks.whole("num_data", num_data, 1)
    eta, xi_eta = eta / num_data, xi_eta / num_data
    inertia = ScalarThermostat(gamma=xi_gamma)
    if variant == "algorithm1":
        xi = ContinuousTempering(
            PowerCoupling(),
            LiteralAdaptiveBiasingForce(),
            step_size=xi_eta,
            noise=xi_c,
            thermostat=inertia,
            refresh=Refresh(every),
        )
        own = ScalarThermostat(gamma=gamma)
        return tact(
            eta, noise=c, tempering=xi, thermostat=own, integrator=Euler(), refresh=Refresh(every)
        )
    if variant == "splitting":
        xi = ContinuousTempering(PowerCoupling(), step_size=xi_eta, noise=xi_c, thermostat=inertia)
        return tact(eta, noise=c, tempering=xi, thermostat=ScalarThermostat(gamma=gamma))
    if variant != "authors":
        raise ValueError(f"variant must be 'algorithm1', 'splitting' or 'authors'; got {variant!r}")
    xi = ContinuousTempering(
        PowerCoupling.up_to(6.0, plateau=0.1, wall=1.0),
        # Their bias acts on ξ beside the mean loss: in full-data units it is N times that.
        Metadynamics(bins=2000, height=1e-3 * num_data, spread=1),
        step_size=eta / 100,
        noise=xi_c,
        thermostat=inertia,
        max_speed=0.25,
        keep_within=0.85,
    )
    return tact(
        eta,
        noise=c,
        tempering=xi,
        thermostat=TensorThermostat(gamma=gamma),
        integrator=Euler(),
        refresh=Refresh(every, everywhere=True),
    )


def _checked_seven(seven: Sequence[Number]) -> tuple[Any, ...]:
    if len(seven) != 7:
        raise ValueError(
            f"expected seven numbers [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K]; got {len(seven)}"
        )
    *rates, every = seven
    for name, value in zip(("η_θ", "η_ξ"), rates, strict=False):
        checks.positive(name, value)
    if int(every) != every:
        raise ValueError(f"K must be a whole number; got {every!r}")
    return (*rates, int(every))


def without_thermostat(
    step_size: Rate,
    *,
    noise: Rate = 0.1,
    tempering: ContinuousTempering | None = None,
    mass: Any = None,
    integrator: Integrator | None = None,
    bath_temperature: Number | None = None,
    refresh: Refresh | None = None,
) -> Langevin:
    """The paper's ablation: tempered, with constant friction instead of thermostats.

    Right only if neither energy nor force has noise of its own; with noisy gradients the
    chain is too hot and its histogram too wide. Arguments are :func:`tact`'s; a ``tempering`` of
    your own says itself that ξ has ``NoThermostat()``.

    >>> sampler = without_thermostat(0.01)
    >>> type(sampler.thermostat).__name__, type(sampler.tempering.thermostat).__name__
    ('NoThermostat', 'NoThermostat')
    """
    if tempering is None:
        tempering = ContinuousTempering(thermostat=NoThermostat())
    return tact(
        step_size,
        noise=noise,
        tempering=tempering,
        thermostat=NoThermostat(),
        mass=mass,
        integrator=integrator,
        bath_temperature=bath_temperature,
        refresh=refresh,
    )
