"""``tacthmc.tact()`` without a number: tuned by itself, from one start."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

import tacthmc
from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, runs_always
from benchmarks.modes.targets import Target

CHAINS = 16
FIRST_SHARE, MIN_SHARE = 0.5, 0.1
"""The share of the budget that the first run on a target spends on steps of one gradient, and the
least share that a run spends on steps."""
TOLERANCE, MAX_TRIES = 1.25, 6
"""The factor by which a run may miss the budget, and the runs that a seed has to meet it."""

EVIDENCE_ENERGIES = 512
"""The energies behind the evidence of a mode: of 256 draws of the run, and of 256 of a Gaussian."""


def gradients(run: tacthmc.Run, full_cost: float) -> float:
    """All gradients behind a run: of tuning, of each step of each chain, and of jumps.

    A jump needs energies of all data, which cost ``full_cost`` each.

    >>> import jax.numpy as jnp
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 100, 3)
    >>> gradients(run, 1.0)
    300.0
    """
    tuned = 0 if run.tuning is None else run.tuning.gradients
    steps = run.num_steps * run.num_chains * run.sampler.gradients_per_step
    return float(tuned + steps) + jump_energies(run) * full_cost


def jump_energies(run: tacthmc.Run) -> int:
    """The number of full-data energies that jumps between modes have needed."""
    jumps = getattr(run.sampler, "jumps", None)
    if jumps is None:
        return 0
    every = run.keep.every
    assert every is not None
    attempts = run.num_steps // (-(-jumps.every // every) * every)
    return attempts * run.num_chains * jumps.energies_per_move


def log_z(run: tacthmc.Run, target: Target) -> tuple[float | None, float]:
    """log Z by bridge sampling over the modes of a run, and what its energies cost.

    It is not asked where nobody knows the answer, or where there is no exact energy.
    """
    if target.log_z is None or target.kind != "exact" or not run.num_draws:
        return None, 0.0
    found = run.by_mode()
    if found.log_evidence is None:
        return None, 0.0
    return found.log_evidence.value, float(EVIDENCE_ENERGIES * len(found.modes))


class Costs(NamedTuple):
    """What a run has cost."""

    tuning: float
    each_step: float
    """Of all chains, with the energies of jumps."""

    def steps(self, budget: float) -> int:
        """The number of steps that a budget leaves after tuning.

        >>> Costs(1_000.0, 10.0).steps(11_000.0)
        1000
        """
        return max(1, int(max(budget - self.tuning, MIN_SHARE * budget) / self.each_step))


def costs(run: tacthmc.Run, target: Target) -> Costs:
    """What this run has cost."""
    tuned = 0.0 if run.tuning is None else float(run.tuning.gradients)
    rest = gradients(run, target.full_cost) - tuned
    return Costs(tuned, rest / max(run.num_steps, 1))


_known: dict[tuple[str, float], Costs] = {}
"""What the last run on a target with a budget has cost."""


def within(target: Target, budget: float, seed: int) -> tacthmc.Run:
    """A run that spends the budget, nearly.

    What a step costs depends on what tuning chooses, and that can differ from seed to seed. If a
    run misses the budget, the same seed runs again with another number of steps.
    """
    place = (target.name, budget)
    known = _known.get(place, Costs(0.0, CHAINS / FIRST_SHARE))
    for _ in range(MAX_TRIES):
        done = finished(target, known.steps(budget), seed)
        _known[place] = known = costs(done, target)
        spent = gradients(done, target.full_cost)
        if done.failures or budget / TOLERANCE <= spent <= budget * TOLERANCE:
            break
    return done


def finished(target: Target, steps: int, seed: int) -> tacthmc.Run:
    """One call of ``sample``, as a user writes it."""
    return tacthmc.sample(
        jax.random.key(seed),
        tacthmc.tact(),
        target.potential,
        target.start,
        steps,
        CHAINS,
        progress=False,
    )


def run(target: Target, setting: Any, budget: float, seeds: Sequence[int]) -> list[Sample]:
    """One run for each seed; tuning comes out of the same budget."""
    del setting
    return [one(target, budget, seed) for seed in seeds]


def one(target: Target, budget: float, seed: int) -> Sample:
    """The draws of a run, its cost and its own warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tacthmc.DivergedWarning)
        try:
            done = within(target, budget, seed)
        except (tacthmc.TuningError, FloatingPointError) as error:
            return Sample([], budget, warned=True, note=str(error)[:200])
        if done.failures:
            note = str(done.failures[0])[:200]
            return Sample(
                [], max(budget, gradients(done, target.full_cost)), warned=True, note=note
            )
        notes = [note for note in done.summary().notes if note.startswith("!")]
        evidence, asked = log_z(done, target)
    return Sample(
        [chain for chain in done.all_draws if len(chain)],
        gradients(done, target.full_cost) + asked,
        warned=bool(notes),
        note="; ".join(notes)[:200],
        log_z=evidence,
    )


TACT = Rival(
    "tact()",
    "`tacthmc.tact()` without a number, 16 chains from one start",
    {"": None},
    run,
    runs_always,
)
