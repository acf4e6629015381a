"""What is said when a chain stops being finite."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacthmc.run._interval import QUANTITIES, Health

_NAMES = {
    "energy": "the energy Ũ",
    "theta": "θ",
    "thermostat": "the thermostat z_θ",
    "xi": "ξ",
    "xi_thermostat": "ξ's thermostat z_ξ",
}

_HINTS = {
    "energy": "the potential returned NaN or infinity: look at the log density at extreme θ"
    " (a log of 0, an overflow), or take a smaller step_size so that θ does not get there",
    "theta": "θ's step is unstable: take a smaller step_size",
    "thermostat": "the thermostat overshot: take a smaller step_size or a larger inertia"
    " (gamma or steps)",
    "xi": "ξ's step is unstable: take a smaller step_size of the tempering, or a coupling with a lower"
    " hottest temperature",
    "xi_thermostat": "ξ's thermostat overshot: take a smaller step_size of the tempering, a larger"
    " inertia of its thermostat, or integrator=Splitting()",
}


@dataclass(frozen=True)
class Failure:
    """Which chain stopped being finite, at which step, and what went first."""

    chain: int
    step: int
    quantities: tuple[str, ...]
    kinetic_temperature: float | None

    @classmethod
    def from_code(
        cls, chain: int, step: int, what: int, kinetic_temperature: float | None
    ) -> "Failure":
        """Decode the bits that the compiled loop leaves."""
        names = tuple(name for bit, name in enumerate(QUANTITIES) if what >> bit & 1)
        return cls(chain, step, names, kinetic_temperature)

    def to_json(self) -> dict[str, Any]:
        """As a store keeps it."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Failure":
        """Read back."""
        return cls(**{**fields, "quantities": tuple(fields["quantities"])})

    @property
    def first(self) -> str:
        """The quantity that went first."""
        return self.quantities[0]

    def __str__(self) -> str:
        """One paragraph: where, what, and what to change."""
        gone = ", ".join(_NAMES[name] for name in self.quantities)
        heat = ""
        if self.kinetic_temperature is not None:
            heat = f" The last finite kinetic temperature was {self.kinetic_temperature:.3g}."
        return (
            f"chain {self.chain} stopped being finite at step {self.step}: {gone}.{heat}"
            f" What to try: {_HINTS[self.first]}."
        )


def failures_in(health: Health, columns: dict[str, np.ndarray]) -> list[Failure]:
    """The chains that are no longer finite, with the last finite kinetic temperature."""
    steps, what = np.asarray(health.step), np.asarray(health.what)
    found = []
    for chain in np.flatnonzero(steps):
        heat = columns.get("kinetic_temperature")
        last = None
        if heat is not None:
            seen = heat[chain][np.isfinite(heat[chain]) & columns["finite"][chain]]
            last = float(seen[-1]) if seen.size else None
        found.append(Failure.from_code(int(chain), int(steps[chain]), int(what[chain]), last))
    return found


class DivergedWarning(UserWarning):
    """A run stopped early because a chain was no longer finite; its draws up to there stay."""
