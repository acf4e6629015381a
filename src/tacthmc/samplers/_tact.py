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
    ModeJumps,
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
    jumps: ModeJumps | None = None,
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
    jumps: ModeJumps | None = None,
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
    jumps: ModeJumps | None = None,
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

    inside the well. So on the plateau |ξ| ≤ ξ0, where λ = T, θ follows the posterior exp(−U) *for
    any bias A*. ξ is uniform once A is the free energy.

    **Assumptions**, and the cost where they fail:

    * θ has relaxed at unit temperature when it is kept. In high dimension a θ that has entered the
      plateau quickly is hotter than the posterior for a while; ``Keep(relaxation_window=…)`` waits.
    * The noise of the force has the same variance everywhere, also across temperatures, because
      all share z_θ. Where it grows with |θ|, the variance on the plateau is too small.
    * The noises of Ũ and f̃ are independent, and that of Ũ is the same everywhere. But one
      mini-batch gives both. For batches of a :func:`tacthmc.posterior` drawn with replacement the
      splitting corrects for that (see below), and z_ξ then settles at c_ξ/T.
    * Batches are drawn independently (``batches="replacement"``). Reshuffled epochs are not.
    * The noise is Gaussian, and isotropic over the coordinates that share a friction, in the shape
      of the friction (see :mod:`tacthmc.dynamics._thermostat`). Noise that is correlated between
      coordinates is balanced in the mean only. So η has to be small enough that its friction
      ηv_f/2 is well below c where correlations are strong.
    * Nothing is capped. ``ContinuousTempering(max_speed=…)`` changes the law of ξ, but not that of
      θ on the plateau.
    * The step is small: the error of the splitting is of order η, that of Euler of order √η.

    **The covariance correction** (:class:`tacthmc.dynamics.CovarianceCorrection`) removes the heat
    of the noise that f̃ and Ũ share. With v̂_U, the estimate of the variance of the energy from the
    batch itself, the force and energy of a step are those of

    .. math:: \tilde U(\theta) + \tfrac12\,\Delta\lambda\,\hat v_U(\theta), \qquad
        \Delta\lambda = \lambda' r_\xi / T.

    ``ContinuousTempering(batch_noise=None)`` leaves it out.

    **Without a step size**, short runs before the first step choose all numbers that are not given
    (:func:`tacthmc.tune`). With a step size, the other numbers have the defaults below.

    Args:
        step_size: η_θ = Δt²/m in full-data units, where U is the sum over the data set.
            :func:`tacthmc.samplers.per_datum` converts a learning rate on the mean loss. None
            leaves it to tuning.
        noise: c_θ, the level of injected noise, 0.1 by default. Without other noise it is the
            friction per step.
        tempering: everything about ξ. The default is :class:`tacthmc.dynamics.ContinuousTempering`,
            the paper's, with the coupling λ(ξ), the bias, η_ξ, c_ξ and the thermostat of ξ.
            :class:`tacthmc.dynamics.ScheduledTempering` is for energies too noisy for ξ to move by
            forces; the invariant density above then holds only in the limit of slow schedules.
        thermostat: the thermostat of θ: AutomaticThermostat (default: one friction for each
            coordinate of small leaves, and one for each large leaf), ScalarThermostat (the
            paper's), TensorThermostat, DiagonalThermostat, MatrixThermostat or NoThermostat, each
            with an inertia γ or a relative inertia Γ.
        coordinates: linear coordinates in which the posterior is rounder, or coordinates that
            widen with the temperature, which keep ξ moving in high dimension
            (:class:`tacthmc.dynamics.Coordinates`). By default θ itself.
        mass: m_θ relative to the mass in η_θ, 1 by default: a number, or a pytree of numbers (one
            per leaf) or arrays (diagonal preconditioning) that matches the position.
        integrator: Splitting() by default; Euler() for Algorithm 1.
        bath_temperature: T, the target of the thermostats. The plateau stays at the temperature of
            the posterior, T/λ = 1, for any T.
        refresh: when the momenta of θ are drawn afresh (:class:`tacthmc.dynamics.Refresh`); by
            default never.
        jumps: moves on the plateau between known modes (:class:`tacthmc.dynamics.ModeJumps`), by
            energies of all data.

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
                    f"{name} needs a step size, tact(step_size, {name}=…); without one it would do"
                    f" nothing. Got {value!r}"
                )
        fixed: dict[str, Any] = {"noise": noise, "tempering": tempering, "jumps": jumps}
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
        jumps=jumps,
    )


