"""How well modes are crossed against the dimension, by ``tact`` and by its rivals.

    python -m benchmarks.mobility OUT.json [--dimensions 1 16 …] [--noise 1] [--gradients N]

Two unit Gaussians six apart along a random direction, somewhere, weights 0.7 and 0.3, chains from
the heavier one, noisy forces and energies. Every method gets the same number of gradients a chain
in every setting of it. Records that the file has are not measured again.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.diagnostics import autocorrelation
from tacthmc.studies import measures
from tacthmc.targets import GaussianMixture

APART, WEIGHTS, KEEP = 6.0, (0.7, 0.3), 10


def pair(dimension: int, seed: int = 0) -> GaussianMixture:
    """The two Gaussians, turned and shifted at random."""
    where, along = jax.random.split(jax.random.key(1000 + seed))
    direction = jax.random.normal(along, (dimension,))
    direction = direction / jnp.linalg.norm(direction)
    middle = 5 * jax.random.normal(where, (dimension,))
    offsets = jnp.array([-APART / 2, APART / 2])[:, None] * direction
    return GaussianMixture(middle + offsets, jnp.array(WEIGHTS), 1.0)


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


def summary(run: Any, target: GaussianMixture, steps: int) -> dict[str, Any]:
    """Round trips, what the mode indicator is worth, weights, ξ's and θ's laws."""
    modes = [measures.mode_of(target, np.asarray(d)) for d in run.all_draws]
    draws = np.concatenate([np.asarray(d) for d in run.all_draws])
    share = np.array([np.mean(m == 0) for m in modes if len(m)])
    ess = indicator_ess(modes)
    within = measures.deviations(target, draws) if len(draws) else np.array([np.nan])
    tempered = "xi_kinetic_temperature" in run.trace
    return {
        "round_trips": float(np.mean(run.round_trips) * 1e6 / steps),
        "indicator_ess": ess * 1e6 / steps,
        "plateau_share": float(np.mean(run.plateau_share)) if tempered else None,
        "weight": float(np.mean(share)) if len(share) else None,
        "weight_error": float(np.std(share) / np.sqrt(len(share))) if len(share) else None,
        "variance": float(np.mean(within**2)),
        "xi_temperature": (
            float(np.mean(run.after_warmup("xi_kinetic_temperature"))) if tempered else None
        ),
        "failures": len(run.failures),
    }


def methods(dimension: int, start: Any, noise: float, eta: float) -> dict[str, Any]:
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
            noise_estimate=noise**2,
            keep_every=KEEP,
        )
        found[f"replica exchange: {count} replicas"] = sampler
    for cycle in (1000, 5000):
        found[f"cyclical SGHMC: cycles of {cycle}"] = tacthmc.cyclical(
            eta, cycle_steps=cycle, noise=0.3, noise_estimate=noise**2, keep_every=KEEP
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


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 16, 64, 256, 1024, 4096])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--gradients", type=int, default=160_000)
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--step-size", type=float, default=0.4)
    args = parser.parse_args()
    file = {"rows": [], "about": {}}
    if args.out.exists():
        file = json.loads(args.out.read_text())
    device = jax.devices()[0]
    file["about"] = {
        "command": " ".join(["python -m benchmarks.mobility", args.out.name, *sys.argv[2:]]),
        "device": getattr(device, "device_kind", str(device)),
        "versions": {"python": platform.python_version(), "jax": jax.__version__},
        "chains": args.chains,
        "seed": 0,
        "keep_every": KEEP,
        "warmup": "a fifth",
    }
    same = ("method", "dimension", "noise", "step_size", "gradients")
    known = {tuple(r[k] for k in same) for r in file["rows"]}
    for dimension in args.dimensions:
        target = pair(dimension)
        potential = tacthmc.potential(target)
        if args.noise:
            potential = tacthmc.noisy(potential, force=args.noise, energy=args.noise)
        for name, sampler in methods(
            dimension, target.means[0], args.noise, args.step_size
        ).items():
            if args.only and not any(word in name for word in args.only):
                continue
            if (name, dimension, args.noise, args.step_size, args.gradients) in known:
                continue
            begun = time.perf_counter()
            run = tacthmc.sample(
                jax.random.key(0),
                sampler,
                potential,
                target.means[0],
                args.gradients // sampler.gradients_per_step,
                args.chains,
                num_warmup=args.gradients // sampler.gradients_per_step // 5,
                progress=False,
            )
            made = (run.num_steps - run.num_warmup) * sampler.gradients_per_step
            row = {"method": name, "dimension": dimension, "noise": args.noise}
            row |= {"step_size": args.step_size, "gradients": args.gradients}
            row |= summary(run, target, made)
            row["seconds"] = round(time.perf_counter() - begun, 1)
            file["rows"].append(row)
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}
            print(*shown.values(), flush=True)
            args.out.write_text(json.dumps(file, indent=1))


if __name__ == "__main__":
    main()
