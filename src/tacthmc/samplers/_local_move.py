"""What moves each replica between swaps: the interface of the two local moves."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, Int

from tacthmc._typing import Batch, Position, PRNGKey, Scalar
from tacthmc.potentials import Potential


class Energies(NamedTuple):
    """The energies at the places that swaps exchange."""

    fixed: Float[Array, "*k"]
    """U0 of each rung."""
    tempered: Float[Array, "*k"]
    """U1 of each rung."""


class Report(NamedTuple):
    """What one step says about all replicas. Fields that a move does not have are None."""

    accepted: Float[Array, " k"] | None = None
    """The probability with which the move of each rung was accepted."""
    kinetic_temperature: Scalar | None = None
    thermostat: Scalar | None = None


class LocalMove(eqx.Module):
    """Moves the replica on each rung, at the inverse temperature of that rung.

    Its numbers belong to rungs, and so does all that it remembers beside θ. A swap exchanges places
    θ, with what was computed there.
    """

    @property
    @abstractmethod
    def gradients(self) -> int:
        """The number of gradients that a step takes for each replica."""

    @property
    @abstractmethod
    def extra_normals(self) -> int:
        """The number of standard normals that a step takes for each replica besides those of θ."""

    @abstractmethod
    def check(self, potential: Potential) -> None:
        """Raise an error for a potential that this move is not for."""

    @abstractmethod
    def init(self, key: PRNGKey, positions: Position, model: Any) -> Any:
        """Replicas at positions with a leading axis of rungs."""

    @abstractmethod
    def moved(
        self,
        normal: tuple[Position, Float[Array, "k e"]],
        replicas: Any,
        potential: Potential,
        lam: Float[Array, " k"],
        batch: Batch,
    ) -> tuple[Any, Energies, Report]:
        """One step of these replicas, which are the first ones of the ladder."""

    @abstractmethod
    def placed(
        self, replica: Any, position: Position, potential: Potential, batch: Batch
    ) -> tuple[Any, Energies]:
        """One replica at rest at a position."""

    @abstractmethod
    def exchanged(self, replicas: Any, source: Int[Array, " k"]) -> Any:
        """All replicas, where rung k gets the place of the replica on rung ``source[k]``."""

    @abstractmethod
    def position(self, replica: Any) -> Position:
        """θ of one replica."""
