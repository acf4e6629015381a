"""A sampler without numbers: what is chosen, that it is said, and that it samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, Coordinates, Langevin, PowerCoupling
from tacthmc.samplers import Untuned
from tacthmc.targets import three_gaussians
from tests.budget import assert_mean

pytestmark = pytest.mark.usefixtures("quick_compilation")


class InUnits(eqx.Module):
    """A function of θ as one of s·θ; s is an array, so that all units share a program."""

    function: object
    scale: jax.Array

    def __call__(self, position, *rest):
        return self.function(position / self.scale, *rest)


def mixture(scale):
    target = InUnits(three_gaussians(), jnp.asarray(scale, jnp.float32))
    return tacthmc.noisy(tacthmc.potential(target), force=3.0 / scale, energy=1.0)


WAYS = {
    "as it is": (1.0, tacthmc.tact()),
    "small": (1e-3, tacthmc.tact()),
    "large, moving ξ": (1e3, tacthmc.tact(tempering=ContinuousTempering())),
}


@pytest.fixture(
    scope="module",
    params=[pytest.param("as it is", marks=pytest.mark.slow), "small", "large, moving ξ"],
)
def three(request):
    scale, sampler = WAYS[request.param]
    run = tacthmc.sample(
        jax.random.key(2),
        sampler,
        mixture(scale),
        jnp.array([-4.0 * scale]),
        200_000,
        8,
        progress=False,
    )
    return scale, run


def test_modes_from_one_start_in_any_units(three):
    scale, run = three
    draws = np.asarray(run.draws[..., 0]) / scale
    modes = np.abs(draws[..., None] - np.array([-4.0, 0.0, 4.0])).argmin(axis=-1)
    for mode, weight in enumerate((0.3, 0.4, 0.3)):
        assert_mean(modes == mode, weight, 0.02, f"weight of mode {mode}")
    within = (draws - np.array([-4.0, 0.0, 4.0])[modes]) ** 2
    assert_mean(within / 0.25, 1.0, 0.05, "variance within modes")


def test_step_size_follows_the_units(three):
    scale, run = three
    # The force's noise, of variance 9, limits it before the curvature, 4, does: 0.5/9.
    assert 0.025 < run.tuning["step_size"] / scale**2 < 0.08


def test_everything_chosen_has_a_reason(three):
    _, run = three
    names = {choice.name for choice in run.tuning.choices}
    assert names >= {"step_size", "noise", "thermostat", "keep_every", "linear"}
    assert all(choice.reason for choice in run.tuning.choices)
    # Noise may differ from mode to mode, and thermostats have to follow.
    assert run.sampler.thermostat.inertia.steps < 200
    if run.sampler.tempering is None:
        assert run.tuning["jumps"].modes.count == 3
        assert "found 3 modes" in str(run.tuning)
        return
    assert names >= {"xi_step_size", "xi_thermostat", "coupling", "bias", "center"}
    assert float(run.sampler.tempering.coupling.hottest) >= 2.9
    assert "came back elsewhere" in str(run.tuning)


@pytest.fixture(scope="module")
def regression():
    """A linear regression with features in very unequal units: its posterior is known."""
    rng = np.random.default_rng(0)
    units = np.array([1.0, 30.0, 0.05])
    x = rng.normal(size=(500, 3)) @ np.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.0], [0.0, 0.3, 1.0]])
    x = x * units
    y = x @ (np.array([1.0, -0.5, 2.0]) / units) + rng.normal(size=500)
    precision = x.T @ x + np.diag(1 / (10 / units) ** 2)
    mean = np.linalg.solve(precision, x.T @ y)
    inverse = jnp.asarray(units / 10, jnp.float32)
    potential = tacthmc.posterior(
        lambda w: -0.5 * jnp.sum((w * inverse) ** 2),
        lambda w, row: -0.5 * (row[3] - row[:3] @ w) ** 2,
        jnp.asarray(np.column_stack([x, y]), jnp.float32),
        50,
    )
    return potential, mean, np.linalg.inv(precision)


@pytest.fixture(scope="module")
def stored(regression, tmp_path_factory):
    potential, *_ = regression
    path = tmp_path_factory.mktemp("warm") / "run"
    run = tacthmc.sample(
        jax.random.key(0),
        tacthmc.tact(),
        potential,
        jnp.zeros(3),
        50_000,
        8,
        store=path,
        progress=False,
    )
    return path, run


def test_mini_batches_and_unequal_units(regression, stored):
    _, mean, covariance = regression
    _, run = stored
    assert run.sampler.coordinates.linear is not None
    # One mode: thermostats are slow, so that they do not answer to the noise's skewness.
    assert run.sampler.thermostat.inertia.steps == 1_000
    for i in range(3):
        away = (np.asarray(run.draws[..., i], float) - mean[i]) / np.sqrt(covariance[i, i])
        assert_mean(away, 0.0, 0.1, f"mean of coordinate {i}")
        assert_mean(away**2, 1.0, 0.12, f"variance of coordinate {i}")


def test_choices_are_stored_with_the_run(stored):
    path, run = stored
    again = tacthmc.load(path)
    assert again.config is not None
    record = again.config["tuning"]
    assert [c["name"] for c in record["choices"]] == [c.name for c in run.tuning.choices]
    assert record["gradients"] == run.tuning.gradients > 0
    assert str(again.tuning) == str(run.tuning)


def test_nothing_adapts_at_one_temperature(stored):
    _, run = stored
    sampler = run.sampler
    assert isinstance(sampler, Langevin)
    assert not callable(sampler.step_size)
    # One mode: there is nothing to reach by heating.
    assert sampler.tempering is None


class Even(eqx.Module):
    """The energy Σ(½aᵢxᵢ² + bxᵢ⁴); a and b are arrays, so that all of them share a program."""

    precision: jax.Array
    quartic: jax.Array

    def __call__(self, position):
        return jnp.sum(0.5 * self.precision * position**2 + self.quartic * position**4)


def even(*precision, quartic=0.0):
    return tacthmc.potential(Even(jnp.array(precision), jnp.array(quartic)))


GAUSSIAN, STEEP = even(1.0, 4.0), even(1.0, 400.0)


def small(sampler, seed=0, potential=GAUSSIAN, progress=False):
    return tacthmc.tune(
        jax.random.key(seed),
        sampler,
        potential,
        jnp.ones(2),
        num_chains=4,
        num_steps=100,
        progress=progress,
    )


def test_given_numbers_stay():
    tempering = ContinuousTempering(PowerCoupling.up_to(4.0), step_size=0.002)
    fixed = {"step_size": 0.07, "noise": 0.2, "coordinates": Coordinates(None, None)}
    made = small(Untuned(tempering=tempering, **fixed))
    assert made.step_size == 0.07
    assert made.injected == 0.2
    assert made.tempering.step_size == 0.002
    assert made.coordinates.linear is made.coordinates.center is None
    assert float(made.tempering.coupling.hottest) == pytest.approx(4.0)
    reasons = {c.name: c.reason for c in made.tuning.choices}
    names = ("step_size", "noise", "coupling", "linear", "center", "xi_step_size")
    assert all(reasons[name].startswith("given") for name in names)
    # What was left open is chosen.
    assert not reasons["bias"].startswith("given")


@pytest.fixture(scope="module")
def moving():
    """ξ moves, up to a temperature far too high, and θ widens about a given center."""
    tempering = ContinuousTempering(PowerCoupling.up_to(100.0))
    widening = Coordinates("auto", center="mean")
    return small(tacthmc.tact(tempering=tempering, coordinates=widening))


def test_nothing_adapts_but_the_bias_of_a_moving_xi(moving):
    assert isinstance(moving.tempering, ContinuousTempering)
    assert not callable(moving.step_size)
    assert not callable(moving.tempering.step_size)
    assert moving.tempering.bias.frozen().table is None


def test_a_given_center_stays(moving):
    assert isinstance(moving.coordinates.center, str)
    assert moving.coordinates.center == "mean"


def test_starts_are_cold(moving):
    # At the hottest of all, |θ|² would be a hundred times as large.
    energies = jax.vmap(GAUSSIAN.energy)(moving.tuning.start)
    assert float(jnp.mean(energies)) < 4


def test_draws_are_kept_as_often_as_was_chosen_unless_said(stored):
    _, run = stored
    assert run.keep.every == run.tuning["keep_every"]
    assert tacthmc.Keep(every=7).with_defaults(run.sampler).every == 7


def test_a_scale_for_each_coordinate():
    made = small(tacthmc.tact(coordinates=Coordinates("diagonal", "auto")), potential=STEEP)
    linear = made.coordinates.linear
    assert linear is not None
    assert 3 < float(linear.scale[0] / linear.scale[1]) < 60


def test_the_same_key_chooses_the_same_and_says_why_if_asked(capsys):
    first = small(tacthmc.tact(), seed=3, progress=None)
    said = capsys.readouterr().err
    assert "tuning: step_size = " in said
    assert "over the largest curvature" in said
    second = small(tacthmc.tact(), seed=3)
    assert not capsys.readouterr().err
    for name in ("step_size", "noise", "keep_every"):
        assert first.tuning[name] == second.tuning[name]


def test_where_there_is_no_bottom():
    with pytest.raises(tacthmc.TuningError, match="diverged"):
        small(tacthmc.tact(), potential=even(0.0, 0.0, quartic=-1.0))


def test_where_there_is_no_curvature():
    with pytest.raises(tacthmc.TuningError, match=r"curvature at init is 0\.0"):
        small(tacthmc.tact(), potential=even(0.0, 0.0))


def test_a_given_step_that_is_too_large():
    with pytest.raises(tacthmc.TuningError, match=r"(?s)no step size samples.*η = 50"):
        small(Untuned(step_size=50.0, coordinates=Coordinates(None, "auto")))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tacthmc.tact(mass=2.0), "mass needs a step size"),
        (lambda: tacthmc.tact(noise=lambda k: 0.1), "noise"),
        (lambda: tacthmc.tact(noise=-0.1), "noise must be"),
        (lambda: Coordinates("dense"), "linear"),
        (lambda: Coordinates(center="middle"), "center must be"),
        (lambda: tacthmc.tact(0.1, coordinates=Coordinates("auto")), r"is for tact\(\) without a"),
    ],
)
def test_what_cannot_be_fixed(make, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make()
