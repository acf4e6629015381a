r"""Trajectories that are accepted or rejected: the local move of replicas with exact energies."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tacthmc._positions import dimension, flatten, scalar_dtype, unflatten
from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.potentials import Potential
from tacthmc.potentials._exact import description, has_exact_energies
from tacthmc.samplers._local_move import Energies, LocalMove, Report

JITTER = 0.2
"""The relative range of the random step sizes of trajectories, so that none returns to its start in
a mode whose period it has."""


class Point(eqx.Module):
    """A place with its energies and their gradients, as vectors in the order of the leaves."""

    position: Position
    fixed: Float[Array, "*k"]
    tempered: Float[Array, "*k"]
    fixed_gradient: Float[Array, "*k d"]
    tempered_gradient: Float[Array, "*k d"]
    model: Any = None

    def energy(self, lam: Scalar) -> Scalar:
        """U0 + λU1."""
        return self.fixed + lam * self.tempered

    def gradient(self, lam: Scalar) -> Float[Array, " d"]:
        """∇(U0 + λU1)."""
        return self.fixed_gradient + lam * self.tempered_gradient


class Metropolis(LocalMove):
    r"""Hamiltonian trajectories with a Metropolis test, one in a step.

    On rung k with step size η_k and scale A_k, a step draws z ~ N(0, I) and makes ``num_leapfrog``
    times

    .. math:: z \leftarrow z - \tfrac12\epsilon A_k^T\nabla, \qquad
        \theta \leftarrow \theta + \epsilon A_k z, \qquad
        z \leftarrow z - \tfrac12\epsilon A_k^T\nabla

    with ∇ = ∇(U0 + λ_k U1) and ε = √η_k·(1 + u), where u is uniform in ±0.2 and the same for the
    whole trajectory. Its end is accepted with probability

    .. math:: \min\big(1, \exp(-\Delta(U_0 + \lambda_k U_1 + \tfrac12|z|^2))\big),

    and otherwise θ stays. This leaves exp(−U0 − λ_k U1) invariant **exactly, at any step size**.
    With one leapfrog step it is MALA. Energies and gradients are kept with their place, so that a
    step takes ``num_leapfrog`` gradients.

    At the start of a chain energies are not known yet and count as infinite. The first step finds
    them: its trajectory stays where it is, and is accepted.
    """

    step_sizes: Float[Array, " k"]
    scales: Float[Array, " k"] | Float[Array, "k d"] | Float[Array, "k d d"]
    """A_k: a number, a diagonal, or a matrix for each rung."""
    num_leapfrog: int = eqx.field(static=True)

    @property
    def gradients(self) -> int:
        return self.num_leapfrog

    @property
    def extra_normals(self) -> int:
        return 3

    def check(self, potential: Potential) -> None:
        if not has_exact_energies(potential):
            raise ValueError(
                "trajectories are accepted by exact energies, because the noise of a batch would"
                " count as a change of the energy: leave out num_leapfrog, or give a"
                " tacthmc.potential, or a posterior with batch_size = the number of examples; got"
                f" {description(potential)}"
            )

    def init(self, key: PRNGKey, positions: Position, model: Any) -> Point:
        one, dtype = jax.tree.map(lambda x: x[0], positions), scalar_dtype(positions)
        rungs = jax.tree.leaves(positions)[0].shape[0]
        zeros = jnp.zeros((rungs, dimension(one)), dtype)
        unknown = jnp.full(rungs, jnp.inf, dtype)
        models = jax.tree.map(lambda x: jnp.broadcast_to(x, (rungs, *x.shape)), model)
        # No buffer twice, because states are donated.
        return Point(
            positions, unknown, jnp.zeros_like(unknown), zeros, jnp.zeros_like(zeros), models
        )

    def moved(
        self,
        normal: tuple[Position, Float[Array, "k e"]],
        replicas: Point,
        potential: Potential,
        lam: Float[Array, " k"],
        batch: Batch,
    ) -> tuple[Point, Energies, Report]:
        """One trajectory of each replica."""
        count = lam.shape[0]
        one = jax.vmap(partial(self._trajectory, potential))
        after, accepted = one(*normal, replicas, lam, self.step_sizes[:count], self.scales[:count])
        return after, Energies(after.fixed, after.tempered), Report(accepted)

    def _trajectory(
        self,
        potential: Potential,
        normal: Position,
        extra: Float[Array, "3"],
        start: Point,
        lam: Scalar,
        step_size: Scalar,
        scale: Array,
    ) -> tuple[Point, Scalar]:
        """One replica after its trajectory, and the probability of acceptance."""
        dtype = lam.dtype
        z = flatten(normal, dtype)
        jitter = 1 + JITTER * (2 * jax.scipy.stats.norm.cdf(extra[0]) - 1)
        known = jnp.isfinite(start.fixed)
        epsilon = jnp.where(known, jnp.sqrt(step_size.astype(dtype)) * jitter.astype(dtype), 0)
        scale = scale.astype(dtype)

        def kicked(point: Point, z: Array) -> Array:
            return z - 0.5 * epsilon * _times(scale.T, point.gradient(lam))

        def step(carry: tuple[Point, Array], _: None) -> tuple[tuple[Point, Array], None]:
            point, z = carry
            z = kicked(point, z)
            vector = flatten(point.position, dtype) + epsilon * _times(scale, z)
            point = evaluated(potential, unflatten(vector, point.position), point.model)
            return (point, kicked(point, z)), None

        (end, arrived), _ = jax.lax.scan(step, (start, z), length=self.num_leapfrog)
        heat = 0.5 * (jnp.sum(arrived * arrived) - jnp.sum(z * z))
        change = end.energy(lam) - start.energy(lam) + heat
        # Half the sum of two squared normals is distributed as −log of a uniform number. A
        # trajectory whose energy is not finite is rejected.
        accept = change < 0.5 * jnp.sum(extra[1:] ** 2)
        probability = jnp.where(jnp.isnan(change), 0, jnp.exp(-jnp.maximum(change, 0)))
        after: Point = jax.tree.map(partial(jnp.where, accept), end, start)
        return after, probability

    def placed(
        self, replica: Point, position: Position, potential: Potential, batch: Batch
    ) -> tuple[Point, Energies]:
        point = evaluated(potential, position, replica.model)
        return point, Energies(point.fixed, point.tempered)

    def exchanged(self, replicas: Point, source: Int[Array, " k"]) -> Point:
        return jax.tree.map(lambda x: x[source], replicas)

    def position(self, replica: Point) -> Position:
        return replica.position


def evaluated(potential: Potential, position: Position, model: Any = None) -> Point:
    """A place with exact energies and gradients."""
    dtype = scalar_dtype(position)

    def fixed(vector: Float[Array, " d"]) -> Scalar:
        return jnp.asarray(potential.full(unflatten(vector, position)).fixed).astype(dtype)

    def tempered(vector: Float[Array, " d"]) -> Scalar:
        return jnp.asarray(potential.full(unflatten(vector, position)).tempered).astype(dtype)

    vector = flatten(position, dtype)
    # The compiler leaves out what one of them does not need, and computes common parts once.
    zero, zero_gradient = jax.value_and_grad(fixed)(vector)
    one, one_gradient = jax.value_and_grad(tempered)(vector)
    return Point(position, zero, one, zero_gradient, one_gradient, model)


def scales_of(mass: Any, rungs: int) -> Array:
    """A = 1/√m of each rung, from a number or a pytree in the shape of the position.

    >>> scales_of({"a": jnp.full(2, 4.0), "b": jnp.ones(())}, 3).shape
    (3, 3)
    """
    leaves = [jnp.asarray(leaf, float) for leaf in jax.tree.leaves(mass)]
    whole = leaves[0] if eqx.is_array_like(mass) else jnp.concatenate([m.ravel() for m in leaves])
    scale = 1 / jnp.sqrt(whole.ravel() if whole.ndim else whole)
    return jnp.broadcast_to(scale, (rungs, *scale.shape))


def _times(factor: Array, vector: Float[Array, " d"]) -> Float[Array, " d"]:
    """A number, a diagonal or a matrix times a vector."""
    return factor * vector if factor.ndim < 2 else jnp.matmul(factor, vector, precision="highest")
