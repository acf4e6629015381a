"""How well modes are crossed against the dimension, by ``tact`` and by its rivals.

    python -m benchmarks.mobility OUT.json [--problem added] [--dimensions 1 16 …] [--noise 1]
                                  [--gradients N] [--chains N] [--only WORDS …]

Two unit Gaussians six apart along a random direction, somewhere, weights 0.7 and 0.3, chains from
the heavier one; ``--problem`` says how the sampler sees them (:mod:`benchmarks.mobility_targets`):

added
    with noise added to force and energy, independent of each other;
batches
    through mini-batches of 10 out of 1,000 examples, each of which makes force and energy;
tilts
    the same where examples differ in their slopes alone: the force's variance is constant;
effective
    in ``--effective`` directions out of all, noise added; λ on all of the energy or on the
    likelihood alone.

Every method gets the same number of gradients a chain in every setting of it. Records that the
file has are not measured again; it is written after each.
"""

import argparse
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.mobility_targets import CURVATURE, in_a_wide_prior, of_examples, pair
from benchmarks.speed.machine import cpu_name
from tacthmc.diagnostics._laws import autocorrelation
from tacthmc.paper.figures import measures
from tacthmc.potentials import measure_noise
from tacthmc.potentials._base import Potential
from tacthmc.targets import GaussianMixture

KEEP, SEED = 10, 0
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
    return draws


def problem(args: argparse.Namespace, dimension: int) -> Problem:
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
        felt = {"force_sd": variance**0.5, "energy_sd": levels.energy**0.5}
        return Problem(target, posterior, target.means[0], as_it_is, felt, variance)
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


def methods(dimension: int, start: Any, variance: float, eta: float) -> dict[str, Any]:
    """Each method in its settings; the paper's form with ξ lighter in proportion to 1/D."""
    scaled = min(1.0, 16 / dimension)
    found: dict[str, Any] = {}
    for xi in (1e-2, 1e-1):
        sampler = tacthmc.tact(eta, keep_every=KEEP, xi_step_size=xi * scaled)
        found[f"tact, the paper's form: xi_step_size {xi:g}·min(1, 16/D)"] = sampler
    for xi in (1e-3, 1e-2, 3e-2, 1e-1):
        sampler = tacthmc.tact(eta, keep_every=KEEP, xi_step_size=xi, centre="mean")
        found[f"tact, breathing: xi_step_size {xi:g}"] = sampler
    for count in (4, 8, 16, 32):
        ladder = tuple(float(t) for t in np.geomspace(1, 9, count))
        # It has no thermostat: it is told its force's noise, and injects the rest of 2cη.
        sampler = tacthmc.replica_exchange(
            eta,
            temperatures=ladder,
            swap_every=5,
            energy_noise="measured",
            noise=0.3,
            noise_estimate=variance,
            keep_every=KEEP,
        )
        found[f"replica exchange: {count} replicas"] = sampler
    for cycle in (1000, 5000):
        found[f"cyclical SGHMC: cycles of {cycle}"] = tacthmc.cyclical(
            eta, cycle_steps=cycle, noise=0.3, noise_estimate=variance, keep_every=KEEP
        )
    for spread in (2.0, 5.0):
        # Somebody who restarts knows a start, and not how far off the other modes are.
        again = Restart(start, jnp.asarray(spread))
        found[f"SGNHT with restarts: sd {spread:g} about the start"] = tacthmc.restarted(
            tacthmc.sgnht(eta, keep_every=KEEP), every=1000, start=again, burn=200
        )
    return found


class Restart(eqx.Module):
    """A draw about the first start."""

    centre: Any
    spread: Any

    def __call__(self, key: Any) -> Any:
        """The draw."""
        return self.centre + self.spread * jax.random.normal(key, self.centre.shape)


