"""Right samplers pass, wrong ones are found, and every way to ask gives an answer or an error."""

import json

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import tacthmc
from tacthmc import Keep
from tacthmc.calibration import Calibration

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
SCALE = 0.5


def prior_draw(key):
    return {"mu": jax.random.normal(key, (2,))}


def simulate(key, theta):
    return theta["mu"][None, :] + SCALE * jax.random.normal(key, (10, 2))


def log_prior(theta):
    return -0.5 * jnp.sum(theta["mu"] ** 2)


def log_likelihood(theta, x):
    return -0.5 * jnp.sum((x - theta["mu"]) ** 2) / SCALE**2


def make_potential(data):
    return tacthmc.posterior(log_prior, log_likelihood, data, 5)


def calibrated(
    sampler=None, make_potential=make_potential, prior_draw=prior_draw, simulate=simulate, **options
):
    settings = {"num_simulations": 300, "num_steps": 2_000, "keep": Keep(every=20)} | options
    sampler = tacthmc.sgnht(2e-3) if sampler is None else sampler
    return tacthmc.calibrate(KEY, sampler, prior_draw, simulate, make_potential, **settings)


@pytest.fixture(scope="module")
def right():
    return calibrated()


def test_a_right_sampler_passes(right):
    assert right.verdict == "right", str(right)
    assert right.names == ("mu[0]", "mu[1]", "energy")
    assert right.num_simulations == 300
    assert right.num_checks == 9
    assert not right.uninformed
    narrow, wide = right.detectable_widths
    assert 0.7 < narrow < 0.85 < 1.15 < wide < 1.4
    for row in right.rows:
        assert row.width.low < 1 < row.width.high
        assert row.bias.low < 0 < row.bias.high


def test_draws_that_are_too_wide_are_found():
    """Noise of batches that SGHMC does not know makes it too hot."""
    found = calibrated(tacthmc.sghmc(2e-3))
    assert found.verdict == "wrong"
    rows = {row.name: row for row in found.rows}
    assert rows["mu[0]"].width.low > 1
    assert rows["energy"].bias.low > 0
    assert "wrong: " in str(found)


@pytest.mark.slow
def test_a_wrong_model_is_found():
    """Data of a larger noise than the potential believes: draws are too narrow."""

    def simulate(key, theta):
        return theta["mu"][None, :] + 2 * SCALE * jax.random.normal(key, (10, 2))

    found = calibrated(simulate=simulate)
    assert found.verdict == "wrong"
    assert all(row.width.high < 1 for row in found.rows if row.name != "energy")


@pytest.mark.slow
def test_a_potential_that_ignores_its_data_needs_a_quantity_of_both():
    def ignorant(data):
        return tacthmc.potential(lambda theta: -log_prior(theta))

    def residual(theta, data):
        return {"residual": jnp.sum((data - theta["mu"][None, :]) ** 2)}

    sampler = tacthmc.sgnht(0.05)
    without = calibrated(sampler, ignorant)
    assert without.verdict == "right"
    assert without.uninformed
    assert "ignores the data" in str(without)
    found = calibrated(sampler, ignorant, quantities=residual)
    assert found.verdict == "wrong"
    assert found.names == ("residual", "energy")


def test_chains_that_start_at_the_truth_would_pass_so_they_do_not():
    """A sampler that hardly moves: too few independent draws, whatever their ranks."""
    assert calibrated(tacthmc.sgnht(1e-9)).verdict == "too short"


def test_a_short_run_is_not_called_right(right):
    found = calibrated(num_steps=200)
    assert found.verdict == "too short"
    assert "Take more steps" in found.conclusion


def test_chains_that_diverge_are_not_left_out():
    def breaks_far_out(data):
        def energy(theta):
            away = jnp.sum((data - theta["mu"][None, :]) ** 2) / SCALE**2
            whole = 0.5 * jnp.sum(theta["mu"] ** 2) + 0.5 * away
            return jnp.where(jnp.max(jnp.abs(theta["mu"])) < 2.0, whole, jnp.nan)

        return tacthmc.potential(energy)

    found = calibrated(
        make_potential=breaks_far_out,
        start=lambda key, data: {"mu": jnp.zeros(2)},
        num_simulations=100,
        num_steps=1_000,
    )
    assert found.verdict == "wrong"
    assert 0 < found.diverged < 50
    assert found.num_simulations + found.diverged == 100
    assert f"{found.diverged} of 100 chains did not stay finite" in str(found)


