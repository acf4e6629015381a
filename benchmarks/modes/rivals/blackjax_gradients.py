"""BlackJAX's SGNHT and SGHMC from many starts, in coordinates in which the narrowest mode has sd 1.

Its users scale their parameters like that by hand, since a step size is one number there. Chains
begin with Adam from draws of the reference, and its gradients count.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.modes.judge import Sample
from benchmarks.modes.rivals.rival import Rival, needs_noise, thinning
from benchmarks.modes.targets import Target
from tacthmc.potentials import measure_noise

CHAINS, BURN = 16, 0.2
"""The number of chains, and the share of each that is not kept."""
DESCENT, REACH = 0.1, 5.0
"""The share of the budget that Adam gets, and how far it may go in sds of the reference."""
LEAPFROGS = 10
"""The number of gradients, of one batch, between fresh momenta of SGHMC."""


class Setting(NamedTuple):
    """Numbers of either sampler."""

    step_size: float
    damping: float
    """The friction times the step size."""
    knows_noise: bool = False
    """Whether the variance of the gradients, measured beforehand, is taken off what is injected."""

    @property
    def friction(self) -> float:
        """The friction α."""
        return self.damping / self.step_size

    def removed(self, variance: float) -> float:
        """β: the variance of the gradients, but not more than nearly all of what is injected."""
        return min(variance, 1.9 * self.friction / self.step_size) if self.knows_noise else 0.0


STEPS = (0.3, 0.1, 0.03, 0.01, 0.003)
NOSE_HOOVER_SETTINGS = {
    f"step {h:g}, damping {c:g}": Setting(h, c) for h in STEPS for c in (0.03, 0.2)
}
HAMILTONIAN_SETTINGS = {
    f"step {h:g}, noise {'measured' if known else 'ignored'}": Setting(h, 0.2, known)
    for h in STEPS
    for known in (False, True)
}


def estimated(target: Target) -> Callable[[Any, Any], Any]:
    """The gradient of the log density in z = θ/scale, from the batch that a key draws."""

    def gradient(z: Any, key: Any) -> Any:
        x = target.scale * z
        batch = target.potential.batch(key, x)
        return -target.scale * target.potential.value_and_grad(x, batch)[1]

    return gradient


def descended(target: Target, keys: Any, steps: int) -> Any:
    """Where Adam on mini-batches takes draws of the reference, in z."""
    places = jax.vmap(target.reference.draw)(keys) / target.scale
    reach = REACH * float(jnp.std(places))
    rates = optax.cosine_decay_schedule(2 * reach / steps, steps)
    adam, gradient = optax.adam(rates), estimated(target)

    @jax.jit
    @jax.vmap
    def one(z: Any, key: Any) -> Any:
        def step(i: Any, carry: Any) -> Any:
            z, state = carry
            slope = gradient(z, jax.random.fold_in(key, i))
            updates, state = adam.update(-slope, state)
            return optax.apply_updates(z, updates), state

        return jax.lax.fori_loop(0, steps, step, (z, adam.init(z)))[0]

    return one(places, keys)


def noise_variance(target: Target, z: Any) -> float:
    """The variance of one coordinate of the gradient in z, as a mean over some places."""
    found = [
        measure_noise(jax.random.key(2), target.potential, target.scale * one).mean_force
        for one in z[:4]
    ]
    return target.scale**2 * float(np.mean(found))


def nose_hoover(target: Target, setting: Setting, variance: float) -> tuple[Any, Any, int]:
    """SGNHT: what begins a chain, what makes a step, and the gradients of a step."""
    import blackjax

    del variance
    kernel = blackjax.sgnht(estimated(target), setting.friction)

    def step(key: Any, state: Any) -> Any:
        batch_key, step_key = jax.random.split(key)
        return kernel.step(step_key, state, batch_key, setting.step_size)

    def begin(z: Any, key: Any) -> Any:
        state = kernel.init(z, key)
        return state._replace(xi=jnp.asarray(state.xi, z.dtype))

    return begin, step, 1


def hamiltonian(target: Target, setting: Setting, variance: float) -> tuple[Any, Any, int]:
    """SGHMC, likewise."""
    import blackjax

    beta = setting.removed(variance)
    kernel = blackjax.sghmc(estimated(target), LEAPFROGS, setting.friction, beta)

    def step(key: Any, z: Any) -> Any:
        batch_key, step_key = jax.random.split(key)
        return kernel.step(step_key, z, batch_key, setting.step_size)

    return lambda z, key: z, step, LEAPFROGS


def run(
    make: Callable[[Target, Setting, float], tuple[Any, Any, int]],
    target: Target,
    setting: Setting,
    budget: float,
    seeds: Sequence[int],
) -> list[Sample]:
    """The chains of all seeds side by side."""
    keys = jnp.concatenate([jax.random.split(jax.random.key(seed), CHAINS) for seed in seeds])
    descent = max(1, int(DESCENT * budget / CHAINS))
    places = descended(target, keys, descent)
    begin, step, gradients = make(target, setting, noise_variance(target, places))
    steps = max(1, int((budget / CHAINS - descent) / gradients))
    every = thinning(target, steps * CHAINS)
    rows = max(2, steps // every)

    @jax.jit
    @jax.vmap
    def chain(place: Any, key: Any) -> Any:
        now, rest = jax.random.split(key)

        def one(state: Any, key: Any) -> Any:
            def again(i: Any, state: Any) -> Any:
                return step(jax.random.fold_in(key, i), state)

            state = jax.lax.fori_loop(0, every, again, state)
            return state, target.scale * getattr(state, "position", state)

        return jax.lax.scan(one, begin(place, now), jax.random.split(rest, rows))[1]

    draws = np.asarray(chain(places, keys))[:, int(BURN * rows) :]
    cost = float((descent + rows * every * gradients) * CHAINS)
    return [
        Sample(list(some), cost) for some in draws.reshape(len(seeds), CHAINS, *draws.shape[1:])
    ]


SGNHT = Rival(
    "BlackJAX SGNHT",
    "BlackJAX's `sgnht`, 16 chains, begun with Adam from draws of the reference",
    NOSE_HOOVER_SETTINGS,
    partial(run, nose_hoover),
    needs_noise,
)
SGHMC = Rival(
    "BlackJAX SGHMC",
    "BlackJAX's `sghmc`, 16 chains, begun with Adam from draws of the reference",
    HAMILTONIAN_SETTINGS,
    partial(run, hamiltonian),
    needs_noise,
)
