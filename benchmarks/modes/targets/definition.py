"""What a target of ``modes`` is: a potential, a start, what rivals may know, and the truth."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.potentials import Posterior, Potential


class Truth(NamedTuple):
    """Functions of a draw whose means under the target are known."""

    kind: Literal["modes", "signs", "means"]
    """"modes": indicators of cells that cover the space. "signs": indicators that do not exclude
    each other. "means": numbers, of which the worst one counts."""
    features: Callable[[np.ndarray], np.ndarray]
    """From draws (draw, coordinate) to features (draw, feature)."""
    mean: np.ndarray
    variance: np.ndarray
    """The variances of the features under the target: what one independent draw is worth."""

    @property
    def has_modes(self) -> bool:
        """Whether features tell modes apart."""
        return self.kind != "means"


class Gaussian(eqx.Module):
    """The reference N(mean, sd²·I), normalized."""

    mean: Any
    sd: Any

    def draw(self, key: Any) -> Any:
        """A draw."""
        return self.mean + self.sd * jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def log_density(self, x: Any) -> Any:
        """The log density."""
        away = (x - self.mean) / self.sd
        constant = jnp.log(self.sd) + 0.5 * np.log(2 * np.pi).astype(np.float32)
        return -0.5 * jnp.sum(away**2) - self.mean.shape[0] * constant


def gaussian(mean: Any, sd: float, dimension: int) -> Gaussian:
    """N(mean, sd²·I); a number stands for all coordinates."""
    center = jnp.broadcast_to(jnp.asarray(mean, jnp.float32), (dimension,))
    return Gaussian(center, jnp.asarray(sd, jnp.float32))


class Target(NamedTuple):
    """A distribution exp(−U)/Z over vectors, and what is known of it."""

    name: str
    about: str
    potential: Potential
    """What a sampler sees: exact, with added noise, or through mini-batches."""
    start: Any
    """One position, as somebody gives it who does not know the answer."""
    reference: Any
    """``draw(key)`` and ``log_density(x)``: the prior, or a Gaussian wider than all modes."""
    scale: float
    """The standard deviation in the narrowest direction of a mode. Rivals whose step sizes are set
    by hand have them in units of it; ``tact()`` does not see it."""
    truth: Truth
    kind: Literal["exact", "noisy", "batches"] = "exact"
    full_cost: float = 1.0
    """The cost of a full-data gradient in gradients of this target: N/n with mini-batches."""
    log_z: float | None = None
    """log Z = log ∫exp(−U), where it is known."""
    exact: Potential | None = None
    """What judges see instead of the potential, where that has no exact energy."""

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return int(self.start.shape[0])

    @property
    def num_data(self) -> int:
        """The number of examples behind a full-data gradient; 1 without mini-batches."""
        return self.potential.num_data if isinstance(self.potential, Posterior) else 1


def one_hot(label: Callable[[np.ndarray], np.ndarray], count: int) -> Callable[..., np.ndarray]:
    """Indicators from a function that numbers the mode of each draw.

    >>> one_hot(lambda x: (x[:, 0] > 0).astype(int), 2)(np.array([[-1.0], [2.0]])).tolist()
    [[True, False], [False, True]]
    """

    def features(draws: np.ndarray) -> np.ndarray:
        return label(draws)[:, None] == np.arange(count)[None, :]

    return features


def modes(label: Callable[[np.ndarray], np.ndarray], shares: Any) -> Truth:
    """The truth about modes: each draw is in exactly one."""
    p = np.asarray(shares, float)
    return Truth("modes", one_hot(label, len(p)), p, p * (1 - p))


def signs(features: Callable[[np.ndarray], np.ndarray], shares: Any) -> Truth:
    """The truth about indicators that do not exclude each other."""
    p = np.asarray(shares, float)
    return Truth("signs", features, p, p * (1 - p))


def means(features: Callable[[np.ndarray], np.ndarray], mean: Any, variance: Any) -> Truth:
    """The truth about means."""
    return Truth("means", features, np.asarray(mean, float), np.asarray(variance, float))


def nearest(centers: np.ndarray, block: int = 65_536) -> Callable[[np.ndarray], np.ndarray]:
    """The number of the nearest center.

    >>> nearest(np.array([[-1.0], [1.0]]))(np.array([[3.0], [-0.1]])).tolist()
    [1, 0]
    """
    centers = np.asarray(centers, float)
    half = 0.5 * np.sum(centers**2, axis=1)

    def label(draws: np.ndarray) -> np.ndarray:
        # In blocks, because all distances at once could fill the memory.
        blocks = np.array_split(draws, max(1, len(draws) // block))
        return np.concatenate([np.argmax(x @ centers.T - half, axis=1) for x in blocks])

    return label
