"""The numbers of the local moves of replicas, for exact and for noisy energies."""

from abc import ABC, abstractmethod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tacthmc._typing import Number
from tacthmc.dynamics import Langevin
from tacthmc.samplers._local_move import LocalMove
from tacthmc.samplers._metropolis import Metropolis
from tacthmc.samplers._noisy_move import NoisyMove
from tacthmc.samplers._replica_exchange import SWAP_EVERY
from tacthmc.tuning._replica_base import Shapes
from tacthmc.tuning._replica_rounds import Round, better_step_sizes, on_ladder

MAX_LEAPFROG = 10
"""The largest number of leapfrog steps that tuning chooses."""


class LocalMoves(ABC):
    """Makes the local moves of a ladder, and learns from rounds."""

    swap_every: int
    """The number of steps between swaps."""

    @abstractmethod
    def at(self, ladder: Float[np.ndarray, " k"]) -> LocalMove:
        """The local moves for a ladder."""

    @abstractmethod
    def energy_noise(self, rungs: int) -> tuple[Number, ...] | None:
        """The variance of the noise of energies, as a sampler has it."""

    @abstractmethod
    def scales(self, ladder: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k d *d"]:
        """A factor of the covariance within a mode on each rung."""

    @abstractmethod
    def learn(self, found: Round) -> None:
        """Change numbers by what a round measured."""

    @abstractmethod
    def move_to(self, old: Float[np.ndarray, " k"], new: Float[np.ndarray, " n"]) -> None:
        """Use another ladder."""

    @abstractmethod
    def use_shapes(self, shapes: Shapes) -> None:
        """Use other shapes of the path."""

    @abstractmethod
    def lengthen(self) -> None:
        """Choose the number of leapfrog steps, if there are any."""

    @abstractmethod
    def choices(self, found: Round) -> list[tuple[str, Any, str]]:
        """Names, values and reasons of the numbers, after the last round."""


class ExactMoves(LocalMoves):
    """Trajectories with a Metropolis test."""

    swap_every = 1

    def __init__(self, shapes: Shapes, rungs: int, num_leapfrog: int | None):
        """Begin with steps of one standard deviation within a mode."""
        self.shapes, self.given = shapes, num_leapfrog
        self.num_leapfrog = 1 if num_leapfrog is None else num_leapfrog
        self.step_sizes = np.ones(rungs)
        """η of each rung, in units of the squared scales."""

    def at(self, ladder: Float[np.ndarray, " k"]) -> Metropolis:
        sizes, scales = (jnp.asarray(x, float) for x in (self.step_sizes, self.scales(ladder)))
        return Metropolis(sizes, scales, self.num_leapfrog)

    def energy_noise(self, rungs: int) -> tuple[Number, ...] | None:
        return (0.0,) * (rungs - 1)

    def scales(self, ladder: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k d *d"]:
        return self.shapes.scales(ladder)

    def learn(self, found: Round) -> None:
        self.step_sizes = better_step_sizes(self.step_sizes, found.accepted)
        if found.is_drawn:
            self.step_sizes[-1] = self.step_sizes[-2]

    def move_to(self, old: Float[np.ndarray, " k"], new: Float[np.ndarray, " n"]) -> None:
        self.step_sizes = on_ladder(self.step_sizes, old, new)

    def use_shapes(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def lengthen(self) -> None:
        """Make trajectories about one standard deviation long, if steps have to be short."""
        if self.given is None:
            steps = 1 / np.sqrt(np.median(self.step_sizes))
            self.num_leapfrog = int(np.clip(np.rint(steps), 1, MAX_LEAPFROG))

    def choices(self, found: Round) -> list[tuple[str, Any, str]]:
        moved = found.accepted[: len(found.accepted) - found.is_drawn]
        why = (
            f"steps of {np.sqrt(self.step_sizes.min()):.2g} to {np.sqrt(self.step_sizes.max()):.2g}"
        )
        steps = f"{why} standard deviations within a mode; {moved.min():.0%} to {moved.max():.0%}"
        return [
            ("num_leapfrog", self.num_leapfrog, "about one standard deviation within a mode"),
            ("step_size", self.step_sizes, f"{steps} of trajectories are accepted"),
        ]


class NoisyMoves(LocalMoves):
    """Langevin dynamics with the numbers of the target, and longer steps where it is wider."""

    swap_every = SWAP_EVERY

    def __init__(self, dynamics: Langevin, step_size: float, shapes: Shapes | None):
        """Use the dynamics of the target with its step size."""
        self.dynamics, self.step_size, self.shapes = dynamics, step_size, shapes
        self.step_sizes = np.zeros(0)

    def at(self, ladder: Float[np.ndarray, " k"]) -> NoisyMove:
        self.step_sizes = self.step_size * self._widths(ladder)
        return NoisyMove(self.dynamics, jnp.asarray(self.step_sizes, float))

    def _widths(self, ladder: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The smallest variance within a mode on each rung, relative to that of the target."""
        if self.shapes is None:
            return np.ones(len(ladder))
        linear = self.dynamics.coordinates.linear
        scales = self.shapes.scales(np.append(1.0, ladder))
        if scales.ndim == 2:
            smallest = scales.min(axis=1) ** 2
        else:
            inside = (
                np.ones(scales.shape[1]) if linear is None else np.asarray(linear.inverse_scale)
            )
            inside = np.diag(inside) if inside.ndim == 1 else inside
            smallest = np.linalg.svd(inside @ scales, compute_uv=False).min(axis=1) ** 2
        return np.maximum(smallest[1:] / smallest[0], 1.0)

    def energy_noise(self, rungs: int) -> tuple[Number, ...] | None:
        return None

    def scales(self, ladder: Float[np.ndarray, " k"]) -> Float[np.ndarray, "k d *d"]:
        assert self.shapes is not None
        return self.shapes.scales(ladder)

    def learn(self, found: Round) -> None:
        pass

    def move_to(self, old: Float[np.ndarray, " k"], new: Float[np.ndarray, " n"]) -> None:
        pass

    def use_shapes(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def lengthen(self) -> None:
        pass

    def choices(self, found: Round) -> list[tuple[str, Any, str]]:
        longest = self.step_sizes.max() / self.step_size
        return [("step_sizes", self.step_sizes, f"up to {longest:.3g} times that of the target")]
