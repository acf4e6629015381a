r"""Stochastic gradient Langevin dynamics, plain and preconditioned."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from tacthmc import _checks as checks
from tacthmc._positions import checked, rate_at, scalar_dtype
from tacthmc._typing import Batch, Number, Position, PRNGKey, Rate
from tacthmc.compiler._random import normals
from tacthmc.dynamics import Info, Sampler
from tacthmc.potentials import Potential, forces


class SGLDState(eqx.Module):
    """The state of a chain of SGLD."""

    position: Position
    squares: Position | None
    """The running mean of squared gradients, or None without a preconditioner."""
    step: Int[Array, ""]
    """The number of steps made."""
    model: Any = None


class SGLD(Sampler):
    """Overdamped Langevin dynamics, as made by :func:`sgld` and :func:`psgld`."""

    step_size: Rate
    decay: Number | None
    floor: Number
    adapt_steps: int | None = eqx.field(static=True)

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> SGLDState:
        """The first state, at ``position``."""
        position = checked(position)
        squares = None if self.decay is None else jax.tree.map(jnp.zeros_like, position)
        return SGLDState(position, squares, jnp.zeros((), int), model)

    def noise(self, key: PRNGKey, position: Position) -> Position:
        return normals(key, position)[0]

    def advance(
        self, noise: Position, state: SGLDState, potential: Potential, batch: Batch
    ) -> tuple[SGLDState, Info]:
        """θ ← θ − η·G·∇Ũ + N(0, 2η·G), with G = 1 without a preconditioner."""
        dtype = scalar_dtype(state.position)
        size = rate_at(self.step_size, state.step, dtype)
        found = forces(potential, state.position, batch, state.model)
        energy, gradient, model = found.energy, found.gradient, found.model
        squares = self._squares(state, gradient)

        def moved(x: Array, g: Array, n: Array, scale: Array) -> Array:
            step = size.astype(x.dtype) * scale
            return x - step * g + jnp.sqrt(2 * step) * n

        scales = self._scales(gradient, squares, state.step)
        position = jax.tree.map(moved, state.position, gradient, noise, scales)
        step = state.step + 1
        info = Info(energy.astype(dtype), at_unit_temperature=jnp.asarray(True))
        return SGLDState(position, squares, step, model), info

    def _squares(self, state: SGLDState, gradient: Position) -> Position | None:
        if self.decay is None or state.squares is None:
            return None
        decay = self.decay

        def mean(v: Array, g: Array) -> Array:
            keep = jnp.asarray(decay).astype(v.dtype)
            new = keep * v + (1 - keep) * g**2
            if self.adapt_steps is None:
                return new
            return jnp.where(state.step < self.adapt_steps, new, v)

        return jax.tree.map(mean, state.squares, gradient)

    def _scales(self, gradient: Position, squares: Position | None, step: Array) -> Position:
        if self.decay is None or squares is None:
            return jax.tree.map(jnp.ones_like, gradient)
        decay = self.decay

        def scale(v: Array) -> Array:
            # The mean starts at zero, so it is divided by its total weight, as in Adam.
            made = step + 1 if self.adapt_steps is None else jnp.minimum(step + 1, self.adapt_steps)
            weight = 1 - jnp.asarray(decay).astype(v.dtype) ** made.astype(v.dtype)
            return 1 / (jnp.sqrt(v / weight) + jnp.asarray(self.floor).astype(v.dtype))

        return jax.tree.map(scale, squares)


def sgld(step_size: Rate) -> SGLD:
    r"""SGLD (Welling and Teh 2011): the overdamped limit.

    .. math:: \theta \leftarrow \theta - \eta\nabla\tilde U + N(0, 2\eta)

    It leaves exp(−U) invariant as η → 0. Mini-batch noise of variance v adds η²v to the injected
    2η, which is negligible for small η. It is Algorithm 1 without coupling and thermostat at
    friction c = 1, where no momentum is left.

    Reference: M. Welling, Y. W. Teh. *Bayesian learning via stochastic gradient Langevin
    dynamics.* ICML 2011.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), sgld(0.02), target, init=jnp.zeros(2),
    ...                      num_steps=20_000, num_chains=4)
    >>> bool(abs(run.draws.std() - 1.0) < 0.2)
    True
    """
    checks.positive("step_size", step_size)
    return SGLD(step_size=step_size, decay=None, floor=0.0, adapt_steps=None)


def psgld(
    step_size: Rate,
    *,
    decay: Number = 0.99,
    floor: Number = 1e-5,
    adapt_steps: int | None = 1000,
) -> SGLD:
    r"""Preconditioned SGLD (Li et al. 2016) with the RMSprop preconditioner.

    .. math::
        V \leftarrow \alpha V + (1-\alpha)(\nabla\tilde U)^2, \quad
        G = \frac{1}{\sqrt{V} + \epsilon}, \quad
        \theta \leftarrow \theta - \eta G\nabla\tilde U + N(0, 2\eta G)

    It leaves exp(−U) invariant as η → 0 if G is constant. A G that keeps changing with θ requires a
    term Γ = ∂G/∂θ, which the published algorithm drops at the price of a bias. Here G stops
    adapting after ``adapt_steps`` steps, unless that is None; the warm-up should be at least that
    long. (V is divided by 1 − αᵏ, so that the first steps are not too long.) The step divides the
    gradient by its size √V, so η has the units of θ, not of θ².

    Reference: C. Li, C. Chen, D. Carlson, L. Carin. *Preconditioned stochastic gradient
    Langevin dynamics for deep neural networks.* AAAI 2016.

    >>> psgld(0.01).adapt_steps
    1000
    """
    checks.positive("step_size", step_size)
    checks.within("decay", decay, 0.0, 1.0 - 1e-6)
    checks.positive("floor", floor)
    if adapt_steps is not None:
        checks.whole("adapt_steps", adapt_steps, 1)
    return SGLD(step_size=step_size, decay=decay, floor=floor, adapt_steps=adapt_steps)
