"""Couplings, biases, potentials, results: each part by itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    CustomCoupling,
    DiagonalThermostat,
    LiteralAdaptiveBiasingForce,
    Metadynamics,
    NoBias,
    PowerCoupling,
    ScalarThermostat,
    TensorThermostat,
    load_bias,
    well_tempered,
)
from tacthmc.dynamics._bias import MeanEnergies, Seen
from tacthmc.dynamics._bias_file import save_bias
from tacthmc.potentials import control_variates, measure_noise, subset
from tests import reference

WALL = 5 / 3


def seen(xi, slope=0.0, energy=0.0, step=0):
    return Seen(jnp.asarray(xi), jnp.asarray(slope), jnp.asarray(energy), jnp.asarray(step))


class TestCoupling:
    def test_paper_numbers(self):
        coupling = PowerCoupling()
        assert np.isclose(coupling.efficiency, 0.2)
        assert np.isclose(float(coupling.hottest), 9.0, rtol=1e-5)
        assert np.isclose(float(coupling.temperature(jnp.array(1.0))), 2.0)

    @pytest.mark.parametrize("power", [1, 2, 3, 5])
    def test_value_and_slope(self, power, x64):
        coupling = PowerCoupling(power=power)
        for xi in np.linspace(-1.6, 1.6, 33):
            value, slope = coupling.value_and_slope(jnp.asarray(xi))
            expected = reference.coupling(xi, power=power)
            assert np.isclose(float(value), expected[0], atol=1e-14)
            assert np.isclose(float(slope), expected[1], atol=1e-14)

    def test_slope_is_the_derivative(self, x64):
        coupling = PowerCoupling()
        for xi in (0.5, -0.9, 1.5):
            slope = jax.grad(lambda x: coupling.value_and_slope(x)[0])(xi)
            assert np.isclose(float(slope), float(coupling.value_and_slope(jnp.asarray(xi))[1]))

    def test_custom_agrees_with_the_family(self, x64):
        family = PowerCoupling()
        custom = CustomCoupling(
            lambda xi: 1 / (1 + (jnp.maximum(jnp.abs(xi) - 1 / 3, 0.0) / (2 / 3)) ** 3), 1 / 3, WALL
        )
        assert custom.even
        for xi in (0.0, 0.2, -0.7, 1.6):
            xi = jnp.asarray(xi)
            assert np.allclose(custom.value_and_slope(xi), family.value_and_slope(xi), atol=1e-12)

    def test_custom_under_a_transformation(self):
        """A swept parameter inside λ: nothing can be checked, and ``even`` is said."""

        def hottest(scale):
            coupling = CustomCoupling(
                lambda xi: 1 / (1 + scale * jnp.maximum(jnp.abs(xi) - 0.2, 0.0) ** 2),
                0.2,
                1.0,
                True,
            )
            assert coupling.even
            return coupling.hottest

        assert np.allclose(jax.vmap(hottest)(jnp.array([1.0, 2.0])), [1.64, 2.28])

    @pytest.mark.parametrize(
        ("xi", "expected", "flipped"),
        [(0.5, 0.5, False), (2.0, 4 / 3, True), (-2.0, -4 / 3, True), (7.0, 1 / 3, False)],
    )
    def test_reflection(self, xi, expected, flipped):
        place, momentum = PowerCoupling().reflect(jnp.asarray(xi), jnp.asarray(0.3))
        assert np.isclose(float(place), expected, atol=1e-5)
        assert np.isclose(float(momentum), -0.3 if flipped else 0.3)

    def test_an_uneven_coupling_unfolds_the_bins(self):
        def one_sided(xi):
            return 1 / (1 + 2.0 * jnp.maximum(xi - 0.2, 0.0) ** 2)

        coupling = CustomCoupling(one_sided, 0.2, 1.0)
        assert not coupling.even
        bias = AdaptiveBiasingForce(bins=4)
        table = bias.update(bias.init(jnp.float32), seen(-0.9, energy=2.0), coupling)
        assert table.visits.tolist() == [1.0, 0.0, 0.0, 0.0]


class TestBias:
    def test_abf_means_per_bin_folded_and_borrowing(self):
        bias, coupling = (
            AdaptiveBiasingForce(bins=5, memory=2.0),
            PowerCoupling(),
        )
        table = bias.init(jnp.float32)
        # Before anything was seen the force cancels the current energy.
        assert float(bias.force(table, seen(1.0, -0.5, 8.0), coupling)) == -4.0
        for xi, energy in ((1.0, 2.0), (-1.0, 4.0), (1.6, 10.0)):
            table = bias.update(table, seen(xi, energy=energy), coupling)
        assert table.visits.tolist() == [0.0, 0.0, 0.0, 2.0, 1.0]
        assert np.allclose(table.mean, [0.0, 0.0, 0.0, 3.0, 10.0])
        assert float(bias.force(table, seen(1.1, -0.5), coupling)) == -1.5
        # An empty bin borrows the recent mean: 2, then 3, then 6.5 (memory of two).
        assert np.isclose(float(bias.force(table, seen(0.5, -1.0), coupling)), -6.5)

    def test_literal_abf_divides_by_the_global_step(self):
        bias, coupling = (
            LiteralAdaptiveBiasingForce(bins=2),
            PowerCoupling(),
        )
        table = bias.init(jnp.float32)._replace(steps=jnp.asarray(3.0))
        table = bias.update(table, seen(1.0, -0.5, 8.0), coupling)
        assert np.allclose(table.force, [0.0, -1.0])
        assert float(table.steps) == 4

    def test_metadynamics_follows_appendix_b(self, x64):
        bias, coupling = (
            Metadynamics(bins=10, height=0.3),
            PowerCoupling(),
        )
        table, memory = bias.init(jnp.float64), np.zeros(10)
        delta = 2 * WALL / 10
        for xi in np.random.default_rng(0).uniform(-WALL, WALL, 50):
            j = min(int((xi + WALL) / delta), 9)
            centre = -WALL + (j + 0.5) * delta
            other = j + 1 if xi >= centre else j - 1
            expected = 0.0
            if 0 <= other <= 9:
                low, high = min(j, other), max(j, other)
                expected = (memory[low] - memory[high]) / delta
            assert np.isclose(float(bias.force(table, seen(xi), coupling)), expected, atol=1e-10)
            memory[j] += 0.3
            table = bias.update(table, seen(xi), coupling)
        assert np.allclose(np.asarray(table) - table.min(), memory - memory.min())

    def test_well_tempered_increments_shrink(self):
        bias, coupling = (
            well_tempered(2.0, bins=2, height=1.0),
            PowerCoupling(),
        )
        table = bias.init(jnp.float32)
        table = bias.update(table, seen(1.0), coupling)
        table = bias.update(table, seen(1.0), coupling)
        assert np.allclose(table, [0.0, 1.0 + np.exp(-0.5)])
        profile = bias.free_energy(table, coupling, bath=1.0)
        assert np.isclose(profile.value[1] - profile.value[0], -1.5 * float(table[1]), rtol=1e-5)

    def test_frozen_biases_do_not_learn(self):
        bias, coupling = (
            Metadynamics(bins=4).frozen(),
            PowerCoupling(),
        )
        table = bias.init(jnp.float32)
        assert np.array_equal(bias.update(table, seen(1.0), coupling), table)

    def test_free_energy_of_a_gaussian(self):
        """⟨U | ξ⟩ = D/(2λ), so A(ξ) = (D/2)·log λ; and a saved bias is the same again."""
        dim = 4
        target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        run = tacthmc.sample(
            jax.random.key(0), tacthmc.tact(0.05, keep_every=20), target, jnp.zeros(dim), 60_000, 16
        )
        profile = run.free_energy()
        temperature = np.asarray(run.sampler.coupling.temperature(jnp.asarray(profile.xi)))
        expected = -dim / 2 * np.log(temperature)
        assert np.max(np.abs(profile.value - expected)) < 0.15
        assert run.flatness.max() < 0.1
        ax = run.plot_free_energy()
        assert ax.get_xlabel() == "ξ"
        assert len(ax.lines) == 17

    def test_save_load_and_go_on(self, tmp_path):
        target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

        def sample(bias):
            return tacthmc.sample(
                jax.random.key(0), tacthmc.tact(0.05, bias=bias), target, jnp.zeros(2), 2000, 2
            )

        bias = AdaptiveBiasingForce(bins=10)
        first = sample(bias)
        first.save_bias(tmp_path / "bias.npz")
        loaded = load_bias(tmp_path / "bias.npz")
        assert type(loaded) is type(bias)
        second = sample(loaded.frozen())
        assert np.allclose(second.free_energy(0).value, first.free_energy().value, atol=1e-5)
        assert not np.allclose(sample(loaded).free_energy(0).value, first.free_energy().value)

    @pytest.mark.parametrize(
        "bias",
        [
            AdaptiveBiasingForce(bins=4, memory=7.0),
            LiteralAdaptiveBiasingForce(bins=4),
            Metadynamics(bins=4, height=0.5, spread=1),
            well_tempered(3.0, bins=4),
        ],
    )
    def test_every_bias_is_saved_whole(self, bias, tmp_path):
        table = bias.init(jnp.float32)
        for xi in (0.2, 0.9, -1.4, 1.5):
            table = bias.update(table, seen(xi, -0.5, 3.0), PowerCoupling())
        save_bias(tmp_path / "bias.npz", bias.frozen(), table)
        loaded = load_bias(tmp_path / "bias.npz")
        assert type(loaded) is type(bias)
        again = loaded.init(jnp.float32)
        for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(table), strict=True):
            assert np.array_equal(a, b)
        forces = [
            float(x.force(again, seen(1.1, -0.5, 3.0), PowerCoupling())) for x in (bias, loaded)
        ]
        assert forces[0] == forces[1]

    def test_wrong_tables_are_refused(self, tmp_path):
        table = MeanEnergies(jnp.zeros(3), jnp.zeros(3), jnp.zeros(()), jnp.zeros(()))
        with pytest.raises(ValueError, match="does not fit"):
            AdaptiveBiasingForce(bins=4).started_from(table)
        np.savez(tmp_path / "other.npz", a=1)
        with pytest.raises(ValueError, match="does not hold a bias"):
            load_bias(tmp_path / "other.npz")
        with pytest.raises(ValueError, match="no bias"):
            NoBias().free_energy((), PowerCoupling())

    def test_literal_abf_starves_the_plateau(self):
        """The paper's 1/k: about 8% of the time on the plateau instead of 20%."""
        target = tacthmc.targets.three_gaussians()
        potential = tacthmc.noisy(tacthmc.potential(target), force=3.0, energy=1.0)
        sampler = tacthmc.tact(0.01, bias=LiteralAdaptiveBiasingForce())
        run = tacthmc.sample(jax.random.key(0), sampler, potential, jnp.zeros(1), 200_000, 8)
        assert 0.03 < run.plateau_share.mean() < 0.15


