"""The notes of a summary and its verdict, which a report shows, never disagree."""

import html

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tests.units.run.edited import chains, with_draws

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
THREE = tacthmc.potential(tacthmc.targets.three_gaussians())


def sampled(sampler, potential, start, steps, **more):
    return tacthmc.sample(KEY, sampler, potential, start, steps, 4, progress=False, **more)


def edited(change):
    values = chains(3)
    change(values)
    return with_draws(values)


def lose(values):
    values[0, 5, 1] = np.nan


def stop(values):
    values[:, :, 2] = 1.0


RUNS = {
    "right": lambda: with_draws(chains(3)),
    "lost": lambda: edited(lose),
    "constant": lambda: edited(stop),
    "trapped": lambda: sampled(
        tacthmc.sgnht(0.01), THREE, jnp.array([[-4.0], [0.0], [4.0], [4.0]]), 10_000
    ),
    "hot": lambda: sampled(
        tacthmc.sghmc(0.05), tacthmc.noisy(GAUSSIAN, force=4.0), jnp.zeros(2), 10_000
    ),
    "optimizer": lambda: sampled(
        tacthmc.samplers.adam(1e-2), tacthmc.noisy(GAUSSIAN, force=1.0), jnp.zeros(2), 2_000
    ),
    "short": lambda: sampled(tacthmc.tact(1e-4), GAUSSIAN, jnp.zeros(2), 200),
    "diverged": lambda: sampled(tacthmc.sgld(50.0), GAUSSIAN, jnp.ones(2), 2_000),
    "forgets": lambda: sampled(
        tacthmc.sgnht(0.1), GAUSSIAN, jnp.ones(2), 2_000, keep=tacthmc.Keep(forget=True)
    ),
    "goal missed": lambda: sampled(
        tacthmc.sgnht(0.1), GAUSSIAN, jnp.zeros(2), 2_000, until=tacthmc.effective(10**5)
    ),
}
FAILED = ("lost", "constant", "short", "diverged")


@pytest.mark.filterwarnings("ignore::tacthmc.run.DivergedWarning")
@pytest.mark.parametrize("name", RUNS)
def test_notes_and_verdict_say_the_same(name, tmp_path):
    run = RUNS[name]()
    summary = run.summary()
    warned = [note for note in summary.notes if note.startswith("!")]
    bad = [finding for finding in summary.findings if finding.level == "bad"]
    if warned:
        assert summary.headline.level != "good"
    for finding in bad:
        assert finding.noted or finding.note in warned
    assert not bad or warned
    assert summary.failed == (name in FAILED)
    if name == "right":
        assert summary.headline.level == "good"
        assert not warned
    assert str(summary).endswith(f"{summary.headline.title}. {summary.headline.text}")
    page = tacthmc.write_report(run, tmp_path / "r.html").read_text()
    assert summary.headline.title in page
    for finding in summary.findings:
        assert html.escape(finding.title) in page


def test_theory_carries_its_error():
    """The noise is measured at a few draws, so theory is uncertain where it varies."""
    rough = tacthmc.noisy(GAUSSIAN, force=3.0)
    run = sampled(tacthmc.sgnht(0.02), rough, jnp.zeros(2), 10_000)
    law = run.thermostats[0]
    assert law.name == "z_theta"
    # A variance from 16 × 64 batches in 2 coordinates is known to about 3%.
    share = (law.expected_mean - 0.02) / law.expected_mean
    assert 0.01 < law.expected_error / (law.expected_mean * share) < 0.06
    assert law.error > 0
    assert f"{law.expected_mean:.4g} ± " in str(run.summary())
