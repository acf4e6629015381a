"""``warmup``: a sampler's numbers, chosen by short runs."""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc.bias import AdaptiveBiasingForce
from tacthmc.coupling import GeometricCoupling
from tacthmc.diagnostics import autocorrelation
from tacthmc.family import Langevin
from tacthmc.frame import Frame, FramedPotential
from tacthmc.positions import checked, dimension, flatten, scalar_dtype, unflatten
from tacthmc.potential import Potential
from tacthmc.run.failure import DivergedWarning
from tacthmc.run.sample import sample
from tacthmc.samplers.tact import tact
from tacthmc.thermostat import ScalarThermostat
from tacthmc.tuning import friction, slope
from tacthmc.tuning.bursts import Bursts, estimates
from tacthmc.tuning.choices import Choice, Tuning, TuningError
from tacthmc.tuning.heat import ladder
from tacthmc.tuning.rounding import curvatures, relaxation, rounded
from tacthmc.tuning.settle import settle, curvature_at
from tacthmc.tuning.untuned import Untuned

BATCHES = 512
COLD, WARM = 0.95, 1.05
XI_HOT = 1.15
LONGEST = 10


def warmup(key, sampler, potential, init, *, num_chains=16, num_steps=500, progress=None) -> Langevin:
    tuner = _Tuner(key, sampler, potential, checked(init), num_chains, num_steps, progress)
    return tuner.tuned()


