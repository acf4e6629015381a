"""Optimizers with the interface of a sampler: baselines, and starting points for chains."""

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
    """The state of an optimizer."""

    position: Position
    inner: Any
    """The state of the Optax transformation."""
    step: Int[Array, ""]
    """The number of steps made."""
    model: Any = None


class Optimizer(Sampler):
    """An Optax transformation with the interface of a sampler."""

    transform: optax.GradientTransformation
    learning_rate: Rate
    num_data: Number

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> OptimizerState:
        """The first state, at ``position``. The key is not used."""
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
        # Optax relies on standard dtype promotion, even if the caller has made it strict.
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
    """An Optax transformation that runs like a sampler.

    The transformation gets the gradient of the mean loss U/N. A complete optimizer
    (``optax.adamw(1e-3)``) needs no ``learning_rate``. A bare direction
    (``optax.scale_by_adam()``) needs one, which is then traced like the step size of a sampler.

    Draws are iterates, not samples.

    >>> import jax, jax.numpy as jnp, optax, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum((x - 3.0) ** 2))
    >>> run = tacthmc.sample(jax.random.key(0), optimizer(optax.lion(1e-2)), target,
    ...                      init=jnp.zeros(2), num_steps=2_000)
    >>> bool(jnp.all(jnp.abs(run.draws[0, -1] - 3.0) < 0.05))
    True
    """
    checks.positive("num_data", num_data)
    if not all(callable(getattr(transform, name, None)) for name in ("init", "update")):
        raise TypeError(f"transform must be an Optax GradientTransformation; got {transform!r}")
    return Optimizer(transform=transform, learning_rate=learning_rate, num_data=num_data)


# One object for equal settings, so that a second run reuses the compiled program of the first.
_adam_direction = functools.cache(optax.scale_by_adam)


class HeavyBall(eqx.Module):
    """v ← g + momentum·v, as in ``optax.trace``, but with a traced momentum.

    Chains with different momenta can therefore run in one program.
    """

    momentum: Number

    def __call__(self, updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        """The new v, as both the update and the state."""
        new = jax.tree.map(
            lambda g, v: g + jnp.asarray(self.momentum).astype(v.dtype) * v, updates, state
        )
        return new, new


def _zero_velocity(params: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, params)


def _momentum_direction(momentum: Number) -> optax.GradientTransformation:
    return optax.GradientTransformation(_zero_velocity, HeavyBall(momentum))


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