@pytest.mark.slow
def test_the_same_key_gives_the_same_ranks(right):
    assert np.array_equal(calibrated().ranks, right.ranks)


@pytest.mark.slow
def test_tempered_chains_have_their_own_numbers_of_draws():
    found = calibrated(tacthmc.tact(2e-3), num_simulations=100, num_steps=6_000)
    assert found.verdict == "right", str(found)
    assert len(np.unique(found.counts)) > 1


@pytest.mark.slow
def test_functions_that_jax_cannot_trace():
    """The same simulations with NumPy, one after the other, and in one program."""

    def prior_of_numpy(key):
        return {"mu": np.asarray(prior_draw(key)["mu"])}

    def data_of_numpy(key, theta):
        return np.asarray(simulate(key, theta))

    def potential_of_numpy(data):
        return make_potential(np.asarray(data))

    options = {"num_simulations": 3, "num_steps": 200}
    slow = calibrated(
        make_potential=potential_of_numpy,
        prior_draw=prior_of_numpy,
        simulate=data_of_numpy,
        **options,
    )
    mixed = calibrated(prior_draw=prior_of_numpy, simulate=data_of_numpy, **options)
    fast = calibrated(**options)
    assert np.allclose(mixed.ranks, fast.ranks)
    assert slow.names == fast.names
    assert slow.num_simulations == 3
    assert np.all((slow.ranks > 0) & (slow.ranks < 1))


def test_few_simulations_do_not_boast():
    few = Calibration(("mu",), np.array([[0.3], [0.6]]), np.full(2, 100), distance=1)
    assert few.power.startswith("There are too few simulations")


def test_json_keeps_everything(right):
    again = Calibration.from_json(json.loads(json.dumps(right.to_json())))
    assert again.verdict == right.verdict
    assert again.names == right.names
    assert np.allclose(again.ranks, right.ranks, atol=1e-6)
    assert again.remaining == right.remaining


def test_the_plot_names_what_leaves_the_band(right):
    ax = right.plot()
    assert ax.get_legend() is None
    wrong = Calibration(right.names, right.ranks**1.5, right.counts, right.distance)
    assert len(wrong.plot().get_legend().get_texts()) == 3


@pytest.fixture
def as_users_have_it():
    """Without the tests' check of all types, which would be the first to complain."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


BAD = [
    ({"sampler": "sgnht"}, TypeError, "sampler must be"),
    ({"prior_draw": jnp.ones(2)}, TypeError, "prior_draw must be a function"),
    ({"simulate": lambda key, theta: jnp.log(-1.0)}, ValueError, "simulate returned a value that"),
    ({"make_potential": lambda data: log_prior}, TypeError, "make_potential must return"),
    ({"num_simulations": 1}, ValueError, "num_simulations must be"),
    ({"num_steps": 0}, ValueError, "num_steps must be"),
    ({"level": 0.0}, ValueError, "level must be"),
    ({"keep": Keep(temperatures="all")}, ValueError, "keep must keep"),
    ({"keep": Keep(after=3_000)}, ValueError, r"Keep.after \(3000\)"),
    ({"start": lambda key, data: jnp.ones(2)}, ValueError, "start must return a position like"),
    ({"quantities": lambda theta, data: {}}, ValueError, "quantities must return at least"),
    ({"quantities": lambda theta, data: jnp.ones(300)}, ValueError, "300 scalars to rank"),
]


@pytest.mark.parametrize(("options", "kind", "message"), BAD)
def test_bad_arguments(options, kind, message, as_users_have_it):
    with pytest.raises(kind, match=message):
        calibrated(**{"num_simulations": 10, "num_steps": 200, **options})