class TestPotential:
    def test_minibatch_estimates_are_unbiased(self):
        data = {"x": jnp.arange(12.0), "y": jnp.arange(12.0) ** 2}
        model = tacthmc.posterior(
            lambda t: -0.5 * t**2, lambda t, e: -0.5 * (e["y"] - t * e["x"]) ** 2, data, 4
        )
        theta = jnp.array(0.7)
        values, gradients = [], []
        for i in range(3):
            batch = jax.tree.map(lambda x, i=i: x[4 * i : 4 * i + 4], data)
            value, gradient = model.value_and_grad(theta, batch)
            values.append(float(value))
            gradients.append(float(gradient))
        assert np.isclose(np.mean(values), float(model.energy(theta)), rtol=1e-6)
        assert np.isclose(np.mean(gradients), float(jax.grad(model.energy)(theta)), rtol=1e-6)

    def test_batched_likelihoods_are_the_same(self):
        data = jax.random.normal(jax.random.key(0), (10, 2))
        one = tacthmc.posterior(
            lambda t: -jnp.sum(t**2), lambda t, x: -jnp.sum((x - t) ** 2), data, 4
        )
        many = tacthmc.posterior(
            lambda t: -jnp.sum(t**2),
            lambda t, x: -jnp.sum((x - t[None]) ** 2, axis=1),
            data,
            4,
            batched=True,
        )
        theta = jnp.array([0.3, -0.2])
        for a, b in zip(
            jax.tree.leaves(one.value_and_grad(theta, data[:4])),
            jax.tree.leaves(many.value_and_grad(theta, data[:4])),
            strict=True,
        ):
            assert np.allclose(a, b, rtol=1e-6)
        assert np.isclose(float(one.energy(theta)), float(many.energy(theta)), rtol=1e-6)

    def test_noise_has_the_stated_spread(self):
        covariance = jnp.array([[4.0, 1.0], [1.0, 2.0]])
        potential = tacthmc.noisy(
            tacthmc.potential(lambda x: jnp.sum(x)), energy=2.0, covariance=covariance
        )
        keys = jax.random.split(jax.random.key(0), 40_000)
        position = jnp.zeros(2)
        values, gradients = jax.vmap(
            lambda key: potential.value_and_grad(position, potential.batch(key, position))
        )(keys)
        assert np.allclose(np.cov(np.asarray(gradients).T), covariance, atol=0.15)
        assert np.isclose(np.var(np.asarray(values)), 4.0, atol=0.15)
        assert abs(np.corrcoef(np.asarray(values), np.asarray(gradients[:, 0]))[0, 1]) < 0.03

    def test_control_variates_reduce_noise_and_stay_unbiased(self):
        rng = np.random.default_rng(0)
        data = {
            "x": jnp.asarray(rng.normal(size=(200, 2)), jnp.float32),
            "y": jnp.asarray(rng.random(200) < 0.5, jnp.float32),
        }

        def log_likelihood(t, e):
            logit = e["x"] @ t
            return e["y"] * logit - jax.nn.softplus(logit)

        model = tacthmc.posterior(lambda t: -0.5 * jnp.sum(t**2), log_likelihood, data, 20)
        better = control_variates(model, jnp.zeros(2))
        theta = jnp.array([0.1, -0.1])
        plain = measure_noise(jax.random.key(0), model, theta, 500)
        reduced = measure_noise(jax.random.key(0), better, theta, 500)
        assert reduced.mean_force < plain.mean_force / 20
        assert reduced.energy < plain.energy / 20
        whole = jax.tree.map(lambda x: x, data)
        value, gradient = better.value_and_grad(theta, whole)
        assert np.isclose(float(value), float(model.energy(theta)), rtol=1e-5)
        assert np.allclose(gradient, jax.grad(model.energy)(theta), rtol=1e-4, atol=1e-4)

    def test_a_cold_posterior_is_narrower(self):
        cold = tacthmc.at_temperature(tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)), 0.25)
        run = tacthmc.sample(
            jax.random.key(0), tacthmc.sghmc(0.02, keep_every=20), cold, jnp.zeros(1), 20_000, 16
        )
        assert np.isclose(run.draws.std(), 0.5, atol=0.03)


