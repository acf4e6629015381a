"""How well modes are crossed against the dimension, by ``tact`` and by its rivals.

    python -m benchmarks mobility [--problem added] [--dimensions 1 16 …] [--noise 1]
                                  [--gradients N] [--chains N] [--only WORDS …]

Two unit Gaussians six apart along a random direction, somewhere, weights 0.7 and 0.3, chains from
the heavier one; ``--problem`` says how the sampler sees them (``mobility_targets.py``):

added
    with noise added to force and energy, independent of each other;
batches
    through mini-batches of 10 out of 1,000 examples, each of which makes force and energy;
tilts
    the same where examples differ in their slopes alone: the force's variance is constant;
effective
    in ``--effective`` directions out of all, noise added; λ on all of the energy or on the
    likelihood alone.

Every method gets the same number of gradients a chain in every setting of it. Rows that the
file has are not measured again; it is written after each.
"""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import tacthmc
from benchmarks.maintained.mobility_methods import methods, of_parts
from benchmarks.maintained.mobility_targets import CURVATURE, in_a_wide_prior, of_examples, pair
from benchmarks.record import RecordError, Rows, about, add_again
from tacthmc.diagnostics import autocorrelation
from tacthmc.paper.figures import measures
from tacthmc.potentials import Potential, measure_noise
from tacthmc.targets import GaussianMixture

EVERY, SEED = 10, 0
SAME = (
    "problem",
    "method",
    "dimension",
    "effective",
    "noise",
    "energy_noise",
    "step_size",
    "gradients",
)
QUICK = {"dimensions": [2], "gradients": 2_000, "chains": 4}
BATCHES = {"batches": CURVATURE, "tilts": 0.0}
"""The problems with mini-batches, and how much examples differ in curvature."""


class Problem(NamedTuple):
    """What is sampled, and how draws are judged."""

    target: GaussianMixture
    potential: Potential
    start: Any
    seen: Callable[[np.ndarray], np.ndarray]
    """What of a draw the target is a law of."""
    noise: dict[str, Any]
    """Standard deviations of force and energy, as given or as measured at a typical θ."""
    force_variance: float
    """What methods without a thermostat are told."""


def as_it_is(draws: np.ndarray) -> np.ndarray:
    """Where the target is a law of θ itself."""
    return draws


def problem(args: Namespace, dimension: int) -> Problem:
    """The one that was asked for."""
    given = {"force_sd": args.noise, "energy_sd": args.energy_noise}
    if args.problem == "effective":
        below, posterior = in_a_wide_prior(dimension, args.effective)
        rough = tacthmc.noisy(posterior, force=args.noise, energy=args.energy_noise)
        basis, middle = np.asarray(below.basis), np.asarray(below.middle)

        def seen(draws: np.ndarray) -> np.ndarray:
            return (draws - middle) @ basis

        return Problem(below.mixture, rough, below.start, seen, given, args.noise**2)
    target = pair(dimension)
    if args.problem in BATCHES:
        posterior = of_examples(target, args.noise, BATCHES[args.problem])
        where, which = jax.random.split(jax.random.key(SEED))
        typical = target.draw(where, 1)[0]
        levels = measure_noise(which, posterior, typical, 4096)
        variance = levels.mean_force
        found = {"force_sd": variance**0.5, "energy_sd": levels.energy**0.5}
        return Problem(target, posterior, target.means[0], as_it_is, found, variance)
    rough = tacthmc.potential(target)
    if args.noise:
        rough = tacthmc.noisy(rough, force=args.noise, energy=args.energy_noise)
    return Problem(target, rough, target.means[0], as_it_is, given, args.noise**2)


