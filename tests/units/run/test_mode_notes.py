"""What a summary says about modes: when it warns, and when it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.dynamics import ContinuousTempering, ModeJumps, Modes, PowerCoupling
from tacthmc.run._evidence_notes import disagreement, evidence_notes, evidence_shares

pytestmark = pytest.mark.usefixtures("quick_compilation")

LOG_WEIGHTS = np.log([0.6, 0.39, 0.01])
CENTERS = np.array([[-8.0, 0.0, 1.0, 2.0], [8.0, 0.0, 1.0, 2.0], [0.0, 9.0, 1.0, 2.0]])


def energy(x):
    away = jnp.sum((x[None] - jnp.asarray(CENTERS, x.dtype)) ** 2, axis=1)
    return -jax.nn.logsumexp(jnp.asarray(LOG_WEIGHTS, x.dtype) - 0.5 * away)


def listed(weights=(0.6, 0.39, 0.01), count=3):
    return Modes(CENTERS[:count], np.ones((count, 4)), weights[:count])


def sampled(jumps, steps=20_000, tempering=None, every=10):
    make = tacthmc.sgnht if tempering is None else tacthmc.tact
    options = {} if tempering is None else {"tempering": tempering}
    sampler, start = make(0.2, jumps=jumps, **options), jnp.asarray(CENTERS[0], jnp.float32)
    potential, keep = tacthmc.potential(energy), tacthmc.Keep(every=every)
    return tacthmc.sample(jax.random.key(0), sampler, potential, start, steps, 4, keep=keep)


def alarms(run):
    return [note for note in run.summary().notes if note.startswith("!")]


@pytest.fixture(scope="module")
def good():
    return sampled(ModeJumps(listed(), every=20))


def test_a_good_run_does_not_warn(good):
    assert alarms(good) == []


def test_the_lines_have_shares_changes_and_accepted_jumps(good):
    shares, changes, accepted = good.summary().mode_lines
    assert shares.startswith("shares of 3 modes: 0.")
    assert shares.count("±") == 3
    listed_shares = [float(part.split(" ")[0]) for part in shares.split(": ")[1].split(", ")]
    assert listed_shares == pytest.approx([0.6, 0.39, 0.01], abs=0.05)
    labels = good.stats["mode"]
    counts = np.sum(labels[:, 1:] != labels[:, :-1], axis=1)
    assert changes == f"changes of mode per chain: {' '.join(map(str, counts))}"
    # A jump is due in every second interval, and each is accepted.
    assert float(accepted.removeprefix("accepted jumps: ").removesuffix("%")) > 95
    assert shares in str(good.summary())


@pytest.mark.slow
def test_accepted_jumps_are_counted_at_unit_temperature():
    tempering = ContinuousTempering(PowerCoupling.up_to(3.0))
    run = sampled(ModeJumps(listed(), every=20), 50_000, tempering)
    assert run.plateau_share.mean() < 0.5
    share = float(run.summary().mode_lines[-1].removeprefix("accepted jumps: ").removesuffix("%"))
    assert share > 85


def test_a_mode_without_draws_warns():
    stuck = sampled(ModeJumps(listed(), every=10**6), 1_000)
    notes = alarms(stuck)
    assert any(
        "the mode at [8, 0, 1, …], with an estimated share of 39%, has no draw" in note
        for note in notes
    )
    assert any("[-8, 0, 1, …] was entered 0 and left 0 times" in note for note in notes)
    # 1% is the smallest share that is worth a warning.
    light = sampled(ModeJumps(listed((0.6, 0.39, 0.009)), every=10**6), 1_000)
    assert not any("[0, 9" in note for note in alarms(light))


@pytest.mark.slow
def test_a_rarely_entered_mode_warns():
    rare = sampled(ModeJumps(listed(), every=2_000))
    notes = [note for note in alarms(rare) if "was entered" in note]
    assert notes
    assert all("hardly known, run longer" in note for note in notes)


@pytest.mark.slow
def test_a_light_mode_does_not_make_the_heavy_one_unknown():
    """A mode of 0.1% is entered a few times only, which is no news about that of 99.9%."""

    def lopsided(x):
        return -jnp.logaddexp(-0.5 * jnp.sum(x**2), np.log(1e-3) - 0.5 * jnp.sum((x - 9.0) ** 2))

    modes = Modes(np.array([[0.0], [9.0]]), np.ones((2, 1)), [0.999, 0.001])
    sampler, keep = tacthmc.sgnht(0.2, jumps=ModeJumps(modes)), tacthmc.Keep(every=10)
    potential, start = tacthmc.potential(lopsided), jnp.zeros(1)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 10_000, 4, keep=keep)
    labels = run.by_mode(evidence=False).labels
    assert 0 < np.sum((labels[:, 1:] == 1) & (labels[:, :-1] == 0)) < 10
    assert alarms(run) == []


@pytest.mark.slow
def test_one_mode_has_only_a_line_about_jumps():
    one = sampled(ModeJumps(listed(count=1)), 2_000)
    (line,) = one.summary().mode_lines
    assert line.startswith("accepted jumps: ")


@pytest.mark.slow
def test_a_run_without_a_list_has_no_lines():
    assert sampled(None, 1_000).summary().mode_lines == ()


@pytest.mark.slow
def test_many_modes_are_not_all_shown():
    centers = np.arange(12.0)[:, None] * 10.0

    def row(x):
        return -jax.nn.logsumexp(-0.5 * (x[0] - jnp.asarray(centers[:, 0], x.dtype)) ** 2)

    modes = Modes(centers, np.ones((12, 1)), np.ones(12))
    sampler, keep = tacthmc.sgnht(0.2, jumps=ModeJumps(modes)), tacthmc.Keep(every=10)
    potential, start = tacthmc.potential(row), jnp.zeros(1)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 10_000, 2, keep=keep)
    assert run.summary().mode_lines[0].endswith(" and 4 more")


def test_shares_by_draws_and_by_evidence_agree(good):
    assert evidence_notes(good, 3) == []
    shares, errors = evidence_shares(good.by_mode())
    assert shares == pytest.approx([0.6, 0.39, 0.01], abs=0.03)
    assert np.all(errors < 0.05)


@pytest.mark.parametrize(("first", "warns"), [(0.62, False), (0.75, True), (0.45, True)])
def test_shares_that_the_evidence_contradicts_are_a_warning(good, first, warns):
    found = good.by_mode()
    one, two, *rest = found.modes
    changed = [one._replace(share=first), two._replace(share=0.99 - first), *rest]
    note = disagreement(found._replace(modes=changed))
    assert (note is not None) == warns
    assert note is None or "by its evidence" in note


def peaked(x, center, scale):
    """The log density of a peak that is sharp in each coordinate."""
    return -jnp.sum(jnp.sqrt(((x - center) / scale) ** 2 + 1e-4)) - x.size * jnp.log(2 * scale)


def test_steps_that_heat_are_a_warning():
    centers, scales = np.array([[-6.0, 0.0], [6.0, 0.0]]), np.array([0.25, 1.0])

    def energy(x):
        return -jnp.logaddexp(*(peaked(x, c, s) for c, s in zip(centers, scales, strict=True)))

    def run_with(step_size):
        # The standard deviation of a Laplace distribution is √2.
        modes = Modes(centers, np.sqrt(2) * scales[:, None] * np.ones((2, 2)), np.ones(2))
        sampler, start = tacthmc.sgnht(step_size, jumps=ModeJumps(modes)), jnp.asarray(centers[0])
        keep, potential = tacthmc.Keep(every=10), tacthmc.potential(energy)
        return tacthmc.sample(jax.random.key(0), sampler, potential, start, 40_000, 4, keep=keep)

    bad, good = run_with(0.1), run_with(1e-4)
    assert any("steps are too long somewhere" in note for note in alarms(bad))
    assert alarms(good) == []
