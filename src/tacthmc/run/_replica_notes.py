"""What a summary says about replicas on a path: the barrier, swaps, round trips and log Z."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacthmc.samplers._replica_path import ReplicaPath

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MIN_ROUND_TRIPS = 10
"""The number of arrivals from the base, over all chains, from which weights of modes are known at
all."""
MAX_REJECTION = 0.9
"""The rejection rate of neighbors from which the ladder is too short."""


class ReplicaNotes(NamedTuple):
    """Lines for the tables of a summary, and warnings."""

    lines: list[str]
    notes: list[str]


def replica_notes(run: "Run") -> ReplicaNotes:
    """The barrier, swaps, round trips, log Z and warm-up of replicas on a path, and warnings."""
    sampler = run.sampler if run.sampler_is_known else None
    if not isinstance(sampler, ReplicaPath) or run.num_steps == 0:
        return ReplicaNotes([], [])
    barrier, evidence = sampler.barrier(run.state), sampler.evidence(run.state)
    trips = np.asarray(run.state.round_trips)
    accepted = 1 - barrier.rejections
    end = "the base" if sampler.ends_at_base else f"λ = {barrier.inverse_temperatures[-1]:.3g}"
    noisy = "" if sampler.energy_noise is not None else ", and the bias of noise and steps"
    lines = [
        f"{sampler.rungs} replicas from the target to {end}: barrier Λ = {barrier.total:.2f}, swaps"
        f" accepted {accepted.min():.0%} to {accepted.max():.0%}",
        f"arrivals from {end} per chain: {' '.join(map(str, trips))}",
        f"log Z relative to {end}: {evidence.value:.3f} ± {evidence.error:.2g}{noisy}",
    ]
    if run.tuning is not None:
        whole = run.num_steps * run.num_chains * sampler.gradients_per_step
        lines.append(
            f"warm-up: {run.tuning.gradients:,} gradients, {run.tuning.gradients / whole:.0%} of"
            " those of the run"
        )
    notes = []
    if trips.sum() < MIN_ROUND_TRIPS:
        notes.append(
            f"! replicas arrived {trips.sum()} times from {end}: weights of modes are hardly known,"
            " run longer"
        )
    if barrier.rejections.max() > MAX_REJECTION:
        worst = int(np.argmax(barrier.rejections))
        hot, cold = barrier.inverse_temperatures[[worst + 1, worst]]
        notes.append(
            f"! {barrier.rejections[worst]:.0%} of swaps between λ = {cold:.3g} and {hot:.3g} are"
            " rejected: use more inverse_temperatures there"
        )
    return ReplicaNotes(lines, notes)
