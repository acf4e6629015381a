"""The numbers of θ at unit temperature: linear map, step size and noise, and a test of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._positions import dimension, flatten, scalar_dtype
from tacthmc._typing import Position, PRNGKey
from tacthmc.dynamics._linear_map import LinearMap, MappedPotential
from tacthmc.potentials._base import Potential
from tacthmc.potentials._exact import has_exact_energies
from tacthmc.tuning import _friction as friction
from tacthmc.tuning._bursts import Burst, Bursts, estimates, stacked
from tacthmc.tuning._choices import TuningError
from tacthmc.tuning._curvature import largest_curvatures
from tacthmc.tuning._dense_map import (
    MAX_DENSE_DIMENSION,
    DenseMap,
    curvatures,
    dense_map,
    relaxation,
)
from tacthmc.tuning._descend import curvature_at, descend
from tacthmc.tuning._low_rank_map import LowRankMap, low_rank_map

NUM_PLACES, MIN_BATCHES, NOISE_BATCHES, MAP_BATCHES = 4, 16, 128, 1024
"""The number of positions at which the noise of the force is measured, and the numbers of batches
at each. A map needs many, because n draws in D dimensions look uneven by ±2√(D/n) by chance."""
MAX_GRADIENT_NUMBERS = 1 << 27
"""The largest number of values in the gradients that are held together."""
MAX_DENSE_MAPS, MAX_LOW_RANK_MAPS = 4, 2
"""The largest number of maps that are tried one after the other, each from the positions that the
previous one reached. Low-rank maps are for more than 256 dimensions."""
MAX_RELATIVE_TIME = 0.7
"""The largest relaxation time with a further map, relative to that with the previous one."""
MAX_TEMPERATURE = 1.05
"""The largest configurational temperature, which the bias of the integrator raises."""
MIN_RELAXED_TEMPERATURE = 0.8
"""The configurational temperature below which a burst was too short for its chains to relax."""
MAX_TEMPERATURE_ERROR = 2.0
"""The error of that temperature from which the measurement is not valid."""
CURVATURE_ITERATIONS = 20
"""The number of gradients from which the largest curvature at a place is estimated."""
MAX_FRICTION_RATIO = 1.05
"""The largest friction of a thermostat relative to the injected one, if the force has no noise. The
shares of modes are wrong by more than a few percent if it is twice that."""
MAX_HALVINGS, MAX_DOUBLINGS = 6, 3
BURST_RELAXATIONS = 20
"""The length of a burst in relaxation times."""
MAX_BURST_RATIO = 10
"""The largest length of a burst, relative to the given one."""


class Numbers(NamedTuple):
    """η, c and their reasons, the noise of the force, and the relaxation time."""

    steps: friction.Steps
    noise: friction.Noise
    """The noise that decided."""
    relaxation: float
    """The relaxation time in steps."""
    whole: friction.Noise
    """The noise of all tensors together."""


class _Verdict(NamedTuple):
    """What a burst says about its step size."""

    shown: str
    """The measurements in words."""
    short: bool = False
    """Whether chains had no time to relax."""
    right: bool = False
    """Whether the step size will do."""


class Plateau:
    """Chains of one potential at unit temperature, in linear coordinates that may change."""

    def __init__(
        self,
        potential: Potential,
        starts: Position,
        num_steps: int,
        linear: LinearMap | None = None,
    ):
        """Begin with a position for each chain, in the coordinates of ``linear``."""
        self.like = jax.tree.map(lambda x: x[0], starts)
        self.bursts = Bursts(potential, jax.tree.leaves(starts)[0].shape[0], num_steps)
        self.potential, self.min_steps = potential, num_steps
        self.linear: LinearMap | None = None
        self.positions = starts
        """The positions in the linear coordinates."""
        self.mode_curvature = 0.0
        """The largest curvature at the centers of known modes, in the linear coordinates."""
        self._mode_centers: Position | None = None
        self.per_tensor: bool | None = None
        """Whether each tensor has its own friction; None to decide by the noise."""
        self.sizes = [leaf.size for leaf in jax.tree.leaves(self.like)]
        self.use_map(linear)

    @property
    def is_high_dimensional(self) -> bool:
        """Whether there are too many directions to treat each of them."""
        return dimension(self.like) > MAX_DENSE_DIMENSION

    @property
    def is_exact(self) -> bool:
        """Whether forces have no noise."""
        return has_exact_energies(self.potential)

    @property
    def mapped_potential(self) -> Potential:
        """The potential as a function of the linear coordinates."""
        return self.bursts.potential

    def to_theta(self, positions: Position) -> Position:
        """θ from a stack of positions in the linear coordinates."""
        return positions if self.linear is None else jax.vmap(self.linear.forward)(positions)

    def from_theta(self, positions: Position) -> Position:
        """A stack of positions in the linear coordinates, from θ."""
        return positions if self.linear is None else jax.vmap(self.linear.inverse)(positions)

    def use_map(self, linear: LinearMap | None) -> None:
        """Change to other linear coordinates."""
        positions = self.to_theta(self.positions)
        self.linear = linear
        self.bursts.potential = (
            self.potential if linear is None else MappedPotential(self.potential, linear)
        )
        self.positions = self.from_theta(positions)
        if self._mode_centers is not None:
            self.use_modes(self._mode_centers)

    def use_modes(self, centers: Position) -> None:
        """Let steps be stable at the centers of modes too, a stack of positions θ.

        The burst that decides about a step size may have left a narrow mode because of it.
        """
        self._mode_centers = centers
        found = largest_curvatures(
            jax.random.key(0), self.mapped_potential, self.from_theta(centers), CURVATURE_ITERATIONS
        )
        self.bursts.gradients += len(found) * CURVATURE_ITERATIONS
        known = found[np.isfinite(found)]
        self.mode_curvature = float(known.max(initial=0.0))

    def descend(self, key: PRNGKey) -> float:
        """Move the chains to typical energies; returns the largest curvature there."""
        found = descend(key, self.bursts, self.positions, self.mode_curvature)
        self.positions = found.positions
        return found.curvature

    def numbers(
        self, key: PRNGKey, curvature: float, eta: float | None, c: float | None
    ) -> Numbers:
        """η and c for the curvature and the noise; given ones are not changed.

        Later bursts have a friction for each tensor, if the numbers are for that.
        """
        gradients = self._noise(key, self.mapped_potential, self.positions)
        noise = friction.force_noise(gradients, self.sizes)
        steps = friction.steps(curvature, noise, eta, c)
        own = self.per_tensor
        if own is None:
            own = noise.shared_friction_heat(steps.eta, steps.c) > 1 + friction.MIN_NOTABLE_HEAT
        decides = noise
        if own and noise.per_tensor is not None:
            decides, shared = noise.per_tensor, steps
            steps = friction.steps(curvature, decides, eta, c)
            if steps.eta < shared.eta:
                # Several frictions are no reason for smaller steps than with one.
                steps = shared._replace(per_tensor=True)
        self.bursts.per_tensor = steps.per_tensor
        return Numbers(steps, decides, relaxation(np.array([curvature]), decides), noise)

    def better_map(
        self, key: PRNGKey, eta: float | None = None, c: float | None = None
    ) -> DenseMap | LowRankMap:
        """The linear map for the curvature and the noise at the positions of the chains.

        In high dimension it depends on the step size and the noise: the given ones, or those that
        would be chosen in the current coordinates.
        """
        first, second = jax.random.split(key)
        places = self.to_theta(self.positions)
        dtype = scalar_dtype(self.like)
        if self.is_high_dimensional:
            curvature = curvature_at(second, self.mapped_potential, self.positions)
            curvature = max(curvature, self.mode_curvature)
            now = self.numbers(second, curvature, eta, c).steps
            gradients = self._noise(first, self.potential, places, MAP_BATCHES // NUM_PLACES)
            sizes = self.sizes if now.per_tensor else None
            return low_rank_map(gradients, now.eta, now.c, dtype, sizes)
        gradients = self._noise(first, self.potential, places, MAP_BATCHES)
        return dense_map(curvatures(second, self.potential, places), gradients, dtype)

    def find_map(
        self, key: PRNGKey, curvature: float, eta: float | None = None, c: float | None = None
    ) -> float:
        """Improve the map until chains relax no faster; returns the curvature in the last one.

        A map is only as good as the positions at which it was measured, and with a better map
        chains reach better positions.
        """
        best = np.inf
        for number in range(MAX_LOW_RANK_MAPS if self.is_high_dimensional else MAX_DENSE_MAPS):
            keys = jax.random.split(jax.random.fold_in(key, number), 3)
            found = self.better_map(keys[0], eta, c)
            if found.linear is None:
                break
            self.use_map(found.linear)
            curvature = self.descend(keys[1])
            if self.is_high_dimensional:
                # A low-rank map does not change the flattest directions, so it cannot be judged.
                continue
            time = self.numbers(keys[2], curvature, None, None).relaxation
            if time > MAX_RELATIVE_TIME * best:
                break
            best = time
        return curvature

    def diagonal_map(self, key: PRNGKey, curvature: float) -> LinearMap:
        """The standard deviations of coordinates in a burst, at least a tenth of the median."""
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

    def verified(
        self, key: PRNGKey, steps: friction.Steps, given: bool, settled: bool = False
    ) -> friction.Steps:
        """The steps after a burst at the right temperature, with half of η after each failure.

        If chains have ``settled`` and the force is exact, steps must not heat, either: the friction
        that the thermostat then needs is the injected one.
        """
        eta, why = steps.eta, steps.why_eta
        cool = MAX_FRICTION_RATIO * steps.c if self._must_be_cool(settled, given) else np.inf
        halvings, doublings, tried = 0, 0, []
        while True:
            key, now = jax.random.split(key)
            burst = self.bursts.run(now, self.positions, eta, steps.c)
            # After the last halving a little heat is better than an error.
            verdict = self._verdict(now, burst, cool if halvings < MAX_HALVINGS else np.inf)
            tried.append(f"η = {eta:.3g}: {verdict.shown}")
            if burst.finite:
                self.positions = burst.positions
            if verdict.short and not self.is_high_dimensional and doublings < MAX_DOUBLINGS:
                # A burst that is too short looks cold for any η. In high dimension some
                # directions are always too slow for a burst, so it is not made longer.
                self.bursts.steps, doublings = 2 * self.bursts.steps, doublings + 1
                continue
            if verdict.right:
                self.burst = burst
                return steps._replace(eta=eta, why_eta=f"{why}; {verdict.shown}")
            halvings += 1
            if given or halvings > MAX_HALVINGS:
                raise TuningError(
                    "no step size samples the posterior at unit temperature. Tried: "
                    + "; ".join(tried)
                )
            eta, why = eta / 2, f"{steps.why_eta}; halved after {'; '.join(tried)}"

    def _must_be_cool(self, settled: bool, given: bool) -> bool:
        """Whether the friction of the thermostat decides about the step size."""
        return settled and self.is_exact and not given

    def _verdict(self, key: PRNGKey, burst: Burst, cool: float) -> _Verdict:
        """Whether a burst had the right temperature, and at most the friction ``cool``."""
        if not burst.finite:
            return _Verdict("diverged")
        temperature, error = self.configurational_temperature(key, burst)
        shown = f"configurational temperature {temperature:.3g} ± {error:.2g}"
        heats = burst.least_friction > cool
        if heats:
            shown += f", and a friction of {burst.least_friction:.2g} or more"
        right = temperature - 3 * error <= MAX_TEMPERATURE and error < MAX_TEMPERATURE_ERROR
        short = temperature + 2 * error < MIN_RELAXED_TEMPERATURE
        return _Verdict(shown, short, right and not heats)

    def configurational_temperature(self, key: PRNGKey, burst: Burst) -> tuple[float, float]:
        """⟨(θ − a)·∇U⟩/D and its standard error, with a the start of the chain.

        It is 1 in equilibrium for any constant a.
        """
        start = jax.vmap(lambda p: flatten(p, scalar_dtype(p)))(self.positions)
        vectors = burst.draws.reshape(-1, burst.draws.shape[-1])
        positions = stacked(vectors, self.like)
        _, gradients = estimates(key, self.mapped_potential, positions, jnp.ones(()))
        self.bursts.gradients += len(vectors)
        slopes = np.asarray(gradients, float).reshape(burst.draws.shape)
        each = np.mean((burst.draws - np.asarray(start)[:, None]) * slopes, axis=2)
        means = each.mean(axis=1)
        return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))

    def lengthen_bursts(self, relaxation: float) -> None:
        """Make later bursts many relaxation times long."""
        steps = int(BURST_RELAXATIONS * relaxation) if np.isfinite(relaxation) else self.min_steps
        self.bursts.steps = int(np.clip(steps, self.min_steps, MAX_BURST_RATIO * self.min_steps))

    def largest_curvature(
        self, key: PRNGKey, hot: list[tuple[float, Position]]
    ) -> tuple[float, str]:
        """The largest λ·curvature at the chains and at hotter positions, and its temperature."""
        first, second = jax.random.split(key)
        potential = self.mapped_potential
        here = curvature_at(first, potential, self.positions, self.bursts.chains)
        largest, where = max(here, self.mode_curvature), "1"
        for temperature, places in hot:
            curvature = curvature_at(second, potential, self.from_theta(places)) / temperature
            if curvature > largest:
                largest, where = curvature, f"{temperature:g}"
        return largest, where

    def unevenness(self, key: PRNGKey) -> float:
        """The ratio of the largest curvatures at different chains."""
        some = jax.tree.map(lambda x: x[: 2 * NUM_PLACES], self.positions)
        found = largest_curvatures(key, self.mapped_potential, some, CURVATURE_ITERATIONS)
        self.bursts.gradients += len(found) * CURVATURE_ITERATIONS
        return float(np.max(found) / max(np.min(found), np.finfo(float).tiny))

    def _noise(
        self, key: PRNGKey, potential: Potential, positions: Position, batches: int = NOISE_BATCHES
    ) -> Float[np.ndarray, "n d"]:
        """Gradients less their mean at each of a few positions."""
        found, size = [], dimension(self.like)
        places = min(NUM_PLACES, self.bursts.chains)
        batches = max(MIN_BATCHES, min(batches, MAX_GRADIENT_NUMBERS // (places * size)))
        dtype = np.float32 if self.is_high_dimensional else np.float64
        for place in range(places):
            same = jax.tree.map(
                lambda x, i=place: jnp.broadcast_to(x[i], (batches, *x[i].shape)), positions
            )
            now = jax.random.fold_in(key, place)
            gradients = np.asarray(estimates(now, potential, same, jnp.ones(()))[1], dtype)
            found.append(gradients - gradients.mean(axis=0))
            self.bursts.gradients += batches
        return np.concatenate(found)