class TestPart:
    def test_a_frozen_subtree_is_not_sampled(self):
        def energy(p):
            return jnp.sum((p["w"] - p["b"]) ** 2)

        init = {"w": jnp.zeros(2), "b": jnp.full(2, 5.0)}
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.sghmc(0.02),
            tacthmc.potential(energy),
            init,
            20_000,
            4,
            sampled={"w": True, "b": False},
        )
        assert run.draws["b"] is None
        assert np.isclose(run.draws["w"].mean(), 5.0, atol=0.2)
        assert np.array_equal(run.whole(run.draws)["b"], init["b"])

    def test_an_equinox_model_with_other_leaves(self):
        model = eqx.nn.MLP(2, 1, 4, 1, key=jax.random.key(0))
        data = jax.random.normal(jax.random.key(1), (16, 2))
        potential = tacthmc.posterior(
            lambda m: (
                -0.5 * sum(jnp.sum(w**2) for w in jax.tree.leaves(eqx.filter(m, eqx.is_array)))
            ),
            lambda m, x: -0.5 * jnp.sum(m(x) ** 2),
            data,
            8,
        )
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.tact(1e-3, keep_every=5),
            potential,
            model,
            500,
            2,
            sampled=eqx.is_inexact_array,
            num_warmup=0,
        )
        assert run.draws.layers[0].weight.shape[2:] == (4, 2)
        assert callable(run.whole(run.draws).activation)
        # The data are found through the wrapper that holds the rest fixed.
        assert run.to_arviz()["observed_data"]["data"].shape == (16, 2)

    def test_numbers_in_the_frozen_part_stay_numbers(self):
        class Repeated(eqx.Module):
            weight: jax.Array
            times: int

            def __call__(self, x):
                for _ in range(self.times):
                    x = x + self.weight
                return x

        potential = tacthmc.potential(lambda m: jnp.sum(m(0.0) ** 2))
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.sgld(0.01),
            potential,
            Repeated(jnp.zeros(2), 3),
            200,
            sampled=eqx.is_inexact_array,
        )
        assert run.draws.times is None
        with pytest.raises(ValueError, match="picks no leaf"):
            subset(potential, Repeated(jnp.zeros(2), 3), lambda leaf: False)


