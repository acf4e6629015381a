"""``tacthmc.tact()`` without a number: tuned by itself, from one start."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax

import tacthmc
from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, runs_always
from benchmarks.modes.targets import Target

CHAINS = 16
PILOT_SEED, PILOT_SHARE, MIN_SHARE = 1_000_003, 0.5, 0.1
"""A run that says what tuning costs, and its share of the budget. It is not counted. A run gets
the budget less that cost, and at least a tenth of it."""

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


_costs: dict[tuple[str, float], tuple[float, float]] = {}
"""By target and budget: what tuning costs, and what a step of all chains costs."""


def steps_for(target: Target, budget: float) -> int:
    """The number of steps that the budget leaves after tuning, by the costs of a pilot."""
    known = (target.name, budget)
    if known not in _costs:
        steps = max(1, int(PILOT_SHARE * budget / CHAINS))
        pilot = finished(target, steps, PILOT_SEED)
        tuned = 0 if pilot.tuning is None else pilot.tuning.gradients
        rest = gradients(pilot, target.full_cost) - tuned
        _costs[known] = float(tuned), rest / pilot.num_steps
    tuned, each = _costs[known]
    return max(1, int(max(budget - tuned, MIN_SHARE * budget) / each))


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
            done = finished(target, steps_for(target, budget), seed)
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
