"""A ξ that is led: its path, what θ's law is for slow sweeps, resuming, reports, refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    DiagonalThermostat,
    Frame,
    Langevin,
    MatrixThermostat,
    Metadynamics,
    NoThermostat,
    PowerCoupling,
    Refresh,
    Relaxed,
    Sweep,
    well_tempered,
)
from tacthmc.dynamics._bias import FrozenBias
from tacthmc.report._shown import Shown
from tacthmc.report._verdict import verdict
from tacthmc.targets import GaussianMixture
from tests.budget import assert_mean

# One worker for this file: its tests share runs.
pytestmark = pytest.mark.xdist_group("test_sweep")

KEY = jax.random.key(0)


def gaussian(x):
    return 0.5 * jnp.sum(x**2)


def path(sweep, coupling, steps):
    """ξ by the definition, with whole numbers and fractions only."""
    period, rest, start = sweep.period, sweep.rest, sweep.start
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
    "sweep",
    [Sweep(40), Sweep(37, rest=0.3, start=11)],
    ids=["even", "odd"],
)
def test_the_path(sweep):
    coupling = PowerCoupling()
    steps = jnp.arange(200)
    xi, speed = jax.vmap(lambda k: sweep.at(k, coupling))(steps)
    np.testing.assert_allclose(xi, path(sweep, coupling, 200), atol=1e-6)
    between, _ = jax.vmap(lambda k: sweep.at(k, coupling, 0.5))(steps)
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
    sweep, coupling = Sweep(40), PowerCoupling()
    late = sweep.at(40 * 50_000_000 + 30, coupling)
    assert float(late[0]) == float(sweep.at(30, coupling)[0]) == pytest.approx(coupling.wall)


@pytest.fixture(scope="module")
def short():
    """Every step's row of three periods."""
    sampler = tacthmc.tact(0.1, sweep=Sweep(50, rest=0.4, start=30), keep_every=1, keep_within=0.5)
    return tacthmc.sample(
        KEY, sampler, tacthmc.potential(gaussian), jnp.zeros(3), 180, 2, num_warmup=0
    )


def test_a_run_follows_the_path(short):
    sampler = short.sampler
    expected = path(Sweep(50, rest=0.4, start=30), PowerCoupling(), 181)[1:]
    for chain in range(2):
        np.testing.assert_allclose(short.trace["xi"][chain], expected, atol=1e-6)
    assert short.trace["temperature"].max() == pytest.approx(9.0, rel=1e-4)
    # Kept is what rests: at ξ = 0, so for any keep_within.
    assert np.array_equal(short.trace["keep"][0], expected == 0)
    assert short.round_trips.tolist() == [3, 3]
    tempering = short.state.tempering
    assert np.all(tempering.xi == 0)
    assert np.all(tempering.momentum == 0)
    start = sampler.init(KEY, jnp.zeros(3)).tempering.thermostat
    assert np.all(tempering.thermostat == start)


def test_a_trip_is_counted_where_it_ends():
    sampler = tacthmc.tact(0.1, sweep=Sweep(50, start=30), keep_every=1)
    target = tacthmc.potential(gaussian)
    for steps, trips in ((79, 0), (80, 1)):
        run = tacthmc.sample(KEY, sampler, target, jnp.zeros(3), steps, num_warmup=0)
        assert run.round_trips.tolist() == [trips]


D = 64


@pytest.fixture(scope="module", params=[None, "mean"], ids=["paper", "breathing"])
def many(request):
    target = tacthmc.noisy(tacthmc.potential(gaussian), force=1.0, energy=100.0)
    sampler = tacthmc.tact(0.1, sweep=Sweep(2000), centre=request.param, keep_every=20)
    return tacthmc.sample(KEY, sampler, target, jnp.zeros(D), 100_000, 4, num_warmup=2000)


def test_variance_after_slow_sweeps(many):
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


def test_fast_sweeps_of_what_breathes():
    """θ widens with ξ: where U is quadratic about μ, it is in equilibrium at any speed."""
    sampler = tacthmc.tact(5e-4, sweep=Sweep(100), centre=0.0, keep_every=10)
    target = tacthmc.potential(gaussian)
    run = tacthmc.sample(KEY, sampler, target, jnp.zeros(D), 60_000, 4, keep="all")
    lam = run.stats["lambda"]
    white = (run.draws**2).mean(axis=-1) * lam
    assert lam.min() < 0.2
    assert_mean(white, 1.0, 0.01, "variance times λ at all temperatures")


WEIGHTS = (0.7, 0.3)


def weight(run):
    return np.asarray(run.draws)[..., 0] < 0


def run_pair(period, steps):
    means = jnp.array([[-3.0], [3.0]])
    target = GaussianMixture(means, jnp.array(WEIGHTS), 1.0)
    rough = tacthmc.noisy(tacthmc.potential(target), force=1.0, energy=100.0)
    sampler = tacthmc.tact(0.1, sweep=Sweep(period), keep_every=20)
    return tacthmc.sample(KEY, sampler, rough, means[0], steps, 16, num_warmup=4000)


