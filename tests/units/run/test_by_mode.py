"""The draws of a run by mode: shares, errors, moments and evidence against the truth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.diagnostics._bridge import LogMass
from tacthmc.dynamics import ContinuousTempering, ModeJumps, Modes, PowerCoupling
from tacthmc.run._by_mode import ByMode, ModeSummary
from tests.budget import QUANTILE

pytestmark = pytest.mark.usefixtures("quick_compilation")

CONSTANT = 30.0
WIDTHS = {"narrow": 0.5, "wide": 1.0}
KEEP = tacthmc.Keep(every=10)


def log_normal(x, mean, sd):
    return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)))


def energy(x):
    """0.3·N(−5, 0.5²I) + 0.7·N(5, I), times exp(−CONSTANT)."""
    narrow = np.log(0.3) + log_normal(x, -5.0, 0.5)
    return CONSTANT - jnp.logaddexp(narrow, np.log(0.7) + log_normal(x, 5.0, 1.0))


def listed(size=2, weights=(0.4, 0.6), extra=()):
    """The modes of the energy with inexact scales, and ``extra`` centers that are none."""
    centers = [np.full(size, -5.0), np.full(size, 5.0), *(np.full(size, c) for c in extra)]
    scales = np.full((len(centers), size), 0.7)
    return Modes(centers, scales, [*weights, *(1e-3 for _ in extra)])


def sampled(sampler, steps=40_000, start=5.0, size=2, **options):
    position = jnp.full(size, start)
    potential = tacthmc.potential(energy)
    key = jax.random.key(0)
    return tacthmc.sample(key, sampler, potential, position, steps, 4, keep=KEEP, **options)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    path = tmp_path_factory.mktemp("by_mode") / "run"
    return sampled(tacthmc.sgnht(0.05, jumps=ModeJumps(listed())), store=path)


def assert_known(mode, share, sd, evidence=True):
    """A mode against its truth, with the errors that it states."""
    assert 0 < mode.error < 0.02
    assert abs(mode.share - share) < QUANTILE * mode.error
    # Draws at every tenth step are correlated, so a few percent are what is to be expected.
    assert np.allclose(mode.sd, sd, rtol=0.1)
    if evidence:
        assert 0 < mode.log_evidence.error < 0.1
        off = mode.log_evidence.value - (np.log(share) - CONSTANT)
        assert abs(off) < QUANTILE * mode.log_evidence.error


def test_shares_moments_and_evidence(two):
    found = two.by_mode()
    wide, narrow = found.modes
    assert_known(wide, 0.7, 1.0)
    assert_known(narrow, 0.3, 0.5)
    assert np.allclose(wide.mean, 5.0, atol=0.1)
    assert np.allclose(narrow.mean, -5.0, atol=0.1)
    assert (wide.expected, narrow.expected) == pytest.approx((0.6, 0.4))
    total = found.log_evidence
    assert abs(total.value + CONSTANT) < QUANTILE * total.error
    assert total.error < wide.log_evidence.error + narrow.log_evidence.error


def test_labels_are_those_of_the_draws(two):
    found = two.by_mode(evidence=False)
    assert found.labels.shape == two.draws.shape[:2]
    assert np.array_equal(found.labels == 1, two.draws.sum(axis=2) < 0)
    assert [m.share for m in found.modes] == [(found.labels == k).mean() for k in range(2)]
    inside = found.labels == 1
    assert found.modes[1].entries == (inside[:, 1:] & ~inside[:, :-1]).sum()
    assert found.modes[0].log_evidence is None
    assert found.log_evidence is None


def test_the_table_has_a_line_for_each_mode(two):
    text = str(two.by_mode())
    assert text.count("mode ") == 2
    assert "mode 0: share 0.7" in text
    assert "log evidence -30." in text


def test_a_stored_run_has_the_same_modes(two):
    again = tacthmc.load(two.path).by_mode()
    assert str(again) == str(two.by_mode())


def test_modes_without_draws(two):
    """A mode of the list that does not exist, and one that the run missed."""
    stuck = sampled(tacthmc.sgnht(0.05, jumps=ModeJumps(listed(extra=[-20.0]), every=10**6)), 2_000)
    wide, *missed = stuck.by_mode().modes
    assert wide.share == 1.0
    assert wide.error == pytest.approx(0.4, abs=0.01)
    assert [mode.share for mode in missed] == [0.0, 0.0]
    # Without draws the error is the share that is expected, and the evidence is still known.
    assert missed[0].error == pytest.approx(missed[0].expected)
    assert np.isnan(missed[0].mean).all()
    evidence = {round(m.expected, 1): m.log_evidence for m in missed}[0.4]
    assert abs(evidence.value - np.log(0.3) + CONSTANT) < QUANTILE * evidence.error


def test_an_unknown_mass_makes_the_sum_unknown():
    known = ModeSummary(0.5, 0.1, 0.0, 1.0, 3, 0.5, LogMass(-1.0, 0.1))
    unknown = known._replace(log_evidence=LogMass(-np.inf, np.inf))
    labels = np.zeros((1, 2), int)
    assert ByMode([known, known], labels).log_evidence.value == pytest.approx(np.log(2) - 1)
    assert ByMode([known, known], labels).log_evidence.error == pytest.approx(0.1 / np.sqrt(2))
    assert ByMode([known, unknown], labels).log_evidence == (-1.0, np.inf)


@pytest.mark.slow
def test_a_list_of_one_mode():
    size = 3
    sampler = tacthmc.sgnht(0.05, jumps=ModeJumps(Modes([[5.0] * size], [[0.8] * size], [1.0])))
    found = sampled(sampler, 5_000, size=size).by_mode()
    (mode,) = found.modes
    assert (mode.share, mode.error, mode.entries) == (1.0, 0.0, 0)
    evidence = mode.log_evidence
    assert abs(evidence.value - np.log(0.7) + CONSTANT) < QUANTILE * evidence.error


@pytest.fixture(scope="module")
def tempering():
    return ContinuousTempering(PowerCoupling.up_to(12.0))


@pytest.mark.slow
def test_without_a_list_modes_are_found_in_the_draws(tempering):
    found = sampled(tacthmc.tact(0.05, tempering=tempering), 400_000).by_mode()
    assert len(found.modes) == 2
    wide, narrow = found.modes
    assert wide.expected is None
    assert wide.log_evidence is None
    for mode, share, sd in ((wide, 0.7, 1.0), (narrow, 0.3, 0.5)):
        assert abs(mode.share - share) < QUANTILE * mode.error
        assert np.allclose(mode.sd, sd, rtol=0.15)


@pytest.mark.slow
def test_draws_of_all_temperatures(tempering):
    """Only those at unit temperature count."""
    sampler = tacthmc.tact(0.05, tempering=tempering, jumps=ModeJumps(listed()))
    keep = tacthmc.Keep(every=10, temperatures="all")
    potential = tacthmc.potential(energy)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, jnp.ones(2), 100_000, 4, keep=keep)
    found = run.by_mode()
    assert found.labels.shape[1] < 0.5 * run.num_draws
    wide, narrow = found.modes
    assert_known(wide, 0.7, 1.0)
    assert_known(narrow, 0.3, 0.5)
    share = float(run.summary().mode_lines[0].split(": ")[1].split(" ")[0])
    assert share == pytest.approx(wide.share, abs=1e-3)


@pytest.mark.slow
def test_chains_with_lists_of_their_own():
    """Each numbers its modes in its own way, so modes are found in the draws."""
    one, other = listed(), listed()
    other = Modes(one.centers[::-1], one.scales[::-1], [0.6, 0.4])
    samplers = [tacthmc.sgnht(0.05, jumps=ModeJumps(modes)) for modes in (one, other, one, other)]
    wide, narrow = sampled(samplers).by_mode().modes
    assert wide.expected is None
    for mode, share in ((wide, 0.7), (narrow, 0.3)):
        assert abs(mode.share - share) < QUANTILE * mode.error


@pytest.mark.slow
def test_a_run_without_draws():
    keep = tacthmc.Keep(every=10, forget=True)
    sampler = tacthmc.sgnht(0.05, jumps=ModeJumps(listed()))
    potential = tacthmc.potential(energy)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, jnp.ones(2), 90, keep=keep)
    with pytest.raises(ValueError, match="no draws at unit temperature"):
        run.by_mode()
    assert run.summary().mode_lines == ()


# Folding symmetric copies.


def folded_run(size, sign):
    """Two modes at ±3 in the first coordinate, six standard deviations apart."""

    def symmetric(x):
        return 0.5 * jnp.sum(x[1:] ** 2) - jnp.logaddexp(
            -0.5 * (x[0] - 3.0) ** 2, -0.5 * (x[0] + 3.0) ** 2
        )

    centers = np.zeros((2, size))
    centers[:, 0] = 3.0, -3.0
    scales = np.stack([np.eye(size), np.diag([sign, *np.ones(size - 1)])])
    sampler = tacthmc.sgnht(0.1, jumps=ModeJumps(Modes(centers, scales, [0.5, 0.5])))
    potential = tacthmc.potential(symmetric)
    key, start = jax.random.key(0), jnp.zeros(size)
    return tacthmc.sample(key, sampler, potential, start, 10_000, 4, keep=KEEP)


@pytest.fixture(scope="module")
def mirrored():
    return folded_run(64, -1.0)


def test_a_fold_joins_copies(mirrored):
    found = mirrored.by_mode(lambda x: x.at[0].set(jnp.abs(x[0])))
    (mode,) = found.modes
    assert mode.share == 1.0
    assert mode.expected == pytest.approx(1.0)
    assert mode.mean[0] == pytest.approx(3.0, abs=0.15)
    assert mode.sd[0] == pytest.approx(1.0, abs=0.1)
    # ∫exp(−U) is 2·(2π)^32.
    truth = np.log(2) + 32 * np.log(2 * np.pi)
    assert abs(mode.log_evidence.value - truth) < QUANTILE * mode.log_evidence.error
    assert not found.labels.any()


def test_a_fold_that_changes_nothing_joins_nothing(mirrored):
    """In 64 dimensions draws are 8 from their center, farther than the centers of these modes."""
    assert len(mirrored.by_mode(lambda x: x, evidence=False).modes) == 2


@pytest.mark.slow
def test_a_fold_of_a_dictionary_without_a_list():
    """Label switching of two components, folded by the order of their means."""

    def labels(p):
        apart = -0.5 * ((p["mu"][0] - p["mu"][1]) ** 2 - 16.0) ** 2 / 16.0
        return -apart + 0.5 * jnp.sum(p["mu"]) ** 2 + 0.5 * jnp.sum((p["w"] - p["mu"]) ** 2)

    def ordered(p):
        order = jnp.argsort(p["mu"])
        return {"mu": p["mu"][order], "w": p["w"][order]}

    centers = [[-2.0, 2.0, -2.0, 2.0], [2.0, -2.0, 2.0, -2.0]]
    sampler = tacthmc.sgnht(0.05, jumps=ModeJumps(Modes(centers, np.full((2, 4), 0.5), [1, 1])))
    start = {"mu": jnp.array([-2.0, 2.0]), "w": jnp.zeros(2)}
    potential = tacthmc.potential(labels)
    run = tacthmc.sample(jax.random.key(0), sampler, potential, start, 20_000, 4, keep=KEEP)
    assert len(run.by_mode(evidence=False).modes) == 2
    (mode,) = run.by_mode(ordered).modes
    assert mode.mean["mu"][0] < -1.5 < 1.5 < mode.mean["mu"][1]
    assert mode.mean["w"].shape == (2,)
