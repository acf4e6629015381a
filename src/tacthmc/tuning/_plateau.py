"""θ's numbers at unit temperature: linear coordinates, step size and friction, and whether they sample it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._positions import dimension, flatten, scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._linear_map import LinearMap, MappedPotential
from tacthmc.potentials._base import Potential
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._bursts import Burst, Bursts, estimates, stacked
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._preconditioner import DENSE, Rounded, curvatures, relaxation, rounded
from tacthmc.tuning._settle import curvature_at, settle
from tacthmc.tuning._thin_preconditioner import Thin, thin

PLACES, FEWEST, BATCHES, MANY = 4, 16, 128, 1024
"""Chains at whose positions the force's noise is measured, and batches at each: many for a
map, since n draws in D dimensions look uneven by ±2√(D/n) by chance alone."""
ROOM = 1 << 27
"""Numbers in the gradients that are looked at together, at most."""
FRAMES, THIN_FRAMES = 4, 2
"""Frames tried one after the other, each from where the last one led; thin ones in more than 256
dimensions."""
FASTER = 0.7
"""A further map is worth it where chains relax in so much of the time."""
WARM = 1.05
"""The configurational temperature at most: the integrator's bias."""
UNRELAXED = 0.8
"""Below this a burst was too short for its chains to forget where they started."""
UNREADABLE = 2.0
"""An error of that temperature that no chain at rest has."""
HALVINGS, DOUBLINGS = 6, 3
RELAXATIONS = 20
"""Relaxation times in a burst."""
LONGEST = 10
"""A burst may take so many times the steps that it was asked to."""


class Numbers(NamedTuple):
    """η, c and why, the force's noise, and the steps in which chains relax."""

    steps: friction.Steps
    noise: friction.Noise
    """What decided."""
    relaxation: float
    whole: friction.Noise
    """That of all tensors together."""


