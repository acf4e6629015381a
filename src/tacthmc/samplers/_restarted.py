r"""Any sampler with periodic restarts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from tacthmc import _checks as checks
from tacthmc._positions import checked
from tacthmc._typing import Batch, Number, Position, PRNGKey
from tacthmc.dynamics import Info, Langevin, Sampler
from tacthmc.potentials import Potential


class RestartedState(eqx.Module):
    """The state of a restarted sampler."""

    inner: Any
    """The state of the inner sampler, whose step count begins at 0 after each restart."""
    step: Int[Array, ""]
    """The number of steps made since the first start."""

    @property
    def position(self) -> Any:
        """The position of the inner sampler."""
        return self.inner.position

    @property
    def model(self) -> Any:
        """The model state of the inner sampler."""
        return self.inner.model


class RestartedNoise(NamedTuple):
    """The random numbers of the inner sampler, and a key for a restart."""

    inner: Any
    key: PRNGKey


class Restarted(Sampler):
    """A sampler with restarts, as made by :func:`restarted`."""

    sampler: Sampler
    start: Callable[[PRNGKey], Any]
    every: Number
    burn: Number

    @property
    def gradients_per_step(self) -> int:
        """That of the inner sampler."""
        return self.sampler.gradients_per_step

    def init(self, key: PRNGKey, position: Any, model: Any = None) -> RestartedState:
        """The inner sampler's first state. The first restart comes after ``every`` steps."""
        position = checked(position)
        fresh = jax.eval_shape(self.start, key)
        shapes = (jax.tree.map(jnp.shape, fresh), jax.tree.map(jnp.shape, position))
        if jax.tree.structure(fresh) != jax.tree.structure(position) or shapes[0] != shapes[1]:
            raise ValueError(
                "start must return a position like init, with leaves of shape"
                f" {shapes[1]}; it returns {shapes[0]}"
            )
        return RestartedState(self.sampler.init(key, position, model), jnp.zeros((), int))

    def position(self, state: RestartedState) -> Position:
        return self.sampler.position(state.inner)

    def noise(self, key: PRNGKey, position: Position) -> RestartedNoise:
        return RestartedNoise(self.sampler.noise(key, position), key)

    def advance(
        self, noise: RestartedNoise, state: RestartedState, potential: Potential, batch: Batch
    ) -> tuple[RestartedState, Info]:
        """A restart if one is due, then a step."""
        every, burn = (jnp.asarray(n).astype(state.step.dtype) for n in (self.every, self.burn))
        since = state.step % every
        inner = jax.lax.cond(
            (since == 0) & (state.step > 0),
            lambda: self._afresh(noise.key, state, potential),
            lambda: state.inner,
        )
        inner, info = self.sampler.advance(noise.inner, inner, potential, batch)
        past_burn = since >= burn
        info = info._replace(at_unit_temperature=info.at_unit_temperature & past_burn)
        if info.is_draw is not None:
            info = info._replace(is_draw=info.is_draw & past_burn)
        return RestartedState(inner, state.step + 1), info

    def _afresh(self, key: PRNGKey, state: RestartedState, potential: Potential) -> Any:
        # A derived key, because the random numbers of the step come from the key itself.
        start_key, state_key = jax.random.split(jax.random.fold_in(key, 1))
        position = jax.tree.map(
            lambda new, old: jnp.asarray(new).astype(old.dtype),
            self.start(start_key),
            state.position,
        )
        return self.sampler.init(state_key, position, potential.init_model())


def restarted(
    sampler: Sampler, every: int, start: Callable[[PRNGKey], Any], burn: int | None = None
) -> Restarted:
    r"""Any sampler with restarts: new position, momenta and thermostats every ``every`` steps.

    .. math::
        \theta_{jE} \leftarrow \mathrm{start}(\mathrm{key}_j), \quad j = 1, 2, \ldots, \qquad
        \text{with steps of the sampler in between}

    Kept draws follow the mean of the laws of the sampler after ``burn`` + 1, …, ``every`` steps
    from the law of ``start``. **That is not the posterior** where modes are separated. Between
    restarts the chain stays in the mode in whose basin of attraction it began, so the weights of
    modes are those of the basins under ``start``. Within a mode the draws approach the invariant
    density of the sampler as ``burn`` becomes long compared with its mixing time there.

    ``run.plateau_share`` is the share of steps past the burn-in. Others are
    never kept, and ``Keep(temperatures="all")`` is an error.

    Args:
        sampler: a sampler without a tempering variable (a restart would lose its bias).
        every: E, the number of steps between restarts.
        start: a function of a key that draws a position like ``init``. The first restart uses it;
            the chain begins at ``init``.
        burn: the number of steps after each restart that are not kept; by default half of
            ``every``.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 8.0 * jnp.sum((x**2 - 1.0) ** 2))
    >>> sampler = restarted(tacthmc.sgnht(0.01), 500, lambda key: jax.random.normal(key, (1,)))
    >>> run = tacthmc.sample(jax.random.key(0), sampler, target, init=jnp.ones(1),
    ...                      num_steps=10_000, num_chains=4)
    >>> bool((run.draws > 0.5).any() and (run.draws < -0.5).any())     # both wells
    True
    """
    checks.instance("sampler", sampler, Sampler, "one of the package's samplers")
    if isinstance(sampler, Langevin) and sampler.tempering is not None:
        raise ValueError(
            "sampler must be one without a tempering variable, such as sgnht: each restart would"
            " forget the bias that ξ has learned; got one with a coupling"
        )
    checks.whole("every", every, 1)
    burn = every // 2 if burn is None else burn
    checks.whole("burn", burn, 0)
    if burn >= every:
        raise ValueError(
            f"burn must be less than every = {every}, or nothing would be kept; got {burn}"
        )
    if not callable(start):
        raise TypeError(f"start must be a function of a key that draws a position; got {start!r}")
    return Restarted(sampler=sampler, start=start, every=every, burn=burn)
