"""Bad input: a clear error before any sampling. NaN on the way: a report, and the draws."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    ContinuousTempering,
    CustomCoupling,
    Euler,
    Metadynamics,
    PowerCoupling,
    ScalarThermostat,
    well_tempered,
)
from tacthmc.potentials import measure_noise
from tacthmc.samplers import per_datum, tact_from_tuple

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)


def gaussian():
    return tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))


def run(sampler=None, potential=None, init=None, num_steps=100, num_chains=1, **more):
    sampler = tacthmc.sgnht(0.01) if sampler is None else sampler
    potential = gaussian() if potential is None else potential
    init = jnp.zeros(2) if init is None else init
    return tacthmc.sample(KEY, sampler, potential, init, num_steps, num_chains, **more)


@pytest.mark.parametrize("size", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "make", [tacthmc.tact, tacthmc.sghmc, tacthmc.sgld, tacthmc.samplers.psgld]
)
def test_step_size_must_be_positive(make, size):
    with pytest.raises(ValueError, match="step_size must be a finite number > 0; got"):
        make(size)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tacthmc.tact(0.01, noise=-0.1), "noise must be"),
        (lambda: tacthmc.tact(0.01, mass=-1.0), "mass must be"),
        (lambda: tacthmc.Keep(every=0), "Keep.every must be"),
        (lambda: tacthmc.Keep(after=-1), "Keep.after must be"),
        (lambda: ContinuousTempering(keep_within=1.5), "keep_within must be"),
        (lambda: ContinuousTempering(step_size=0.0), "tempering.step_size must be"),
        (lambda: ContinuousTempering(noise=-0.1), "tempering.noise must be"),
        (lambda: ContinuousTempering(max_speed=0.0), "max_speed must be"),
        (lambda: tacthmc.tact(0.01, bath_temperature=0.0), "bath_temperature must be"),
        (lambda: ScalarThermostat(gamma=0.0), "gamma must be"),
        (lambda: ScalarThermostat(gamma=1.0, steps=10.0), "not both"),
        (lambda: AdaptiveBiasingForce(bins=1), "bins must be"),
        (lambda: well_tempered(boost=0.0), "boost"),
        (lambda: PowerCoupling(plateau=2.0), "must lie inside the walls"),
        (lambda: PowerCoupling(unit=0.2), "unit"),
        (lambda: PowerCoupling(plateau=-0.1), "plateau"),
        (lambda: PowerCoupling.up_to(0.5), "hottest"),
        (
            lambda: CustomCoupling(lambda xi: 0.9 + 0.0 * xi, 0.2, 1.0),
            "must be 1 on the plateau",
        ),
        (lambda: CustomCoupling(lambda xi: 1.0 - 2.0 * xi**2, 0.2, 1.0), "λ > 0"),
        (
            lambda: CustomCoupling(lambda xi: jnp.where(jnp.abs(xi) <= 0.2, 1.0, 0.5), 0.2, 1.0),
            "continuous",
        ),
        (lambda: Metadynamics(bins=2, spread=1), "at least 3 bins"),
        (lambda: tacthmc.samplers.psgld(0.01, decay=1.0), "decay must be"),
        (
            lambda: tacthmc.noisy(gaussian(), covariance=jnp.array([[1.0, 0.5], [0.0, 1.0]])),
            "symmetric",
        ),
        (lambda: tact_from_tuple([0.1] * 6, num_data=10), "seven numbers"),
        (lambda: per_datum(0.1, num_data=0), "num_data must be"),
        (lambda: per_datum(0.0, num_data=5), "learning_rate must be"),
        (lambda: tacthmc.noisy(gaussian(), force=-1.0), "force must be"),
        (lambda: tacthmc.noisy(gaussian(), force=1.0, covariance=jnp.eye(2)), "not both"),
        (lambda: tacthmc.noisy(gaussian(), covariance=-jnp.eye(2)), "positive definite"),
        (
            lambda: tacthmc.potentials.at_temperature(gaussian(), 0.0),
            "posterior_temperature must be",
        ),
        (lambda: measure_noise(KEY, gaussian(), jnp.zeros(2), 1), "num_batches"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_high_efficiency_warns_with_the_papers_reason():
    with pytest.warns(UserWarning, match=r"exceeds 25%.*steeper.*unstable"):
        PowerCoupling(plateau=0.6, unit=1.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PowerCoupling(plateau=0.25, unit=0.5, wall=1.0)


def likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta) ** 2)


@pytest.mark.parametrize(
    ("data", "batch", "message"),
    [
        (np.zeros((5, 2)), 6, "batch_size is 6, but data has only 5 examples"),
        (np.zeros((5, 2)), 0, "batch_size must be"),
        ((np.zeros((5, 2)), np.zeros(4)), 2, "share their leading length"),
        (np.array([[0.0, np.nan]]), 1, "NaN or infinite"),
        ((), 1, "no arrays"),
    ],
)
def test_bad_data(data, batch, message):
    with pytest.raises(ValueError, match=message):
        tacthmc.posterior(lambda theta: -jnp.sum(theta**2), likelihood, data, batch)


def test_bad_batches():
    with pytest.raises((ValueError, TypeError)):
        tacthmc.posterior(lambda t: 0.0, likelihood, np.zeros((5, 2)), 2, batches="shuffled")


def test_integer_positions_are_refused():
    with pytest.raises(TypeError, match=r"position leaf 'theta' has dtype int32.*write 0.0"):
        run(init=jnp.zeros(2, int))
    with pytest.raises(TypeError, match="position leaf 'b' has dtype int32"):
        tacthmc.sgnht(0.01).init(KEY, {"a": jnp.zeros(1), "b": jnp.array([1])})


def test_positions_that_are_no_arrays_are_refused():
    with pytest.raises(TypeError, match=r"leaf 'f' .*tacthmc\.potentials\.subset"):
        run(init={"f": jnp.tanh, "w": jnp.zeros(2)})
    with pytest.raises(ValueError, match="no leaves"):
        run(init={})


def test_a_log_density_must_be_a_scalar():
    with pytest.raises(ValueError, match=r"energy must return a scalar; got shape \(2,\)"):
        run(potential=tacthmc.potential(lambda x: x**2))
    data = np.zeros((5, 2), np.float32)
    vector = tacthmc.posterior(lambda t: -jnp.sum(t**2), lambda t, x: -((x - t) ** 2), data, 2)
    with pytest.raises(ValueError, match=r"log_likelihood must return a scalar; got shape \(2,\)"):
        run(potential=vector)
    batched = tacthmc.posterior(
        lambda t: -jnp.sum(t**2), lambda t, x: -jnp.sum((x - t[None]) ** 2), data, 2, batched=True
    )
    with pytest.raises(ValueError, match="one number per example"):
        run(potential=batched)


def test_wrong_shapes_show_the_users_own_error():
    matrix = jnp.eye(3)
    with pytest.raises(TypeError, match="dot"):
        run(potential=tacthmc.potential(lambda x: x @ (matrix @ x)), init=jnp.zeros(2))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_starts_that_are_not_finite(value):
    with pytest.raises(ValueError, match="init is not finite at the start of chain 0"):
        run(init=jnp.array([0.0, value]))
    stack = jnp.array([[0.0, 0.0], [0.0, value]])
    with pytest.raises(ValueError, match="chain 1"):
        run(init=stack, num_chains=2)


def test_energies_that_are_not_finite_at_the_start():
    with pytest.raises(ValueError, match="the energy at the start of chain 0 is inf"):
        run(potential=tacthmc.potential(lambda x: -jnp.sum(jnp.log(x))))
    # √|x| is finite at 0, its slope is not.
    with pytest.raises(ValueError, match="gradient of the energy is not finite"):
        run(potential=tacthmc.potential(lambda x: jnp.sum(jnp.sqrt(jnp.abs(x)))))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"num_steps": 0}, "num_steps"),
        ({"num_chains": 0}, "num_chains"),
        ({"keep": tacthmc.Keep(after=100)}, r"Keep.after \(100\) must be less than num_steps"),
    ],
)
def test_bad_runs(more, message):
    with pytest.raises(ValueError, match=message):
        run(**more)


def test_mass_must_fit_the_position():
    with pytest.raises(ValueError, match="mass must be a number, or a pytree"):
        run(sampler=tacthmc.sgnht(0.01, mass=jnp.ones(3)))


def test_divergence_is_reported_and_draws_are_kept():
    """Euler with a step that is far too long, on one chain out of two."""

    def steep(x):
        return jnp.sum(x**4)

    sampler, keep = tacthmc.sgnht(0.02, integrator=Euler()), tacthmc.Keep(every=5, after=0)
    start = jnp.array([[0.1], [3.5]])
    with pytest.warns(tacthmc.DivergedWarning, match=r"chain 1 stopped being finite at step"):
        result = run(sampler, tacthmc.potential(steep), start, 5000, 2, keep=keep)
    failed = {failure.chain: failure for failure in result.failures}
    failure = failed[1]
    assert failure.step < 1000
    assert failure.first in ("energy", "theta")
    assert "step_size" in str(failure)
    assert np.all(np.isfinite(np.concatenate(result.all_draws)))
    assert len(result.all_draws[1]) == (failure.step - 1) // 5
    assert "stopped being finite" in str(result.summary())


def test_a_bad_gradient_is_noticed_without_momenta():
    """The energy stays finite, its slope does not: θ goes first, and no NaN is kept."""

    @jax.custom_jvp
    def tricky(x):
        return jnp.sum(x**2)

    @tricky.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        slope = jnp.where(jnp.abs(x) > 1.0, jnp.nan, 2.0 * x)
        return jnp.sum(x**2), jnp.sum(slope * t)

    with pytest.warns(tacthmc.DivergedWarning, match="stopped being finite at step"):
        result = run(
            tacthmc.sgld(0.05),
            tacthmc.potential(tricky),
            jnp.zeros(1),
            2000,
            keep=tacthmc.Keep(every=1, after=0),
        )
    assert result.failures[0].first == "theta"
    assert np.all(np.isfinite(result.draws))
    assert len(result.draws[0]) == result.failures[0].step - 1


@pytest.mark.parametrize("end", ["start", "finish"])
def test_schedules_may_touch_zero(end):
    def rate(k):
        ramp = jnp.minimum(jnp.asarray(k).astype(jnp.float32) / 100.0, 1.0)
        return 0.01 * (ramp if end == "start" else 1.0 - ramp)

    result = run(tacthmc.tact(rate), num_steps=300)
    assert not result.failures
    assert np.isclose(float(per_datum(rate, num_data=10)(50)), 0.0005)


def test_divergence_names_xi():
    """An energy so noisy that ξ's Euler step blows up first."""
    rough = tacthmc.noisy(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), energy=1e6)
    tempering = ContinuousTempering(step_size=1.0)
    sampler = tacthmc.tact(0.01, integrator=Euler(), tempering=tempering)
    with pytest.warns(tacthmc.DivergedWarning, match="step_size of the tempering"):
        result = run(sampler, rough, jnp.zeros(2), 5000)
    assert result.failures[0].first in ("xi", "xi_thermostat")