class Plateau:
    """Chains of one potential at unit temperature, in a linear map that may change."""

    def __init__(
        self,
        potential: Potential,
        starts: Position,
        num_steps: int,
        linear: LinearMap | None = None,
    ):
        """``starts`` has a position for each chain; ``linear`` has coordinates to begin in."""
        self.like = jax.tree.map(lambda x: x[0], starts)
        self.bursts = Bursts(potential, jax.tree.leaves(starts)[0].shape[0], num_steps)
        self.potential, self.least = potential, num_steps
        self.linear: LinearMap | None = None
        self.positions = starts
        """In the linear coordinates; :meth:`outside` has them as the potential knows them."""
        self.apart: bool | None = None
        """Whether each tensor has a friction of its own; None to have it decided."""
        self.sizes = [leaf.size for leaf in jax.tree.leaves(self.like)]
        self.use(linear)

    @property
    def many(self) -> bool:
        """Whether there are too many directions to look after each of them."""
        return dimension(self.like) > DENSE

    @property
    def inside(self) -> Potential:
        """The potential of what moves."""
        return self.bursts.potential

    def outside(self, positions: Position) -> Position:
        """A stack of positions in the linear coordinates as positions of θ."""
        return positions if self.linear is None else jax.vmap(self.linear.forward)(positions)

    def within(self, positions: Position) -> Position:
        """A stack of positions of θ in the linear coordinates."""
        return positions if self.linear is None else jax.vmap(self.linear.inverse)(positions)

    def use(self, linear: LinearMap | None) -> None:
        """Move in other coordinates from here on."""
        positions = self.outside(self.positions)
        self.linear = linear
        self.bursts.potential = (
            self.potential if linear is None else MappedPotential(self.potential, linear)
        )
        self.positions = self.within(positions)

    def settled(self, key: PRNGKey) -> float:
        """Down from wherever chains are; returns the largest curvature there."""
        found = settle(key, self.bursts, self.positions)
        self.positions = found.positions
        return found.curvature

    def numbers(
        self, key: PRNGKey, curvature: float, eta: float | None, c: float | None
    ) -> Numbers:
        """η and c by what curvature and noise allow; given ones stay.

        Bursts have a friction for each tensor from here on, where the steps are made for that.
        """
        gradients = self._noise(key, self.inside, self.positions)
        noise = friction.force_noise(gradients, self.sizes)
        steps = friction.steps(curvature, noise, eta, c)
        own = self.apart
        if own is None:
            own = noise.uneven(steps.eta, steps.c) > 1 + friction.HOT
        decides = noise
        if own and noise.apart is not None:
            decides, shared = noise.apart, steps
            steps = friction.steps(curvature, decides, eta, c)
            if steps.eta < shared.eta:
                # One friction allows so much, and several are no reason for less.
                steps = shared._replace(apart=True)
        self.bursts.apart = steps.apart
        return Numbers(steps, decides, relaxation(np.array([curvature]), decides), noise)

    def better_map(
        self, key: PRNGKey, eta: float | None = None, c: float | None = None
    ) -> Rounded | Thin:
        """The linear map that curvature and noise at the chains' positions ask for.

        In high dimension it is one for a step size and a noise, those that are given or else those
        that would be chosen in the linear coordinates of now.
        """
        first, second = jax.random.split(key)
        places = self.outside(self.positions)
        dtype = scalar_dtype(self.like)
        if self.many:
            curvature = curvature_at(second, self.inside, self.positions)
            now = self.numbers(second, curvature, eta, c).steps
            gradients = self._noise(first, self.potential, places, MANY // PLACES)
            return thin(gradients, now.eta, now.c, dtype, self.sizes if now.apart else None)
        gradients = self._noise(first, self.potential, places, MANY)
        return rounded(curvatures(second, self.potential, places), gradients, dtype)

    def rounded(
        self, key: PRNGKey, curvature: float, eta: float | None = None, c: float | None = None
    ) -> float:
        """Map after map, until chains relax no faster; returns the last one's curvature.

        A linear map is only as good as the place that it was measured at, and in a better one chains
        get to a better place.
        """
        best = np.inf
        for number in range(THIN_FRAMES if self.many else FRAMES):
            keys = jax.random.split(jax.random.fold_in(key, number), 3)
            found = self.better_map(keys[0], eta, c)
            if found.linear is None:
                break
            self.use(found.linear)
            curvature = self.settled(keys[1])
            if self.many:
                # The flattest directions, which a thin map leaves alone, say nothing of it.
                continue
            time = self.numbers(keys[2], curvature, None, None).relaxation
            if time > FASTER * best:
                break
            best = time
        return curvature

    def diagonal_map(self, key: PRNGKey, curvature: float) -> LinearMap:
        """Each coordinate's standard deviation in a burst; none below a tenth of the median."""
        numbers = self.numbers(key, curvature, None, None).steps
        burst = self.bursts.run(key, self.positions, numbers.eta, numbers.c)
        sd = np.sqrt(burst.draws.var(axis=1).mean(axis=0))
        if not burst.finite or not np.median(sd) > 0:
            raise TuningError(
                "no standard deviations for linear='diagonal': the chains"
                f" {'stood still' if burst.finite else 'diverged'} at η = {numbers.eta:.3g}"
            )
        scale = np.maximum(sd, 0.1 * np.median(sd))
        return LinearMap(jnp.asarray(scale, scalar_dtype(self.like)))

    def verified(self, key: PRNGKey, steps: friction.Steps, given: bool) -> friction.Steps:
        """A burst whose chains are no hotter than they should be, with half η where they are."""
        eta, why = steps.eta, steps.why_eta
        halvings, doublings, seen = 0, 0, []
        while True:
            key, now = jax.random.split(key)
            burst = self.bursts.run(now, self.positions, eta, steps.c)
            if not burst.finite:
                seen.append(f"η = {eta:.3g}: diverged")
            else:
                temperature, error = self.virial(now, burst)
                shown = f"configurational temperature {temperature:.3g} ± {error:.2g}"
                seen.append(f"η = {eta:.3g}: {shown}")
                self.positions = burst.positions
                short = temperature + 2 * error < UNRELAXED and not self.many
                if short and doublings < DOUBLINGS:
                    # Too short a burst looks cold, whatever η is. In high dimension some
                    # directions are always too slow for it, and it is left at that.
                    self.bursts.steps, doublings = 2 * self.bursts.steps, doublings + 1
                    continue
                if temperature - 3 * error <= WARM and error < UNREADABLE:
                    self.burst = burst
                    return steps._replace(eta=eta, why_eta=f"{why}; {shown}")
            halvings += 1
            if given or halvings > HALVINGS:
                raise TuningError(
                    "no step size samples the plateau at its own temperature. Seen: "
                    + "; ".join(seen)
                )
            eta, why = eta / 2, f"{steps.why_eta}; halved, since {'; '.join(seen)}"

    def virial(self, key: PRNGKey, burst: Burst) -> tuple[float, float]:
        """⟨(θ − a)·∇U⟩/D and its standard error; one, for any constant a: where chains started."""
        start = jax.vmap(lambda p: flatten(p, scalar_dtype(p)))(self.positions)
        vectors = burst.draws.reshape(-1, burst.draws.shape[-1])
        _, gradients = estimates(key, self.inside, stacked(vectors, self.like), jnp.ones(()))
        self.bursts.gradients += len(vectors)
        slopes = np.asarray(gradients, float).reshape(burst.draws.shape)
        each = np.mean((burst.draws - np.asarray(start)[:, None]) * slopes, axis=2)
        means = each.mean(axis=1)
        return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))

    def longer(self, relaxation: float) -> None:
        """Bursts of many relaxation times from here on."""
        wanted = int(RELAXATIONS * relaxation) if np.isfinite(relaxation) else self.least
        self.bursts.steps = int(np.clip(wanted, self.least, LONGEST * self.least))

    def steepest(self, key: PRNGKey, hot: list[tuple[float, Position]]) -> tuple[float, str]:
        """The largest λ·curvature where chains are and at hotter places of θ; and where it is."""
        first, second = jax.random.split(key)
        worst, where = curvature_at(first, self.inside, self.positions, self.bursts.chains), "1"
        for temperature, places in hot:
            curvature = curvature_at(second, self.inside, self.within(places)) / temperature
            if curvature > worst:
                worst, where = curvature, f"{temperature:g}"
        return worst, where

    def _noise(
        self, key: PRNGKey, potential: Potential, positions: Position, batches: int = BATCHES
    ) -> Float[np.ndarray, "n d"]:
        """Gradients less their mean, place by place."""
        found, size = [], dimension(self.like)
        places = min(PLACES, self.bursts.chains)
        batches = max(FEWEST, min(batches, ROOM // (places * size)))
        dtype = np.float32 if self.many else np.float64
        for place in range(places):
            same = jax.tree.map(
                lambda x, i=place: jnp.broadcast_to(x[i], (batches, *x[i].shape)), positions
            )
            now = jax.random.fold_in(key, place)
            gradients = np.asarray(estimates(now, potential, same, jnp.ones(()))[1], dtype)
            found.append(gradients - gradients.mean(axis=0))
            self.bursts.gradients += batches
        return np.concatenate(found)
