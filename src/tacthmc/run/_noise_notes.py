r"""What the noise of mini-batches does that the frictions of a sampler do not balance.

The noise of the force is measured at a few draws. A coordinate with the noise v, in units of the
shape of the friction, that shares a friction with coordinates of the mean noise v̄ has by theory the
temperature

.. math:: \frac{c + \eta v/2}{c + \eta\bar v/2}

where v̄ = 0 for a constant friction, and its width is wrong by the root of that. R-hat and the
kinetic temperature do not show it. Batches of a reshuffled epoch make widths too small, by more
the larger the share of their noise in the friction is.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import spread
from tacthmc.dynamics import Langevin, NoThermostat, ScalarThermostat
from tacthmc.dynamics._thermostat import LeafThermostat
from tacthmc.potentials import StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.potentials._batches import Epochs
from tacthmc.run._draw_noise import NOISE_GRADIENTS

if TYPE_CHECKING:
    from tacthmc.run._result import Run

SIGMAS = 4.0
"""The number of standard errors of a variance by which it has to be too large or too small."""
MAX_EXCESS = 0.1
"""The relative error of a temperature from which there is a warning."""
MAX_EPOCH_SHARE = 0.1
"""The share of the noise of reshuffled epochs in a friction from which there is a warning."""


class Heat(NamedTuple):
    """Sources of heat in a step for each coordinate, in one vector each."""

    injected: np.ndarray
    """What the sampler injects."""
    noise: np.ndarray
    """ηv/2, from the noise of the force."""
    friction: np.ndarray | None
    """The friction, c + ηv̄/2; None where that is not known."""
    advice: str
    """What to do if that is wrong."""


def noise_notes(run: "Run") -> list[str]:
    """Warnings if noise that is not balanced makes widths wrong."""
    return list(run.measured("noise of batches", lambda: _unbalanced(run)) or [])


def _unbalanced(run: "Run") -> list[str]:
    heat = _measured(run)
    if heat is None:
        return []
    notes = []
    share = float(np.max(heat.noise / np.maximum(heat.injected + heat.noise, 1e-30)))
    if _has_epochs(run) and share > MAX_EPOCH_SHARE:
        notes.append(
            "! batches of reshuffled epochs are not independent, and their noise makes"
            f" {share:.0%} of a friction: draws may be too narrow. Draw batches with"
            ' batches="replacement", or take a smaller step_size'
        )
    if heat.friction is None:
        return notes
    error = SIGMAS * float(np.sqrt(2 / NOISE_GRADIENTS))
    low = (heat.injected + heat.noise * (1 - error)) / heat.friction
    high = (heat.injected + heat.noise * (1 + error)) / heat.friction
    if low.max() <= 1 + MAX_EXCESS and high.min() >= 1 - MAX_EXCESS:
        return notes
    each = (heat.injected + heat.noise) / heat.friction
    notes.append(
        "! coordinates with unequal noise of the gradient share a friction: by theory they have"
        f" {each.min():.3g} to {each.max():.3g} times the temperature, and widths as the root of"
        f" that. {heat.advice}"
    )
    return notes


def _has_epochs(run: "Run") -> bool:
    batches = getattr(innermost(run.potential), "batches", None)
    return isinstance(getattr(batches, "order", None), Epochs)


def _advice(thermostat: Any) -> str:
    if isinstance(thermostat, NoThermostat):
        return "Give noise_estimate (tacthmc.potentials.measure_noise), or use sgnht"
    return "Leave out thermostat, take DiagonalThermostat(), or take a smaller step_size"


def _measured(run: "Run") -> Heat | None:
    """The heat of the noise at a few draws, or None where there is none or it is not known."""
    sampler = run.sampler if run.program_is_known else None
    if not isinstance(sampler, Langevin) or not _is_measurable(run):
        return None
    with jax.enable_x64(run.x64):
        draws, force = run.draw_noise.draws, run.draw_noise.force
        now = sampler.rates(jnp.zeros((), int), draws[0])
        g, estimate = sampler.thermostat.weights(now.mass), sampler.noise_estimate
        known = spread(0.0 if estimate is None else estimate, draws[0], "noise_estimate")
    eta, c = float(now.theta.eta), float(now.theta.c)

    def friction_of(variance: Any, m: Any, g: Any) -> np.ndarray:
        return np.asarray(0.5 * eta * np.asarray(variance, float) / np.asarray(m * g, float))

    noise = jax.tree.map(friction_of, force, now.mass, g)
    # An estimate of the noise takes the place of injected noise, as far as there is any.
    replaced = jax.tree.map(
        lambda v, n, m, g: np.minimum(friction_of(v, m, g), c) + 0 * n, known, noise, now.mass, g
    )
    if not np.any(_vector(noise)):
        return None
    balanced = _balanced(sampler.thermostat, noise)
    friction = None if balanced is None else c + _vector(balanced)
    return Heat(c - _vector(replaced), _vector(noise), friction, _advice(sampler.thermostat))


def _is_measurable(run: "Run") -> bool:
    """Whether noise can be measured, and all chains have the same numbers."""
    alone = all(s is run.sampler for s in run.samplers)
    streams = isinstance(innermost(run.potential), StreamedPosterior)
    return alone and not streams and run.num_draws > 0


def _balanced(thermostat: Any, noise: Any) -> Any:
    """ηv̄/2 of the friction of each coordinate."""
    if isinstance(thermostat, NoThermostat):
        return jax.tree.map(np.zeros_like, noise)
    if isinstance(thermostat, ScalarThermostat):
        mean = _vector(noise).mean()
        return jax.tree.map(lambda leaf: np.full_like(leaf, mean), noise)
    if isinstance(thermostat, LeafThermostat):
        return jax.tree.map(
            lambda leaf: (
                np.full_like(leaf, leaf.mean()) if thermostat.is_shared(leaf.size) else leaf
            ),
            noise,
        )
    return None


def _vector(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(tree)])
