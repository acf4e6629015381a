"""Schedules of the temperature for chains of the CNN: trips to a hotter posterior and back."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tacthmc.dynamics import Coupling, NoBias, ScheduledTempering

RATE, NOISE, INERTIA = 5.01e-3, 0.16, 562.0
"""SGNHT's step size per datum, injected noise and inertia, as a search on held-out images chose
them (``research/table-b.md``)."""
KNOTS = 4
"""Knots of λ in an epoch."""
NEVER = 10**9
"""A step that no run reaches."""


class Given(Coupling):
    """λ = 1 − |ξ|, so that ξ says what λ is."""

    plateau: Any = 1e-6
    wall: Any = 0.9999
    even: bool = eqx.field(static=True, default=False)

    def value_and_slope(self, xi: Any) -> tuple[Array, Array]:
        """λ and λ′."""
        flat = self.on_plateau(xi)
        return jnp.where(flat, 1.0, 1 - xi), jnp.where(flat, 0.0, -jnp.ones_like(xi))


class Along(ScheduledTempering):
    """ξ along a table of λ, linear between the knots."""

    lam: Float[Array, " k"]
    knot: Any

    def __init__(self, lam: np.ndarray, epoch: int):
        """``lam`` has λ at every ``KNOTS``-th part of an epoch of ``epoch`` steps."""
        super().__init__(NEVER, coupling=Given(), bias=NoBias())
        self.lam, self.knot = jnp.asarray(lam, float), epoch / KNOTS

    def at(self, step: Any, ahead: float = 0.0) -> tuple[Array, Array]:
        """ξ and dξ/dk."""
        where = (jnp.asarray(step).astype(float) + ahead) / self.knot
        left = jnp.clip(where.astype(int), 0, len(self.lam) - 2)
        rise = self.lam[left + 1] - self.lam[left]
        lam = self.lam[left] + rise * jnp.clip(where - left.astype(float), 0, 1)
        return 1 - lam, -rise / self.knot


class Trips(NamedTuple):
    """Trips to a temperature: the epochs at which they end, and how each of them goes."""

    hottest: float = 1.0
    ends: tuple[int, ...] = ()
    heated: float = 40
    """Epochs above unit temperature; λ falls for the share ``rise`` of them and then rises."""
    rise: float = 0.5
    held: float = 0
    """Epochs at the hottest temperature, before λ rises."""
    chill: float = 1.0
    """λ for the last ``chilled`` epochs of a trip, below unit temperature."""
    chilled: float = 0
    rate: float = RATE
    noise: float = NOISE
    always: float = 1.0
    """λ outside of trips."""
    thermostat: str = "scalar"
    """Which weights share a friction: all, those of a tensor, or none."""
    masses: float = 0
    """A tensor's mass is the noise of its force, relative to conv2's kernel, to this power."""

    def lam(self, epochs: int) -> np.ndarray:
        """λ at every ``KNOTS``-th part of an epoch."""
        at, knots = np.arange(epochs * KNOTS + 1) / KNOTS, [(0.0, self.always)]
        for end in self.ends:
            hot = end - self.chilled - self.heated
            cool, ramp = end - self.chilled, min(1.0, self.chilled / 4)
            top = hot + self.rise * (self.heated - self.held)
            knots += [
                (hot, self.always),
                (top, 1 / self.hottest),
                (top + self.held, 1 / self.hottest),
                (cool, self.always),
            ]
            if self.chilled:
                knots += [(cool + ramp, self.chill), (end - ramp, self.chill), (end, self.always)]
        # The sort is by time alone: of two knots at the same time λ goes on from the later one.
        where, values = zip(*sorted(knots, key=lambda knot: knot[0]), strict=True)
        lam = np.interp(at, where, values)
        if any(end <= epochs for end in self.ends) and lam.min() > 0.5 + 0.5 / self.hottest:
            raise AssertionError(f"λ is at least {lam.min():.3g}: the trips of {self} were lost")
        return np.where(np.abs(lam - 1) < 1e-4, 1.0, lam)

    def age(self, epochs: int) -> np.ndarray:
        """Epochs at rest since the last trip, at each epoch's end; −1 on a trip."""
        lam, age = self.lam(epochs), np.zeros(epochs)
        if not self.ends:
            return np.full(epochs, np.inf)
        for e in range(epochs):
            on_trip = np.any(lam[KNOTS * e + 1 : KNOTS * (e + 1)] != 1)
            past = [end for end in self.ends if end <= e]
            age[e] = -1 if on_trip else (e - max(past) if past else np.inf)
        return age


def every(period: int, epochs: int = 1000) -> tuple[int, ...]:
    """Ends of trips, one per period, with a rest after the last."""
    return tuple(range(period, epochs - period // 2, period))


SCHEDULES = {
    "sgnht": Trips(),
    "sgnht, c = 0.5": Trips(noise=0.5),
    "sgnht, T = 1/1.15": Trips(always=1.15),
    "sgnht, a quarter of the step": Trips(rate=RATE / 4, noise=0.1),
    "T = 2 at first, cooled for 160": Trips(2.0, (160,), 160, rise=0.0),
    "T = 1.5, three trips of 60 at first": Trips(1.5, (80, 140, 200), 60),
    "T = 2.5, three trips of 60 at first": Trips(2.5, (80, 140, 200), 60),
    "T = 1.5, 40 of 200": Trips(1.5, every(200)),
    "T = 2, 40 of 200": Trips(2.0, every(200)),
    "T = 3, 40 of 200": Trips(3.0, every(200)),
    "T = 1.5, 20 of 100": Trips(1.5, every(100), 20),
    "T = 1.25, 40 of 100": Trips(1.25, every(100), 40),
    "T = 2, 40 of 200, up at once": Trips(2.0, every(200), 40, rise=0.025),
    "T = 2, 20 of 200, then 20 of 1/1.5": Trips(2.0, every(200), 20, chill=1.5, chilled=20),
    "T = 3, 20 of 200, then 20 of 1/1.67": Trips(3.0, every(200), 20, chill=5 / 3, chilled=20),
    "T = 10, 4 of 200, then 16 of 1/1.5": Trips(10.0, every(200), 4, chill=1.5, chilled=16),
}
LONG = {
    f"T = {hottest}, {heated} of {period}": Trips(
        hottest, every(period, 3000), heated, rise=0.25, held=heated / 4
    )
    for hottest, heated, period in (
        (1000, 8, 320),
        (1000, 8, 500),
        (1000, 8, 1000),
        (30, 20, 320),
        (30, 20, 500),
    )
}
"""For 3,000 epochs; at T = 1,000 the likelihood counts for 50 images."""
FEW = {
    "T = 1.5, 20 of 250": Trips(1.5, every(250), 20),
    "T = 2, 20 of 250": Trips(2.0, every(250), 20),
    "T = 2, 10 of 250, then 10 of 1/1.5": Trips(2.0, every(250), 10, chill=1.5, chilled=10),
}
"""Three trips in 1,000 epochs."""
ALL = SCHEDULES | LONG | FEW
