"""A ξ on a schedule: its path, θ's law where it is slow, resuming, reports, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.dynamics import (
    Coordinates,
    DiagonalThermostat,
    LinearMap,
    MatrixThermostat,
    Metadynamics,
    NoThermostat,
    ScheduledTempering,
    well_tempered,
)
from tacthmc.targets import GaussianMixture
from tests import properties
from tests.budget import assert_mean

KEY = jax.random.key(0)


def gaussian(x):
    return 0.5 * jnp.sum(x**2)


def path(xi, steps):
    """ξ by the definition, with whole numbers and fractions only."""
    period, rest, start, coupling = xi.period, xi.rest, xi.start, xi.coupling
    found = []
    for k in range(steps):
        p = (k - start) % period
        way = (1 - rest) * period / 2
        gone = p - rest * period
        height = gone / way if gone <= way else 2 - gone / way
        glides = k >= start and gone >= 0
        reach = coupling.wall - coupling.plateau
        found.append(coupling.plateau + reach * height if glides else 0.0)
    return np.array(found)


@pytest.mark.parametrize(
    "schedule",
    [ScheduledTempering(40), ScheduledTempering(37, rest=0.3, start=11)],
    ids=["even", "odd"],
)
def test_the_path(schedule):
    steps = jnp.arange(200)
    xi, speed = jax.vmap(schedule.at)(steps)
    np.testing.assert_allclose(xi, path(schedule, 200), atol=1e-6)
    between, _ = jax.vmap(lambda k: schedule.at(k, 0.5))(steps)
    glides = (np.asarray(xi)[:-1] > 0) & (np.asarray(xi)[1:] > 0)
    straight = np.abs(np.diff(xi)) > 0.99 * np.abs(speed[:-1])
    # On a straight piece the half step is the mean of both ends, and the speed their difference.
    inner = glides & straight
    mean = 0.5 * (np.asarray(xi)[1:] + np.asarray(xi)[:-1])
    np.testing.assert_allclose(between[:-1][inner], mean[inner], atol=1e-6)
    np.testing.assert_allclose(np.diff(xi)[inner], speed[:-1][inner], atol=1e-6)
    assert inner.sum() > 60


def test_the_path_of_a_long_run():
    """Exact where a step count has no digits left in single precision."""
    schedule = ScheduledTempering(40)
    late, early = schedule.at(40 * 50_000_000 + 30)[0], schedule.at(30)[0]
    assert float(late) == float(early) == pytest.approx(schedule.coupling.wall)


EVERY_STEP = Keep(every=1, after=0)


@pytest.fixture(scope="module")
def short():
    """Every step's row of three periods."""
    sampler = tacthmc.tact(0.1, tempering=ScheduledTempering(50, rest=0.4, start=30))
    target = tacthmc.potential(gaussian)
    return tacthmc.sample(KEY, sampler, target, jnp.zeros(3), 180, 2, keep=EVERY_STEP)


def test_a_run_follows_the_path(short):
    expected = path(short.sampler.tempering, 181)[1:]
    for chain in range(2):
        np.testing.assert_allclose(short.trace["xi"][chain], expected, atol=1e-6)
    assert short.trace["temperature"].max() == pytest.approx(9.0, rel=1e-4)
    # A trip begins at the plateau's edge.
    on_plateau = expected <= short.sampler.tempering.coupling.plateau
    assert np.array_equal(short.trace["keep"][0], on_plateau)
    assert short.round_trips.tolist() == [3, 3]
    tempering = short.state.tempering
    assert np.all(tempering.xi == 0)
    assert np.all(tempering.momentum == 0)
    assert tempering.thermostat == ()


def test_a_trip_is_counted_where_it_ends(short):
    """At steps 80, 130 and 180."""
    for chain in range(2):
        assert np.flatnonzero(short.trace["round_trips"][chain]).tolist() == [79, 129, 179]


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


D = 64


@pytest.fixture(scope="module", params=[None, slow("mean")], ids=["paper", "widening"])
def many(request):
    target = tacthmc.noisy(tacthmc.potential(gaussian), force=1.0, energy=100.0)
    coordinates = Coordinates(center=request.param)
    sampler = tacthmc.tact(0.1, tempering=ScheduledTempering(2000), coordinates=coordinates)
    keep = Keep(every=20, after=2000)
    return tacthmc.sample(KEY, sampler, target, jnp.zeros(D), 100_000, 4, keep=keep)


def test_variance_after_slow_trips(many):
    """The energy's noise, a hundred times its own fluctuations, does not enter."""
    assert_mean((many.draws**2).mean(axis=-1), 1.0, 0.01, "variance on the plateau")
    assert_mean(many.draws[..., 0], 0.0, 0.0, "mean of a coordinate")
    assert np.all(many.round_trips == 49)
    assert many.plateau_share == pytest.approx(0.5, abs=1e-3)


def test_the_bias_learns(many):
    """log Z(1/9) − log Z(1) = D/2·log 9, up to noise and hysteresis (measured: 1.2%)."""
    found = many.log_evidence_ratio()
    expected = D / 2 * np.log(9.0)
    assert abs(found.value - expected) < 5.2 * found.error + 0.02 * expected
    assert found.error < 2