def indicator_ess(modes: list[np.ndarray]) -> float:
    """Effective draws a chain of "in the first mode", about the mean of all chains.

    By Geyer's initial positive sequence; without ArviZ, which not every machine has.
    """
    count = min(len(m) for m in modes)
    if count < 4:
        return 0.0
    inside = np.stack([m[:count] == 0 for m in modes]).astype(float)
    if inside.min() == inside.max():
        return 0.0
    rho = autocorrelation(inside, count - 1)
    pairs = rho[: 2 * (count // 2)].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: ends[0]] if len(ends) else pairs)
    return float(count / max(2 * pairs.sum() - 1, 1e-9))


def summary(run: Any, problem: Problem, steps: int) -> dict[str, Any]:
    """Round trips, what the mode indicator is worth, weights, ξ's and θ's laws."""
    target = problem.target
    kept = [problem.seen(np.asarray(d)) for d in run.all_draws]
    modes = [measures.mode_of(target, d) for d in kept]
    draws = np.concatenate(kept)
    share = np.array([np.mean(m == 0) for m in modes if len(m)])
    ess = indicator_ess(modes)
    within = measures.deviations(target, draws)
    tempered = "xi_kinetic_temperature" in run.trace
    return {
        "round_trips": float(np.mean(run.round_trips) * 1e6 / steps),
        "indicator_ess": ess * 1e6 / steps,
        "plateau_share": float(np.mean(run.plateau_share)) if tempered else None,
        "weight": float(np.mean(share)) if len(share) else None,
        "weight_error": float(np.std(share) / np.sqrt(len(share))) if len(share) else None,
        "variance": float(np.mean(within**2)) if len(draws) else None,
        "xi_temperature": (
            float(np.mean(run.after_warmup("xi_kinetic_temperature"))) if tempered else None
        ),
        "failures": len(run.failures),
    }


def arguments(parser: ArgumentParser) -> None:
    """The problem, its sizes, and the methods."""
    parser.add_argument("--problem", choices=["added", *BATCHES, "effective"], default="added")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 16, 64, 256, 1024, 4096])
    parser.add_argument("--effective", type=int, help="of the problem of that name")
    parser.add_argument("--only", nargs="*", default=[], help="methods with one of these words")
    parser.add_argument("--gradients", type=int, default=160_000)
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--energy-noise", type=float, help="where it is added; else as the force's")
    parser.add_argument("--step-size", type=float, default=0.4)
    add_again(parser)


def check(args: Namespace) -> None:
    """Refuse options that do not go together, and complete the others."""
    if (args.effective is None) == (args.problem == "effective"):
        raise RecordError("--effective goes with --problem effective, and with no other")
    if args.energy_noise is not None and args.problem in BATCHES:
        raise RecordError("--energy-noise: with mini-batches it is what the batches make it")
    if args.energy_noise is None and args.problem not in BATCHES:
        args.energy_noise = args.noise


def chosen(args: Namespace, asked: Problem, dimension: int) -> Iterator[tuple[str, Any, Potential]]:
    """The methods that were asked for, each with what it is to sample."""
    if args.problem == "effective":
        settings = of_parts(dimension, args.effective, args.step_size)
    else:
        all_of_them = methods(dimension, asked.start, asked.force_variance, args.step_size)
        settings = {name: (sampler, False) for name, sampler in all_of_them.items()}
    for name, (sampler, part) in settings.items():
        if not args.only or any(word in name for word in args.only):
            potential = asked.potential
            yield name, sampler, tacthmc.temper_likelihood(potential) if part else potential


def main(args: Namespace) -> None:
    check(args)
    facts = {"chains": args.chains, "seed": SEED, "keep_every": EVERY, "warmup": "a fifth"}
    rows = Rows(args.out, about(args, **facts), SAME, again=args.again)
    for dimension in args.dimensions:
        asked = problem(args, dimension)
        for name, sampler, potential in chosen(args, asked, dimension):
            row = {"problem": args.problem, "method": name, "dimension": dimension}
            row |= {"effective": args.effective, "noise": args.noise}
            row |= {"energy_noise": args.energy_noise, "step_size": args.step_size}
            row |= {"gradients": args.gradients}
            if rows.has(row):
                continue
            row |= asked.noise | measured(sampler, potential, asked, args)
            rows.add(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(*shown.values(), flush=True)


def measured(sampler: Any, potential: Potential, asked: Problem, args: Namespace) -> dict[str, Any]:
    """One method's run, and what is said of it."""
    begun = time.perf_counter()
    steps = args.gradients // sampler.gradients_per_step
    run = tacthmc.sample(
        jax.random.key(SEED),
        sampler,
        potential,
        asked.start,
        steps,
        args.chains,
        keep=tacthmc.Keep(every=EVERY, after=steps // 5),
        progress=False,
    )
    made = (run.num_steps - steps // 5) * sampler.gradients_per_step
    seconds = round(time.perf_counter() - begun, 1)
    return summary(run, asked, made) | {"seconds": seconds}
