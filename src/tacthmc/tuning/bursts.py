"""Short runs at one temperature, and what is read off them."""

import warnings
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.positions import dimension, flatten, scalar_dtype
from tacthmc.potential import Potential, SameBatchPotential
from tacthmc.run.failure import DivergedWarning
from tacthmc.run.sample import sample
from tacthmc.samplers.sgnht import sgnht

DRAW_NUMBERS = 1 << 24
"""Numbers in the draws of one burst, at most."""
DRAWS = 25
"""Draws a burst keeps of each chain, where there is room."""


class Heated(SameBatchPotential):
    """λ·U: the posterior at temperature 1/λ."""

    inner: Potential
    weight: Array

    def estimate_with(self, position: Any, batch: Batch, model: Any) -> tuple[Scalar, Any]:
        """λ·Ũ."""
        value, model = self.inner.estimate_with(position, batch, model)
        return self.weight.astype(value.dtype) * value, model

    def energy(self, position: Any) -> Scalar:
        """λ·U."""
        value = self.inner.energy(position)
        return self.weight.astype(value.dtype) * value


@dataclass(frozen=True)
class Burst:
    """What a short run left; ``draws`` and ``energies`` are those of its second half."""

    positions: Position
    draws: Float[np.ndarray, "chains draws d"]
    energies: Float[np.ndarray, "chains draws"]
    finite: bool


@dataclass
class Bursts:
    """Makes bursts of chains of one posterior and counts their gradients."""

    potential: Potential
    chains: int
    steps: int
    mass: Any = 1.0
    gradients: int = field(default=0, init=False)

    def run(
        self,
        key: PRNGKey,
        positions: Position,
        eta: float,
        c: float,
        temperature: float = 1.0,
        share: float = 1.0,
    ) -> Burst:
        """``share`` of the usual number of steps, thermostatted, at a temperature."""
        one = jax.tree.map(lambda x: x[0], positions)
        steps = max(int(share * self.steps), 2)
        room = max(2, DRAW_NUMBERS // (dimension(one) * self.chains))
        every = max(1, self.steps // (2 * min(DRAWS, room)))
        sampler = sgnht(eta, noise=c, mass=self.mass, keep_every=every)
        heated = Heated(self.potential, jnp.asarray(1 / temperature, scalar_dtype(one)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergedWarning)
            run = sample(
                key,
                sampler,
                heated,
                positions,
                steps,
                self.chains,
                num_warmup=steps // 2,
                init_per_chain=True,
                progress=False,
            )
        self.gradients += self.chains * steps
        rows = run.num_draws
        energies = np.asarray(run.stats["energy"], float) * temperature
        draws = flat_draws(run.draws) if rows else np.zeros((self.chains, 0, dimension(one)))
        finite = not run.failures and rows > 0 and bool(np.all(np.isfinite(energies)))
        return Burst(run.state.position, draws, energies, finite)


def flat_draws(draws: Any) -> Float[np.ndarray, "chains draws d"]:
    """Draws as vectors."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


@eqx.filter_jit
def estimates(
    key: PRNGKey, potential: Potential, positions: Position
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """Ũ and ∇Ũ at each of a stack of positions, each from a batch of its own."""

    def one(key: PRNGKey, position: Position) -> tuple[Scalar, Array]:
        value, gradient = potential.value_and_grad(position, potential.batch(key, position))
        return value, flatten(gradient, scalar_dtype(position))

    count = jax.tree.leaves(positions)[0].shape[0]
    return jax.lax.map(lambda pair: one(*pair), (jax.random.split(key, count), positions))