def test_fast_trips_of_what_widens():
    """θ widens with ξ: where U is quadratic about μ, it is in equilibrium at any speed."""
    coordinates = Coordinates(center=0.0)
    sampler = tacthmc.tact(5e-4, tempering=ScheduledTempering(100), coordinates=coordinates)
    target, keep = tacthmc.potential(gaussian), Keep(every=10, temperatures="all")
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(D), 60_000, 4, keep=keep)
    lam = run.stats["lambda"]
    white = (run.draws**2).mean(axis=-1) * lam
    assert lam.min() < 0.2
    assert_mean(white, 1.0, 0.01, "variance times λ at all temperatures")


WEIGHTS = (0.7, 0.3)


def test_both_modes_by_slow_trips():
    """Between the weights where crossings stop and the posterior's: here within 0.03 of these."""
    means = jnp.array([[-3.0], [3.0]])
    target = GaussianMixture(means, jnp.array(WEIGHTS), 1.0)
    rough = tacthmc.noisy(tacthmc.potential(target), force=1.0, energy=100.0)
    sampler = tacthmc.tact(0.1, tempering=ScheduledTempering(4000))
    keep = Keep(every=20, after=4000)
    run = tacthmc.sample(KEY, sampler, rough, means[0], 400_000, 16, keep=keep)
    inside = np.asarray(run.draws)[..., 0] < 0
    assert np.all(inside.any(axis=1) & ~inside.all(axis=1))
    assert_mean(inside, WEIGHTS[0], 0.03, "weight of the first mode")


@pytest.mark.slow
@pytest.mark.parametrize(
    "thermostat",
    [DiagonalThermostat(), MatrixThermostat(), NoThermostat()],
    ids=lambda t: type(t).__name__,
)
def test_every_thermostat(thermostat):
    sampler = tacthmc.tact(0.1, tempering=ScheduledTempering(200), thermostat=thermostat)
    target, keep = tacthmc.potential(gaussian), Keep(every=10, after=2000)
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(3), 40_000, 4, keep=keep)
    assert_mean((run.draws**2).mean(axis=-1), 1.0, 0.06, "variance on the plateau")


def test_a_part_of_the_energy_in_linear_coordinates():
    """Tempering a likelihood, in coordinates that widen and are turned."""
    data = 1.0 + jax.random.normal(jax.random.key(7), (20, 2))
    potential = tacthmc.temper_likelihood(
        tacthmc.posterior(
            lambda t: -0.5 * jnp.sum(t**2),
            lambda t, x: -0.5 * jnp.sum((x - t) ** 2),
            data,
            20,
        )
    )
    linear = LinearMap(np.array([[1.0, 0.3], [0.3, 0.8]], np.float32))
    coordinates = Coordinates(linear, center="mean")
    sampler = tacthmc.tact(5e-3, tempering=ScheduledTempering(1000), coordinates=coordinates)
    keep = Keep(every=10)
    run = tacthmc.sample(KEY, sampler, potential, jnp.ones(2), 100_000, 4, keep=keep)
    mean = np.asarray(data).sum(axis=0) / 21
    assert_mean(run.draws[..., 0], mean[0], 0.0, "mean")
    assert_mean(21 * (run.draws[..., 1] - mean[1]) ** 2, 1.0, 0.02, "variance")


def test_resumed_is_uninterrupted(tmp_path):
    """Bit for bit, stopped on the way down."""
    xi, coordinates = ScheduledTempering(100, rest=0.5, start=30), Coordinates(center="mean")
    sampler = tacthmc.tact(0.1, tempering=xi, coordinates=coordinates)
    keep = Keep(every=5, after=0, relaxation_window=16)
    target, start = tacthmc.potential(gaussian), jnp.zeros(3)
    whole = tacthmc.sample(KEY, sampler, target, start, 700, 2, keep=keep)
    tacthmc.sample(KEY, sampler, target, start, 300, 2, keep=keep, store=tmp_path / "run")
    # The same objects, so that they are the same compiled program.
    program = {"sampler": sampler, "potential": target}
    properties.identical(whole, tacthmc.resume(tmp_path / "run", num_steps=700, **program))
    assert whole.num_draws > 5


def test_a_report_reads_sensibly(short, many):
    text = str(many.summary())
    assert "(0.500 by its schedule)" in text
    assert "uniform" not in text
    assert "of xi" not in text
    findings = {f.title: f for f in many.summary().findings}
    assert findings["The speed of the schedule is not checked"].level == "look"
    assert findings["The temperature goes up and down"].level == "good"
    assert findings["Every chain visited unit temperature"].level == "good"
    assert not any(
        "histogram" in title or "thermostat and momentum of ξ" in title for title in findings
    )
    assert not any(f.level == "bad" for f in findings.values())
    assert not many.path
    assert "xi_thermostat" not in short.trace


def test_a_report_is_written(many, tmp_path):
    page = tacthmc.write_report(many, tmp_path / "report.html").read_text()
    assert "ScheduledTempering(period=2000, rest=0.5, start=0" in page
    assert "Histogram of ξ" not in page


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ScheduledTempering(0), "period must be a whole number >= 1"),
        (lambda: ScheduledTempering(100, rest=0.0), "rest must be in"),
        (lambda: ScheduledTempering(100, rest=0.95), "must leave 10 steps or more"),
        (lambda: ScheduledTempering(100, start=-1), "start must be a whole number >= 0"),
        (lambda: ScheduledTempering(100, bias=Metadynamics()), "Metadynamics learns nothing"),
        (
            lambda: ScheduledTempering(100, bias=well_tempered(3.0).frozen()),
            "Metadynamics learns nothing",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()