@pytest.fixture(scope="module")
def run():
    data = jnp.asarray(np.random.default_rng(0).normal(size=(50, 2)), jnp.float32)
    potential = tacthmc.posterior(
        lambda p: -0.5 * jnp.sum(p["mu"] ** 2),
        lambda p, x: -0.5 * jnp.sum((x - p["mu"]) ** 2),
        data,
        10,
    )
    sampler = tacthmc.tact(1e-3, keep_every=10)
    return tacthmc.sample(jax.random.key(0), sampler, potential, {"mu": jnp.zeros(2)}, 20_000, 4)


@pytest.mark.parametrize(
    ("thermostat", "mass", "force"),
    [
        (ScalarThermostat(shape="mass"), 100.0, 20.0),
        (TensorThermostat(), 1.0, {"a": 10.0, "b": 1.0}),
        (DiagonalThermostat(), {"a": 2.0, "b": 0.5}, 5.0),
    ],
)
def test_the_summary_knows_each_thermostats_law(thermostat, mass, force):
    potential = tacthmc.noisy(
        tacthmc.potential(lambda p: 0.5 * jnp.sum(p["a"] ** 2) + 0.5 * jnp.sum(p["b"] ** 2)),
        force=force,
    )
    sampler = tacthmc.sgnht(0.01, thermostat=thermostat, mass=mass, keep_every=20)
    start = {"a": jnp.zeros(2), "b": jnp.zeros(30)}
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 40_000, 8)
    law = run.summary().thermostats[0]
    assert law.name == "z_theta"
    assert np.isclose(law.mean, law.expected_mean, rtol=0.05)
    assert np.isclose(law.sd, law.expected_sd, rtol=0.15)