def of_parts(dimension: int, effective: int, eta: float) -> dict[str, tuple[Any, bool]]:
    """``tact`` with λ on everything or on the likelihood alone (True), with breathing and without.

    The paper's form has ξ lighter in proportion to 1 over the dimension of what λ multiplies.
    """
    found: dict[str, tuple[Any, bool]] = {}
    for part, counted, name in (
        (False, dimension, "everything tempered"),
        (True, effective, "likelihood tempered"),
    ):
        for xi in (1e-3, 1e-2):
            lighter = xi * min(1.0, 16 / counted)
            plain = tacthmc.tact(eta, keep_every=KEEP, xi_step_size=lighter)
            found[f"tact, {name}, the paper's form: xi_step_size {lighter:.3g}"] = plain, part
            breathing = tacthmc.tact(eta, keep_every=KEEP, xi_step_size=xi, centre="mean")
            found[f"tact, {name}, breathing: xi_step_size {xi:g}"] = breathing, part
    return found


class Records:
    """The file of results: rows, and the runs that they are of."""

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

    def __init__(self, path: Path, about: dict[str, Any]):
        """Go on with what the file has."""
        self._path = path
        self._file = {"runs": [], "rows": []}
        if path.exists():
            self._file = json.loads(path.read_text())
        if about not in self._file["runs"]:
            self._file["runs"].append(about)
        self._run = self._file["runs"].index(about)

    def has(self, what: dict[str, Any]) -> bool:
        """Whether it was measured, by any run."""
        return any(all(row[k] == what[k] for k in self.SAME) for row in self._file["rows"])

    def add(self, row: dict[str, Any]) -> None:
        """Write it down."""
        self._file["rows"].append(row | {"run": self._run})
        self._path.write_text(json.dumps(self._file, indent=1) + "\n")


def about(args: argparse.Namespace) -> dict[str, Any]:
    """What a row's numbers are of, beside what stands in it."""
    device = jax.devices()[0]
    kind = getattr(device, "device_kind", str(device))
    return {
        "command": f"python -m benchmarks.mobility {shlex.join([args.out.name, *sys.argv[2:]])}",
        "device": cpu_name() if device.platform == "cpu" else kind,
        "versions": {"python": platform.python_version(), "jax": jax.__version__},
        "chains": args.chains,
        "seed": SEED,
        "keep_every": KEEP,
        "warmup": "a fifth",
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--problem", choices=["added", *BATCHES, "effective"], default="added")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 16, 64, 256, 1024, 4096])
    parser.add_argument("--effective", type=int, help="of the problem of that name")
    parser.add_argument("--only", nargs="*", default=[], help="methods with one of these words")
    parser.add_argument("--gradients", type=int, default=160_000)
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--energy-noise", type=float, help="where it is added; else as the force's")
    parser.add_argument("--step-size", type=float, default=0.4)
    args = parser.parse_args()
    if (args.effective is None) == (args.problem == "effective"):
        parser.error("--effective goes with --problem effective, and with no other")
    if args.energy_noise is not None and args.problem in BATCHES:
        parser.error("--energy-noise: with mini-batches it is what the batches make it")
    if args.energy_noise is None and args.problem not in BATCHES:
        args.energy_noise = args.noise
    return args


def main() -> None:
    """Measure and write."""
    args = arguments()
    records = Records(args.out, about(args))
    for dimension in args.dimensions:
        asked = problem(args, dimension)
        if args.problem == "effective":
            chosen = of_parts(dimension, args.effective, args.step_size)
        else:
            settings = methods(dimension, asked.start, asked.force_variance, args.step_size)
            chosen = {name: (sampler, False) for name, sampler in settings.items()}
        for name, (sampler, part) in chosen.items():
            row = {"problem": args.problem, "method": name, "dimension": dimension}
            row |= {"effective": args.effective, "noise": args.noise}
            row["energy_noise"] = args.energy_noise
            row |= {"step_size": args.step_size, "gradients": args.gradients}
            if (args.only and not any(word in name for word in args.only)) or records.has(row):
                continue
            potential = asked.potential
            if part:
                potential = tacthmc.temper_likelihood(potential)
            begun = time.perf_counter()
            steps = args.gradients // sampler.gradients_per_step
            run = tacthmc.sample(
                jax.random.key(SEED),
                sampler,
                potential,
                asked.start,
                steps,
                args.chains,
                num_warmup=steps // 5,
                progress=False,
            )
            made = (run.num_steps - run.num_warmup) * sampler.gradients_per_step
            row |= asked.noise | summary(run, asked, made)
            row["seconds"] = round(time.perf_counter() - begun, 1)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(*shown.values(), flush=True)
            records.add(row)


if __name__ == "__main__":
    main()
