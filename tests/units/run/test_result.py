"""What a run returns: draws at unit temperature, statistics, a trace, a summary, an export."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def run():
    data = jnp.asarray(np.random.default_rng(0).normal(size=(50, 2)), jnp.float32)
    potential = tacthmc.posterior(
        lambda p: -0.5 * jnp.sum(p["mu"] ** 2),
        lambda p, x: -0.5 * jnp.sum((x - p["mu"]) ** 2),
        data,
        10,
    )
    start, keep = {"mu": jnp.zeros(2)}, tacthmc.Keep(every=10)
    sampler = tacthmc.tact(1e-3)
    return tacthmc.sample(jax.random.key(0), sampler, potential, start, 20_000, 4, keep=keep)


def test_draws_are_at_unit_temperature_after_the_first_tenth(run):
    assert run.draws["mu"].shape == (4, run.num_draws, 2)
    assert np.all(np.abs(run.stats["xi"]) <= 1 / 3)
    assert np.all(run.stats["temperature"] == 1)
    assert np.all(run.stats["step"] > 2000)
    assert np.all(run.stats["step"] % 10 == 0)
    assert run.num_draws == min(len(chain["mu"]) for chain in run.all_draws)


def test_summary(run):
    summary = run.summary()
    text = str(summary)
    for word in ("mu[0]", "R-hat", "ESS", "plateau share", "round trips", "z_theta", "theory"):
        assert word in text
    assert len(summary.parameters) == 2
    assert summary.round_trips == run.round_trips.tolist()
    assert summary.thermostats[0].name == "z_theta"


def test_arviz(run):
    data = run.to_arviz()
    assert data["posterior"]["mu"].shape == (4, run.num_draws, 2)
    assert data["sample_stats"]["xi"].shape == (4, run.num_draws)
    assert data["observed_data"]["data"].shape == (50, 2)


def test_the_trace_shows_all_temperatures(run):
    assert run.trace["xi"].shape == (4, 2000)
    assert run.trace["temperature"].max() > 5
    assert np.all(run.round_trips > 0)
    for share, column in zip(run.plateau_share, run.after_warmup("plateau_share"), strict=True):
        assert np.isclose(share, column.mean())


def test_samplers_without_tempering_have_no_xi():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    key, start = jax.random.key(0), jnp.zeros(20)
    run = tacthmc.sample(key, tacthmc.sgld(0.01), target, start, 2000, 2)
    assert not run.has_tempering
    text = str(run.summary())
    assert "plateau" not in text
    assert "16 of 20 parameters" in text
    assert "4 more are left out" in text
    with pytest.raises(ValueError, match="no tempering variable"):
        run.free_energy()


def test_old_style_keys_work():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

    def draws(key):
        return tacthmc.sample(key, tacthmc.sgld(0.01), target, jnp.zeros(1), 200).draws

    assert np.array_equal(draws(jax.random.PRNGKey(0)), draws(jax.random.key(0)))