@pytest.mark.xdist_group("test_run")
class TestRun:
    def test_draws_are_at_unit_temperature_after_warmup(self, run):
        assert run.draws["mu"].shape == (4, run.num_draws, 2)
        assert np.all(np.abs(run.stats["xi"]) <= 1 / 3)
        assert np.all(run.stats["temperature"] == 1)
        assert np.all(run.stats["step"] > 2000)
        assert np.all(run.stats["step"] % 10 == 0)
        assert run.num_draws == min(len(chain["mu"]) for chain in run.all_draws)

    def test_summary(self, run):
        summary = run.summary()
        text = str(summary)
        for word in ("mu[0]", "R-hat", "ESS", "plateau share", "round trips", "z_theta", "theory"):
            assert word in text
        assert len(summary.parameters) == 2
        assert summary.round_trips == run.round_trips.tolist()
        assert summary.thermostats[0].name == "z_theta"

    def test_arviz(self, run):
        data = run.to_arviz()
        assert data["posterior"]["mu"].shape == (4, run.num_draws, 2)
        assert data["sample_stats"]["xi"].shape == (4, run.num_draws)
        assert data["observed_data"]["data"].shape == (50, 2)

    def test_the_trace_shows_all_temperatures(self, run):
        assert run.trace["xi"].shape == (4, 2000)
        assert run.trace["temperature"].max() > 5
        assert np.all(run.round_trips > 0)
        for share, column in zip(run.plateau_share, run.after_warmup("plateau_share"), strict=True):
            assert np.isclose(share, column.mean())

    def test_samplers_without_tempering_have_no_xi(self):
        run = tacthmc.sample(
            jax.random.key(0),
            tacthmc.sgld(0.01),
            tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2)),
            jnp.zeros(20),
            2000,
            2,
        )
        assert not run.tempered
        text = str(run.summary())
        assert "plateau" not in text
        assert "and 4 more parameters" in text
        with pytest.raises(ValueError, match="no tempering variable"):
            run.free_energy()

    def test_old_style_keys_work(self):
        target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
        run = tacthmc.sample(jax.random.PRNGKey(0), tacthmc.sgld(0.01), target, jnp.zeros(1), 200)
        new = tacthmc.sample(jax.random.key(0), tacthmc.sgld(0.01), target, jnp.zeros(1), 200)
        assert np.array_equal(run.draws, new.draws)


def test_import_allocates_nothing_and_needs_no_extras():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "for name in ('arviz', 'matplotlib', 'blackjax', 'xarray'): sys.modules[name] = None\n"
        "import jax, tacthmc, jax.numpy as jnp\n"
        "assert len(jax.live_arrays()) == 0\n"
        "run = tacthmc.sample(jax.random.key(0), tacthmc.sgld(0.1),"
        " tacthmc.potential(lambda x: jnp.sum(x**2)), jnp.zeros(1), 100)\n"
        "assert run.draws.shape[0] == 1\n"
        "assert 'pip install arviz' in str(run.summary())\n"
        "try: run.to_arviz()\n"
        "except ImportError as error: assert 'pip install arviz' in str(error)\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
