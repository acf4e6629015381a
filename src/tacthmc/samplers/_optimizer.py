"""Optimizers as runs with the same driver: baselines, and starts for chains."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from tacthmc import _checks as checks
from tacthmc._positions import checked, rate_at, scalar_dtype
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate
from tacthmc.dynamics import Info, Sampler
from tacthmc.potentials import Potential, forces


class OptimizerState(eqx.Module):
    """θ, Optax's state, and the steps made."""

    position: Position
    inner: Any
    step: Int[Array, ""]
    model: Any = None


class Optimizer(Sampler):
    """Any Optax transformation, run as if it were a sampler."""

    transform: optax.GradientTransformation
    learning_rate: Rate
    num_data: Number

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> OptimizerState:
        """θ as given; the key is not used."""
        position = checked(position)
        return OptimizerState(position, self.transform.init(position), jnp.zeros((), int), model)

    def noise(self, key: PRNGKey, position: Position) -> tuple[()]:
        return ()

    def advance(
        self, noise: tuple[()], state: OptimizerState, potential: Potential, batch: Batch
    ) -> tuple[OptimizerState, Info]:
        """θ ← θ − lr·transform(∇Ũ/N)."""
        dtype = scalar_dtype(state.position)
        found = forces(potential, state.position, batch, state.model)
        energy, gradient, model = found.energy, found.gradient, found.model
        count = jnp.asarray(self.num_data)
        mean = jax.tree.map(lambda g: g / count.astype(g.dtype), gradient)
        # Optax relies on JAX's ordinary promotion, also where a caller has made it strict.
        with jax.numpy_dtype_promotion("standard"):
            updates, inner = self.transform.update(mean, state.inner, state.position)
        rate = rate_at(self.learning_rate, state.step, dtype)

        def moved(x: Array, u: Array) -> Array:
            return x - rate.astype(x.dtype) * u.astype(x.dtype)

        position = jax.tree.map(moved, state.position, updates)
        step = state.step + 1
        info = Info(energy.astype(dtype), at_unit_temperature=jnp.asarray(True))
        return OptimizerState(position, inner, step, model), info


def optimizer(
    transform: optax.GradientTransformation,
    learning_rate: Rate = -1.0,
    *,
    num_data: Number = 1,
) -> Optimizer:
    """Run an Optax transformation with the same driver as the samplers.

    It gets the gradient of the mean loss U/N. A transformation that is complete in itself
    (``optax.adamw(1e-3)``) is used as it is; for a bare direction (``optax.scale_by_adam()``)
    give a ``learning_rate``, which then is traced like every sampler's step size.

    Draws are iterates, not samples.

    >>> import jax, jax.numpy as jnp, optax, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 3.0) ** 2))
    >>> run = tacthmc.sample(jax.random.key(0), optimizer(optax.lion(1e-2)), target,
    ...                      init=jnp.zeros(2), num_steps=2_000)
    >>> bool(jnp.all(jnp.abs(run.draws[0, -1] - 3.0) < 0.05))
    True
    """
    checks.positive("num_data", num_data)
    if not callable(getattr(transform, "update", None)):
        raise TypeError(f"transform must be an Optax GradientTransformation; got {transform!r}")
    return Optimizer(transform=transform, learning_rate=learning_rate, num_data=num_data)


# One object for equal settings, so that a second run finds the first one's compiled program.
_adam_direction = functools.cache(optax.scale_by_adam)


class HeavyBall(eqx.Module):
    """v ← g + momentum·v, as ``optax.trace`` has it, but with a momentum that is traced.

    So runs with several momenta are chains of one program.
    """

    momentum: Number

    def __call__(self, updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        """The new v, twice: the update, and what is remembered."""
        new = jax.tree.map(
            lambda g, v: g + jnp.asarray(self.momentum).astype(v.dtype) * v, updates, state
        )
        return new, new


def _still(params: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, params)


def _momentum_direction(momentum: Number) -> optax.GradientTransformation:
    return optax.GradientTransformation(_still, HeavyBall(momentum))


def adam(learning_rate: Rate = 1e-3, *, num_data: Number = 1) -> Optimizer:
    """Adam on the mean loss, with Optax's defaults.

    >>> adam(1e-3, num_data=50_000).learning_rate
    0.001
    """
    checks.positive("learning_rate", learning_rate)
    return optimizer(_adam_direction(), learning_rate, num_data=num_data)


def momentum_sgd(
    learning_rate: Rate = 1e-3, momentum: Number = 0.9, *, num_data: Number = 1
) -> Optimizer:
    """SGD with momentum on the mean loss.

    >>> momentum_sgd(1e-3, num_data=50_000).learning_rate
    0.001
    """
    checks.positive("learning_rate", learning_rate)
    checks.non_negative("momentum", momentum)
    return optimizer(_momentum_direction(momentum), learning_rate, num_data=num_data)
