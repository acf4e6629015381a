"""Noise that is unknown to the sampler: added for a study, or measured."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc import _checks as checks
from tacthmc._positions import dimension, finite, flatten, scalar_dtype, spread, unflatten
from tacthmc._typing import Batch, Draws, Number, Position, PRNGKey, Scalar
from tacthmc.compiler._async_jit import forget_outdated
from tacthmc.compiler._random import derive_key, normals
from tacthmc.potentials._base import Energy, Potential, WrappedPotential, forces
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._batches import Batches


class NoisyPotential(WrappedPotential):
    """A potential whose energy and force carry added, independent Gaussian noise."""

    inner: Potential
    force: Any
    energy_noise: Number
    root: Float[Array, "d d"] | None

    @property
    def batches(self) -> Batches:
        return NoisyBatches(self.inner.batches)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        """The inner estimate with noise on U1, so that the force has λ times the noise."""
        energy = self.inner.estimate(position, batch[0], model, correction)
        return energy._replace(tempered=self._disturbed(energy.tempered, position, batch))

    def full(self, position: Any) -> Energy:
        return self.inner.full(position)

    def _disturbed(self, value: Scalar, position: Any, batch: Batch) -> Scalar:
        """Ũ1 plus noise.

        The noise n of the force enters as n·(θ − θ*) at θ* = θ, which adds nothing to the energy
        and n to the gradient.
        """
        _, theta, extra = batch
        floats = eqx.filter(position, eqx.is_inexact_array)
        if self.root is None:
            added = jax.tree.map(jnp.multiply, spread(self.force, floats, "force"), theta)
        else:
            dtype = scalar_dtype(floats)
            added = unflatten(self.root.astype(dtype) @ flatten(theta, dtype), floats)
        linear = jax.tree.map(
            lambda n, x: jnp.sum(n * (x - jax.lax.stop_gradient(x))).astype(value.dtype),
            added,
            floats,
        )
        energy = jnp.asarray(self.energy_noise).astype(value.dtype) * extra.astype(value.dtype)
        return value + energy + sum(jax.tree.leaves(linear), jnp.zeros_like(value))


class NoisyBatches(Batches):
    """The batches of the inner potential, each with standard normals."""

    inner: Batches

    def init(self, key: PRNGKey) -> Any:
        return self.inner.init(key)

    @property
    def axes(self) -> Any:
        return self.inner.axes

    def select(self, data: Any, key: PRNGKey, position: Any) -> tuple[Any, Any]:
        # A key of its own for the inner potential, which may be noisy too and derive the same keys.
        data, selection = self.inner.select(data, jax.random.fold_in(key, 0), position)
        floats = eqx.filter(position, eqx.is_inexact_array)
        theta, extra = normals(derive_key(key, 8), floats, extra=1)
        return data, (selection, theta, extra[0])

    def fetch(self, selection: Any) -> Batch:
        inner, theta, extra = selection
        return self.inner.fetch(inner), theta, extra


def noisy(
    potential: Potential,
    force: Any = 0.0,
    energy: Number = 0.0,
    *,
    covariance: Float[Array, "d d"] | None = None,
) -> NoisyPotential:
    """Add Gaussian noise that is unknown to the sampler (the paper's synthetic setting).

    Args:
        potential: the potential to disturb.
        force: the standard deviation of the noise of the force: a number, or a pytree that matches
            the position with a number per leaf or per coordinate.
        energy: the standard deviation of the noise of the energy, which is independent of that of
            the force.
        covariance: a D×D covariance of the noise of the force, instead of ``force``.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> rough = noisy(tacthmc.potential(lambda x: x**2), force=3.0, energy=1.0)
    >>> batch = rough.batch(jax.random.key(0), jnp.array(0.0))
    >>> value, gradient = rough.value_and_grad(jnp.array(0.0), batch)
    >>> bool(value != 0.0), bool(gradient != 0.0), float(rough.energy(jnp.array(0.0)))
    (True, True, 0.0)
    """
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    checks.non_negative("energy", energy)
    for leaf in jax.tree.leaves(force):
        checks.all_non_negative("force", leaf)
    root = None
    if covariance is not None:
        matrix = np.asarray(checks.quiet_array("covariance", covariance))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"covariance must be a D×D matrix; got shape {matrix.shape}")
        if any(np.any(np.asarray(leaf) != 0) for leaf in jax.tree.leaves(force)):
            raise ValueError("give force or covariance, not both")
        if not np.allclose(matrix, matrix.T):
            raise ValueError(f"covariance must be symmetric and positive definite; got {matrix}")
        try:
            root = jnp.asarray(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"covariance must be symmetric and positive definite; got {matrix}"
            ) from error
    # Arrays, so that other noise levels reuse the compiled program.
    return NoisyPotential(potential, jax.tree.map(jnp.asarray, force), jnp.asarray(energy), root)


class NoiseLevels(NamedTuple):
    """Variances of the noise of a potential: of the energy, and of the force per coordinate."""

    energy: float
    force: Draws

    @property
    def mean_force(self) -> float:
        """The variance of the force averaged over coordinates (v_f of the scalar thermostat)."""
        leaves = jax.tree.leaves(self.force)
        return float(sum(np.sum(leaf) for leaf in leaves) / dimension(self.force))


@eqx.filter_jit
def _estimates(potential: Potential, position: Position, keys: Array) -> tuple[Array, Position]:
    def one(key: PRNGKey) -> tuple[Scalar, Position]:
        batch, model = potential.batch(key, position), potential.init_model()
        found = forces(potential, position, batch, model, jnp.ones(()))
        return found.tempered, found.gradient

    return jax.lax.map(one, keys)


def _estimates_of_one(potential: Potential, position: Position) -> Any:
    return potential.value_and_grad(position, potential.batch(jax.random.key(0), position))


def measure_noise(
    key: PRNGKey, potential: Potential, position: Position, num_batches: int = 64
) -> NoiseLevels:
    """Measure the variances v_U and v_f of the noise of a potential at one position.

    Where only a part of the energy is tempered, v_U is the variance of that part.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> rough = tacthmc.noisy(tacthmc.potential(lambda x: x**2), force=3.0, energy=1.0)
    >>> levels = measure_noise(jax.random.key(0), rough, jnp.array(0.0), 4096)
    >>> round(levels.energy, 1), round(levels.mean_force, 0)
    (1.0, 9.0)
    """
    key = checks.key("key", key)
    checks.instance("potential", potential, Potential, "made by tacthmc.potential or .posterior")
    position = finite(position, "position")
    checks.whole("num_batches", num_batches, 2)
    forget_outdated(_estimates_of_one, potential, position)
    values, gradients = _estimates(potential, position, jax.random.split(key, num_batches))
    return NoiseLevels(
        float(np.var(np.asarray(values, float), ddof=1)),
        jax.tree.map(lambda g: np.asarray(np.var(np.asarray(g, float), axis=0, ddof=1)), gradients),
    )
