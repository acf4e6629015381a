"""A sampler without numbers: what is chosen, that it is said, and that it samples."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import Langevin, LowRank, PowerCoupling
from tacthmc.potentials import HostBatches
from tacthmc.samplers import Untuned
from tacthmc.targets import three_gaussians
from tacthmc.tuning import _friction as friction
from tacthmc.tuning import _thermostats as inertia
from tacthmc.tuning import _xi as slope
from tacthmc.tuning._bursts import Burst
from tacthmc.tuning._ladder import Cooled, Heat, Level, share_elsewhere
from tacthmc.tuning._plateau import Plateau
from tacthmc.tuning._preconditioner import rounded
from tests.budget import assert_mean

# One worker for this file: its tests share compiled programs and runs.
pytestmark = pytest.mark.xdist_group("test_warmup")


class InUnits(eqx.Module):
    """A function of θ as one of s·θ; s is an array, so that all units share a program."""

    function: object
    scale: jax.Array

    def __call__(self, position, *rest):
        return self.function(position / self.scale, *rest)


def mixture(scale):
    target = InUnits(three_gaussians(), jnp.asarray(scale, jnp.float32))
    return tacthmc.noisy(tacthmc.potential(target), force=3.0 / scale, energy=1.0)


@pytest.fixture(scope="module", params=[1.0, 1e-3, 1e3], ids=["as it is", "small", "large"])
def three(request):
    scale = request.param
    run = tacthmc.sample(
        jax.random.key(2),
        tacthmc.tact(),
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
    assert 0.035 < run.tuning["step_size"] / scale**2 < 0.08


def test_everything_chosen_has_a_reason(three):
    _, run = three
    names = {choice.name for choice in run.tuning.choices}
    assert names >= {
        "step_size",
        "noise",
        "thermostat",
        "xi_step_size",
        "xi_thermostat",
        "coupling",
        "bias",
        "keep_every",
        "frame",
        "centre",
    }
    assert all(choice.reason for choice in run.tuning.choices)
    assert float(run.sampler.coupling.hottest) >= 2.9
    assert "came back elsewhere" in str(run.tuning)
    # Noise may differ from mode to mode, and thermostats have to follow.
    assert run.sampler.thermostat.inertia.steps < 200


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
    assert run.sampler.frame is not None
    # One mode: thermostats are slow, so that they do not answer to the noise's skewness.
    assert run.sampler.thermostat.inertia.steps == inertia.LONGEST
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


def test_nothing_adapts_but_the_bias(stored):
    _, run = stored
    sampler = run.sampler
    assert isinstance(sampler, Langevin)
    assert not callable(sampler.step_size)
    assert not callable(sampler.xi_step_size)
    assert sampler.bias.frozen().table is None


def gaussian():
    return tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 4.0])))


def small(sampler, seed=0, potential=None, **options):
    potential = gaussian() if potential is None else potential
    given = {"num_chains": 4, "num_steps": 100, "progress": False} | options
    return tacthmc.tune(jax.random.key(seed), sampler, potential, jnp.ones(2), **given)


def test_given_numbers_stay():
    coupling = PowerCoupling.up_to(4.0)
    fixed = {"step_size": 0.07, "noise": 0.2, "xi_step_size": 0.002, "keep_every": 7}
    made = small(Untuned(coupling=coupling, frame=None, centre=None, **fixed))
    assert made.step_size == 0.07
    assert made.injected == 0.2
    assert made.xi_step_size == 0.002
    assert made.keep_every == 7
    assert float(made.coupling.hottest) == pytest.approx(4.0)
    reasons = {c.name: c.reason for c in made.tuning.choices}
    assert all(reasons[name] == "given" for name in (*fixed, "coupling", "frame", "centre")) or (
        reasons["xi_step_size"].startswith("given")
    )


def test_a_given_form_stays():
    made = small(tacthmc.tact(centre="mean"))
    assert isinstance(made.centre, str)
    assert made.centre == "mean"


def test_starts_are_cold():
    hot = small(tacthmc.tact(coupling=PowerCoupling.up_to(100.0)), num_chains=8)
    # At the hottest of all, |θ|² would be a hundred times as large.
    energies = jax.vmap(gaussian().energy)(hot.tuning.start)
    assert float(jnp.mean(energies)) < 4


def test_the_same_key_chooses_the_same():
    first, second = (small(tacthmc.tact(), seed=3) for _ in range(2))
    for name in ("step_size", "noise", "xi_step_size", "keep_every"):
        assert first.tuning[name] == second.tuning[name]


def test_a_diagonal_frame():
    steep = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2 * jnp.array([1.0, 400.0])))
    made = small(tacthmc.tact(frame="diagonal"), potential=steep)
    assert made.frame is not None
    ratio = float(made.frame.scale[0] / made.frame.scale[1])
    assert 3 < ratio < 60


def test_reasons_are_printed(capsys):
    small(tacthmc.tact(), progress=None)
    said = capsys.readouterr().err
    assert "warm-up: step_size = " in said
    assert "over the largest curvature" in said
    small(tacthmc.tact(), progress=False)
    assert not capsys.readouterr().err


def test_reasons_do_not_change_what_is_compiled():
    one, other = (
        tacthmc.tuning.Tuning((tacthmc.tuning.Choice("step_size", v, "so"),)) for v in (1.0, 2.0)
    )
    assert one == other
    assert hash(one) == hash(other)
    assert jax.tree.structure(one) == jax.tree.structure(other)
    with pytest.raises(KeyError, match="nothing was chosen for 'mass'"):
        one["mass"]


def test_where_there_is_no_bottom():
    with pytest.raises(tacthmc.TuningError, match="diverged"):
        small(tacthmc.tact(), potential=tacthmc.potential(lambda x: -jnp.sum(x**4)))


def test_where_there_is_no_curvature():
    with pytest.raises(tacthmc.TuningError, match=r"curvature at init is 0\.0"):
        small(tacthmc.tact(), potential=tacthmc.potential(lambda x: jnp.sum(0 * x)))


def test_a_given_step_that_is_too_large():
    with pytest.raises(tacthmc.TuningError, match=r"(?s)no step size samples.*η = 50"):
        small(Untuned(step_size=50.0, frame=None))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Untuned(step_sise=1.0), TypeError, "did you mean 'step_size'"),
        (lambda: tacthmc.tact(mass=2.0), TypeError, "'mass' cannot be fixed"),
        (lambda: tacthmc.tact(noise=lambda k: 0.1), TypeError, "noise must be a number"),
        (lambda: tacthmc.tact(frame="dense"), ValueError, "frame must be"),
        (lambda: Untuned(noise=None), TypeError, "noise must not be None"),
        (lambda: tacthmc.tact(keep_every=0), ValueError, "keep_every must be"),
    ],
)
def test_what_cannot_be_fixed(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_stream_cannot_be_warmed_up():
    data = (np.zeros((40, 1), np.float32),)
    rows = HostBatches(data, 4, jax.random.key(0))
    streamed = tacthmc.streamed(
        lambda w: -jnp.sum(w**2), lambda w, x: jnp.sum(w * x[0]), rows, num_data=40
    )
    with pytest.raises(ValueError, match="streamed posterior"):
        small(tacthmc.tact(), potential=streamed)


@pytest.fixture(scope="module")
def network():
    """2,000 examples of 20 inputs, labeled by another network; 785 parameters, batches of 20."""
    model = tacthmc.paper.networks.mlp(20, 30, 5)
    rng = np.random.default_rng(0)
    inputs = jnp.asarray(rng.normal(size=(2000, 20)) + 1.0, jnp.float32)
    teacher = jax.tree.map(lambda x: 3.0 * x, model.init(jax.random.key(5)))
    labels = jnp.argmax(model.logits(teacher, inputs), axis=1)
    posterior = tacthmc.posterior(
        tacthmc.paper.networks.gaussian_prior(precision=1.0),
        tacthmc.paper.networks.categorical(model),
        (inputs, labels),
        20,
        batched=True,
    )
    sampler = tacthmc.tune(
        jax.random.key(0),
        tacthmc.tact(),
        posterior,
        model.init(jax.random.key(1)),
        num_chains=4,
        num_steps=200,
        progress=False,
    )
    return posterior, sampler


def test_a_network_is_tuned(network):
    _, sampler = network
    reasons = {choice.name: choice.reason for choice in sampler.tuning.choices}
    assert isinstance(sampler.frame.scale, LowRank)
    assert "directions shortened" in reasons["frame"]
    assert "numbers" in reasons["keep_every"]
    assert "cannot tell" in reasons["coupling"]
    assert "one standard deviation of the energy" in reasons["coupling"]
    assert float(sampler.coupling.plateau / sampler.coupling.wall) == pytest.approx(slope.AT_REST)
    # Bursts stay as short as they were asked to be, or ten times that.
    assert sampler.tuning.gradients < 4 * 200 * 1_000


def test_a_networks_noisy_directions_are_no_hotter_than_others(network):
    """⟨(q·(θ − θ̄))·(q·∇U)⟩ along a direction q is its temperature, by the gradient of all data.

    A network's slow directions make all of them read low in a run like this, so that directions
    are compared with one another.
    """
    posterior, sampler = network
    start = jax.tree.map(lambda x: x[0], sampler.tuning.start)
    noisiest = np.asarray(sampler.frame.scale.directions, float)[:3]

    def flat(tree):
        leaves = [np.asarray(x, float).reshape(*x.shape[:2], -1) for x in jax.tree.leaves(tree)]
        return np.concatenate(leaves, axis=2)

    def heat(frame):
        chosen = tacthmc.sgnht(sampler.step_size, noise=sampler.injected, frame=frame)
        run = tacthmc.sample(jax.random.key(3), chosen, posterior, start, 20_000, 4, progress=False)
        slopes = flat(jax.jit(jax.vmap(jax.vmap(jax.grad(posterior.energy))))(run.draws))
        away = flat(run.draws)
        away -= away.mean(axis=1, keepdims=True)
        along = np.mean((away @ noisiest.T) * (slopes @ noisiest.T))
        return along / np.mean(away * slopes)

    assert heat(sampler.frame) < 2
    assert heat(None) > 5


def test_unequal_noise_makes_steps_shorter():
    even, uneven = friction.Noise(4.0, 4.0), friction.Noise(4.0, 40.0)
    assert friction.steps(1.0, uneven).eta < 0.2 * friction.steps(1.0, even).eta
    assert friction.steps(1.0, uneven).c == friction.MOST


def test_noise_in_high_dimension_is_not_uneven_by_chance():
    found = friction.force_noise(np.random.default_rng(0).normal(size=(128, 2000)))
    assert found.top < 1.5 * found.mean


def test_round_posteriors_need_no_frame():
    noise = np.random.default_rng(0).normal(size=(400, 3))
    assert rounded(np.eye(3), noise).frame is None


def test_a_frame_by_noise_is_made_of_enough_of_it():
    """In the frame the variances of 4n draws are even to ±2√(D/4n): here ±14%, a ratio of 1.33."""
    sds = np.geomspace(1.0, 30.0, 20)
    flat = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    target = tacthmc.noisy(flat, force=jnp.asarray(sds, jnp.float32))
    found = Plateau(target, jnp.zeros((4, 20)), 100).better_frame(jax.random.key(0))
    assert found.frame is not None
    scale = np.asarray(found.frame.scale, float)
    within = np.linalg.eigvalsh(scale.T @ np.diag(sds**2) @ scale)
    assert within[-1] / within[0] < 1.5


def test_a_chain_that_wanders_has_not_moved():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(8, 80, 2)), axis=1)
    assert share_elsewhere(walk[:, :40], walk[:, 40:]) < 0.3


def test_an_idle_coupling_is_mostly_plateau_and_no_steeper():
    hot = np.array([1.0, 3.0, 9.0])
    seen = slope.Profile(hot, 10 * hot, hot)
    usual, idle = seen.coupling(breathing=False), seen.coupling(breathing=False, idle=True)
    assert idle.plateau / idle.wall == pytest.approx(slope.AT_REST)
    assert seen.push(idle, breathing=False) == pytest.approx(seen.push(usual, False), rel=1e-3)
    short = seen.up_to(1.6)
    wanted = slope.BINS_PER_SD * short.length(breathing=False) * float(idle.wall / usual.wall)
    assert slope.bins(short, False, idle) == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("dimension", [friction.LOOKED_AFTER, friction.LOOKED_AFTER + 1])
@pytest.mark.parametrize("moved", [0.0, 0.5])
def test_only_high_dimension_rests_where_heat_is_of_no_use(dimension, moved):
    burst = Burst((), np.zeros((2, 2, dimension)), np.zeros((2, 2)), 1, True)
    levels, cooled = [Level(1.0, burst), Level(3.0, burst)], [Cooled(burst, moved, 1.0)]
    heat = Heat(levels, cooled, given=False, potential=None)
    assert heat.idle == (dimension > friction.LOOKED_AFTER and moved == 0)


@pytest.mark.parametrize("longest", [20.0, 1.0, 0.01])
def test_a_way_is_as_short_as_was_asked_for(longest):
    hot = np.array([1.0, 3.0, 9.0])
    seen = slope.Profile(hot, 4_000 * hot, 4_000 * hot)
    way = seen.up_to(seen.within(longest))
    assert way.length(breathing=False) == pytest.approx(longest, rel=1e-3)
    fall = 1 - 1 / float(way.coupling(False, idle=True).hottest)
    assert fall == pytest.approx(longest / 4_000, rel=0.05)


@pytest.mark.parametrize("returned", [1.0, 0.5])
def test_chains_that_did_not_cool_are_not_said_to_have_come_back(returned):
    burst = Burst((), np.zeros((2, 2, 3)), np.zeros((2, 2)), 1, True)
    levels, cooled = [Level(1.0, burst), Level(3.0, burst)], [Cooled(burst, 0.9, returned)]
    hottest, why = Heat(levels, cooled, given=False, potential=None).hottest
    assert ("had not cooled" in why) == (returned < 0.9)
    assert (hottest == 3.0) == (returned == 1.0)


def test_breathing_is_calm_in_one_gaussian():
    hot = np.array([1.0, 3.0, 9.0])
    seen = slope.Profile(hot, 10 * hot, np.full(3, 0.1))
    assert seen.length(breathing=True) < 0.01 * seen.length(breathing=False)
    assert seen.up_to(3.0).length(breathing=False) == pytest.approx(10 * np.log(3.0), rel=1e-6)