def test_both_modes_by_slow_sweeps():
    """Between the weights where crossings stop and the posterior's: here within 0.03 of these."""
    run = run_pair(4000, 400_000)
    inside = weight(run)
    assert np.all(inside.any(axis=1) & ~inside.all(axis=1))
    assert_mean(inside, WEIGHTS[0], 0.03, "weight of the first mode")


@pytest.mark.parametrize(
    "thermostat",
    [
        DiagonalThermostat(),
        MatrixThermostat(),
        NoThermostat(),
    ],
    ids=lambda t: type(t).__name__,
)
def test_every_thermostat(thermostat):
    sampler = tacthmc.tact(0.1, sweep=Sweep(200), thermostat=thermostat, keep_every=10)
    run = tacthmc.sample(
        KEY, sampler, tacthmc.potential(gaussian), jnp.zeros(3), 40_000, 4, num_warmup=2000
    )
    assert_mean((run.draws**2).mean(axis=-1), 1.0, 0.06, "variance on the plateau")


def test_a_part_of_the_energy_in_a_frame():
    """Tempering a likelihood, in coordinates that breathe and are turned."""
    data = 1.0 + jax.random.normal(jax.random.key(7), (20, 2))
    potential = tacthmc.temper_likelihood(
        tacthmc.posterior(
            lambda t: -0.5 * jnp.sum(t**2),
            lambda t, x: -0.5 * jnp.sum((x - t) ** 2),
            data,
            20,
        )
    )
    frame = Frame(np.array([[1.0, 0.3], [0.3, 0.8]], np.float32))
    sampler = tacthmc.tact(5e-3, sweep=Sweep(1000), centre="mean", frame=frame, keep_every=10)
    run = tacthmc.sample(KEY, sampler, potential, jnp.ones(2), 100_000, 4)
    mean = np.asarray(data).sum(axis=0) / 21
    assert_mean(run.draws[..., 0], mean[0], 0.0, "mean")
    assert_mean(21 * (run.draws[..., 1] - mean[1]) ** 2, 1.0, 0.02, "variance")


@pytest.mark.parametrize("centre", [None, "mean"])
def test_resumed_is_uninterrupted(tmp_path, centre):
    """Bit for bit, stopped in the middle of a glide."""
    sampler = tacthmc.tact(
        0.1,
        sweep=Sweep(100, rest=0.5, start=30),
        relaxed=Relaxed(16),
        centre=centre,
        keep_every=5,
    )
    options = {"num_warmup": 0, "progress": False}
    target = tacthmc.potential(gaussian)
    whole = tacthmc.sample(KEY, sampler, target, jnp.zeros(3), 700, 2, **options)
    tacthmc.sample(KEY, sampler, target, jnp.zeros(3), 300, 2, store=tmp_path / "run", **options)
    resumed = tacthmc.resume(tmp_path / "run", num_steps=700, progress=False)
    for column in whole.trace:
        assert np.array_equal(whole.trace[column], resumed.trace[column]), column
    assert whole.num_draws > 5
    assert np.array_equal(whole.draws, resumed.draws)


def test_a_report_reads_sensibly(short, many):
    text = str(many.summary())
    assert "(0.500 by its sweep)" in text
    assert "uniform" not in text
    assert "of xi" not in text
    findings = {f.title: f for f in verdict(Shown("run", many))}
    assert findings["The sweep's speed is not checked"].level == "look"
    assert findings["The temperature goes up and down"].level == "good"
    assert findings["Every chain visited unit temperature"].level == "good"
    assert not any("histogram" in title or "ξ's thermostat" in title for title in findings)
    assert not any(f.level == "bad" for f in findings.values())
    assert not many.path
    assert "xi_thermostat" not in short.trace


def test_a_report_is_written(many, tmp_path):
    page = tacthmc.write_report(many, tmp_path / "report.html").read_text()
    assert "Sweep(period=2000, rest=0.5, start=0)" in page
    assert "Where ξ has been" not in page


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sweep(0), "period must be a whole number >= 1"),
        (lambda: Sweep(100, rest=0.0), "rest must be in"),
        (lambda: Sweep(100, rest=0.95), "must leave 10 steps or more"),
        (lambda: Sweep(100, start=-1), "start must be a whole number >= 0"),
        (lambda: _tact(xi_step_size=0.1), "xi_step_size does nothing with a sweep"),
        (lambda: _tact(xi_noise=0.0), "xi_noise does nothing with a sweep"),
        (lambda: _tact(xi_speed_limit=0.2), "xi_speed_limit does nothing with a sweep"),
        (
            lambda: _tact(refresh=Refresh(xi=True)),
            "refresh.xi does nothing with a sweep",
        ),
        (lambda: _tact(bias=Metadynamics()), "Metadynamics learns nothing"),
        (
            lambda: _tact(bias=FrozenBias(well_tempered(3.0))),
            "Metadynamics learns",
        ),
        (
            lambda: Langevin(0.1, sweep=Sweep(100)),
            "sweep is for tempered",
        ),
    ],
)
def test_refusals(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def _tact(**settings):
    return tacthmc.tact(0.1, sweep=Sweep(100), **settings)