class _Tuner:
    def __init__(self, key, sampler, potential, init, num_chains, num_steps, progress):
        self._key, self._fixed, self._potential, self._init = key, sampler.fixed, potential, init
        self._bursts = Bursts(potential, num_chains, num_steps)
        self._least = num_steps
        self._progress = progress
        self._choices: list[Choice] = []
        self._frame = None

    def _next(self):
        self._key, now = jax.random.split(self._key)
        return now

    def _choose(self, name, value, reason):
        if name in self._fixed:
            value, reason = self._fixed[name], "given"
        self._choices.append(Choice(name, value, reason))
        if self._progress:
            from tacthmc.tuning.choices import shown
            print(f"  {name} = {shown(value)}: {reason}", flush=True)
        return value

    @property
    def _inside(self):
        return self._bursts.potential

    def _reframe(self, frame, positions):
        """Use another frame; positions are mapped from the old one."""
        if self._frame is not None:
            positions = jax.vmap(self._frame.outward)(positions)
        self._frame = frame
        self._bursts.potential = self._potential if frame is None else FramedPotential(self._potential, frame)
        return positions if frame is None else jax.vmap(frame.inward)(positions)

    def _rounded(self, positions):
        """positions in the present frame"""
        outside = positions if self._frame is None else jax.vmap(self._frame.outward)(positions)
        _, gradients = self._sampled(self._potential, outside)
        found = rounded(curvatures(self._next(), self._potential, outside), gradients)
        return found

    def _sampled(self, potential, positions, each=BATCHES):
        """gradients (centred per position) at up to 4 chains' positions"""
        all_g, all_e = [], []
        for i in range(4):
            one = jax.tree.map(lambda x: jnp.broadcast_to(x[i], (each // 4, *x[i].shape)), positions)
            e, g = estimates(self._next(), potential, one)
            g, e = np.asarray(g, float), np.asarray(e, float)
            all_g.append(g - g.mean(axis=0)); all_e.append(e - e.mean())
        self._bursts.gradients += each
        return np.concatenate(all_e), np.concatenate(all_g)

    def _say(self, *what):
        if self._progress: print("  ..", *what, flush=True)

    def _steps(self, curvature, positions):
        energies, gradients = self._sampled(self._inside, positions)
        noise = friction.force_noise(gradients, energies)
        found = friction.steps(curvature, noise, self._fixed.get("step_size"), self._fixed.get("noise"))
        time = relaxation(np.array([curvature]), gradients)
        return found, noise, time

    def tuned(self):
        fixed, bursts = self._fixed, self._bursts
        settled = settle(self._next(), bursts, self._init)
        self._say("settled in", settled.rounds, "curvature", settled.curvature, "energy", settled.burst.energies.mean())
        positions, curvature = settled.burst.positions, settled.curvature
        best = np.inf
        for attempt in range(4):
            found = self._rounded(positions)
            self._say("frame", found.without, found.within, found.frame is not None)
            if found.frame is None:
                break
            positions = self._reframe(found.frame, positions)
            again = settle(self._next(), bursts, positions, stacked=True)
            positions, curvature = again.burst.positions, again.curvature
            (eta, c, why_eta, why_c), noise, time = self._steps(curvature, positions)
            self._say("settled again in", again.rounds, again.curvature, again.burst.energies.mean(), "time", time, "eta", eta)
            if time > 0.7 * best:
                break
            best = time
        (eta, c, why_eta, why_c), noise, time = self._steps(curvature, positions)
        relax = found.within if self._frame is not None else (found.without if np.isfinite(found.without) else time)
        bursts.steps = int(np.clip(20 * relax, self._least, LONGEST * self._least))
        self._say("eta", eta, "c", c, why_eta, "relax", relax, "steps", bursts.steps)
        eta, burst, why_eta = self._verified(eta, c, positions, why_eta)
        top = None if "coupling" not in fixed else float(fixed["coupling"].hottest)
        heat = ladder(self._next(), bursts, burst, eta, c, top)
        self._say("cooled", [(round(c.moved,2), c.returned) for c in heat.cooled])
        hottest, why_hot = heat.hottest
        coupling = self._choose("coupling", GeometricCoupling(hottest), why_hot)
        seen, mean = slope.profile(self._next(), self._inside, heat, self._init, float(coupling.hottest))
        centre = unflatten(jnp.asarray(mean, jnp.float32), self._init)
        centre = centre if self._frame is None else self._frame.outward(centre)
        positions = heat.plateau.positions
        level_positions = [(l.temperature, l.burst.positions) for l in heat.levels[1:] if l.temperature <= 1.001*float(coupling.hottest)]
        old = self._frame
        found = self._rounded(positions)
        self._say("frame again", found.without, found.within, found.frame is not None)
        positions = self._reframe(found.frame, positions)
        curvature = curvature_at(self._next(), self._inside, positions, bursts.chains)
        for t, p in level_positions:
            p = p if old is None else jax.vmap(old.outward)(p)
            p = p if self._frame is None else jax.vmap(self._frame.inward)(p)
            hot = curvature_at(self._next(), self._inside, p) / t
            self._say("curvature at", t, hot)
            curvature = max(curvature, hot)
        (eta, c, why_eta, why_c), noise, time = self._steps(curvature, positions)
        eta, burst, why_eta = self._verified(eta, c, positions, why_eta)
        self._choose("frame", self._frame, f"{found.without:.3g} steps to relax without, {found.within:.3g} with")
        eta = self._choose("step_size", eta, why_eta)
        c = self._choose("noise", c, why_c)
        lengths = seen.length(False), seen.length(True)
        self._say("profile", seen)
        breathing = lengths[1] < lengths[0]
        centre = self._choose(
            "centre",
            centre if breathing else None,
            f"the way to {float(coupling.hottest):.3g} is {lengths[0]:.3g} sds of the energy long,"
            f" {lengths[1]:.3g} if θ widens with ξ",
        )
        breathing = centre is not None
        eta_xi, why = slope.xi_step_size(seen, coupling, breathing)
        z = c + eta * noise.mean / 2
        inertia = float(np.clip(4 / (dimension(self._init) * z * z), 50, 1000))
        thermostat = self._choose(
            "thermostat",
            ScalarThermostat(steps=inertia),
            f"Γ = {inertia:.3g} steps: fluctuates by half the friction {z:.3g} or less",
        )
        bias = self._choose(
            "bias",
            AdaptiveBiasingForce(slope.bins(seen, breathing)),
            f"{slope.bins(seen, breathing)} bins: {slope.BINS_PER_SD} to a standard deviation",
        )
        keep_every = self._choose("keep_every", self._spacing(burst), "half the energy's autocorrelation time")
        rest = {k: fixed[k] for k in ("keep_within", "refresh", "mass") if k in fixed}
        rest |= {"thermostat": thermostat, "coupling": coupling, "bias": bias, "frame": self._frame}
        rest |= {"keep_every": keep_every, "centre": centre, "noise": c}
        rest |= {"xi_noise": fixed.get("xi_noise", 0.1)}
        rest |= {"xi_thermostat": fixed.get("xi_thermostat", ScalarThermostat(steps=100))}
        positions = burst.positions if self._frame is None else jax.vmap(self._frame.outward)(burst.positions)
        made, positions = self._tempered(eta, eta_xi, why, rest, positions)
        tuning = Tuning(tuple(self._choices), bursts.gradients, positions)
        return eqx.tree_at(lambda s: s.tuning, made, tuning, is_leaf=lambda x: x is None)

    def _verified(self, eta, c, positions, why):
        seen = []
        for attempt in range(6):
            first = self._bursts.run(self._next(), positions, eta, c)
            if first.finite:
                temperature, error = self._virial(first, positions)
                off = max(temperature - WARM, 0.0)
                seen.append(f"η = {eta:.3g}: configurational temperature {temperature:.3g} ± {error:.2g}")
                self._say(seen[-1], "steps", self._bursts.steps)
                if temperature + 2 * error < 0.8 and self._bursts.steps < LONGEST * self._least:
                    self._bursts.steps *= 2
                    positions = first.positions
                    continue
                if off <= 3 * error:
                    why = f"{why}; configurational temperature {temperature:.3g} ± {error:.2g}"
                    return eta, first, why
            else:
                seen.append(f"η = {eta:.3g}: diverged")
            if "step_size" in self._fixed:
                break
            eta, why = eta / 2, f"halved {attempt + 1} times, since: " + "; ".join(seen)
        raise TuningError("no step size samples the plateau at its own temperature: " + "; ".join(seen))

    def _virial(self, burst, start):
        origin = np.asarray(jax.vmap(lambda p: flatten(p, scalar_dtype(p)))(start))[:, None]
        draws = burst.draws
        some = draws.reshape(-1, draws.shape[-1])
        stacked = jax.vmap(lambda x: unflatten(x, self._init))(jnp.asarray(some))
        _, gradients = estimates(self._next(), self._inside, stacked)
        self._bursts.gradients += len(some)
        gradients = np.asarray(gradients, float).reshape(draws.shape)
        each = np.sum((draws - origin) * gradients, axis=2) / draws.shape[2]
        means = each.mean(axis=1)
        return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))

    def _spacing(self, burst):
        every = max(1, self._bursts.steps // 2 // burst.energies.shape[1])
        rho = autocorrelation(burst.energies, burst.energies.shape[1] // 2)
        below = np.flatnonzero(rho < 0.05)
        time = 1 + 2 * rho[1 : below[0] if len(below) else None].sum()
        return int(np.clip(every * time / 2, 5, 100))

    def _tempered(self, eta, eta_xi, why, rest, positions):
        bursts, seen = self._bursts, []
        steps = 10 * bursts.steps
        for attempt in range(8):
            value = self._fixed.get("xi_step_size", eta_xi)
            made = tact(eta, xi_step_size=value, **rest)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DivergedWarning)
                run = sample(
                    self._next(), made, self._potential, positions, steps, bursts.chains,
                    num_warmup=steps // 2, init_per_chain=True, progress=False,
                )
            bursts.gradients += bursts.chains * steps
            if run.failures:
                seen.append(f"η_ξ = {value:.3g}: diverged")
            else:
                hot = float(np.mean(run.after_warmup("xi_kinetic_temperature")))
                seen.append(f"η_ξ = {value:.3g}: kinetic temperature {hot:.3g}, round trips {np.mean(run.round_trips):.3g}")
                if hot < XI_HOT or "xi_step_size" in self._fixed:
                    self._choose("xi_step_size", value, why + "; " + seen[-1])
                    return made, jax.vmap(made.drawn)(run.state)
            self._say(seen[-1])
            eta_xi, why = eta_xi / 3, "lowered since: " + "; ".join(seen)
        raise TuningError("; ".join(seen))