def per_datum(learning_rate: Rate, num_data: int) -> Rate:
    """The step size η = learning_rate/N for a learning rate on the mean loss.

    The update −η∇U, with U the sum over N examples, is −(ηN)∇(U/N), so the learning rate of an
    optimizer corresponds to η·N. All samplers take the result: ``tact(per_datum(0.01, 50_000))``.

    >>> per_datum(0.01, num_data=50_000)
    2e-07
    """
    checks.positive("learning_rate", learning_rate)
    checks.whole("num_data", num_data, 1)
    if callable(learning_rate):
        return lambda step: learning_rate(step) / num_data
    return learning_rate / num_data


def tact_from_tuple(
    hyperparameters: Sequence[Number],
    num_data: int,
    variant: Literal["algorithm1", "splitting", "authors"] = "algorithm1",
) -> Langevin:
    """TACT-HMC from the paper's 7-tuple [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K], which is per datum.

    The loss of the authors is a mean over N examples, so their η's are learning rates:
    η_full = η/N. K is also the interval of kept draws:
    ``sample(…, keep=tacthmc.Keep(every=K))``.

    * "algorithm1": Algorithm 1 to the letter: Euler, the paper's coupling, the bias averaged
      with the global 1/k, and momenta of θ and ξ drawn afresh every K steps on the plateau.
    * "splitting": the same numbers with the integrator and bias of this library, and one friction.
    * "authors": the choices of the authors' published code, without its defects: plateau ±0.1,
      walls ±1, temperature 6 at the walls, metadynamics on 2,000 bins of width 1e-3 with the
      increment (1e-3 per datum) spread over 3, η_ξ = η_θ/100 (not that of the tuple), one
      thermostat per tensor, draws kept within 0.85 of the plateau, momenta of θ drawn afresh every
      K steps everywhere, and r_ξ drawn afresh when it reaches 0.25.

    >>> sampler = tact_from_tuple([0.0010, 0.0010, 0.10, 0.10, 1.0, 1.0, 50], num_data=50_000)
    >>> sampler.step_size, sampler.refresh.every
    (2e-08, 50)
    """
    eta, xi_eta, c, xi_c, gamma, xi_gamma, every = _checked_tuple(hyperparameters)
    checks.whole("num_data", num_data, 1)
    if not isinstance(variant, str):
        raise TypeError(f"variant must be the name of a variant; got {variant!r}")
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
        # Their bias acts beside the mean loss, so its height is N times that in full-data units.
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


def _checked_tuple(hyperparameters: Sequence[Number]) -> tuple[Any, ...]:
    if not isinstance(hyperparameters, (list, tuple)) and not hasattr(hyperparameters, "shape"):
        raise TypeError(f"hyperparameters must be seven numbers; got {hyperparameters!r}")
    if len(hyperparameters) != 7:
        raise ValueError(
            "hyperparameters must be seven numbers [η_θ, η_ξ, c_θ, c_ξ, γ_θ, γ_ξ, K]; got"
            f" {len(hyperparameters)}"
        )
    *rates, every = hyperparameters
    names = ("η_θ", "η_ξ", "c_θ", "c_ξ", "γ_θ", "γ_ξ")
    for name, value in zip(names, rates, strict=True):
        check = checks.non_negative if name.startswith("c") else checks.positive
        check(f"{name} of hyperparameters", value)
    checks.positive("K of hyperparameters", every)
    if int(every) != every:
        raise ValueError(f"K of hyperparameters must be a whole number; got {every!r}")
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
    """The paper's ablation: TACT-HMC with constant friction instead of thermostats.

    It is right only if neither the energy nor the force has noise. With noisy gradients the chain
    is too hot and its histogram too wide. The arguments are those of :func:`tact`. If you pass
    ``tempering``, give it ``thermostat=NoThermostat()``.

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
