"""Failures: chains that are no longer finite, with advice for the user."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tacthmc.run._interval import QUANTITIES, Health

_NAMES = {
    "energy": "the energy Ũ",
    "theta": "θ",
    "thermostat": "the thermostat z_θ",
    "xi": "ξ",
    "xi_thermostat": "the thermostat z_ξ",
    "step": "the step count",
}

_HINTS = {
    "energy": "the potential returned NaN or infinity: look at the log density at extreme θ"
    " (a log of 0, an overflow), or take a smaller step_size so that θ does not get there",
    "theta": "the step of θ is unstable: take a smaller step_size",
    "thermostat": "the thermostat overshot: take a smaller step_size or a larger inertia"
    " (gamma or steps)",
    "xi": "the step of ξ is unstable: take a smaller step_size of the tempering, or a coupling with"
    " a lower hottest temperature",
    "xi_thermostat": "the thermostat of ξ overshot: take a smaller step_size of the tempering, a"
    " larger inertia of its thermostat, or integrator=Splitting()",
    "step": "integers of 32 bits count no further: begin with"
    " jax.config.update('jax_enable_x64', True)",
}


@dataclass(frozen=True)
class Failure:
    """A chain that stopped being finite: its number, the step, and the quantities."""

    chain: int
    step: int
    quantities: tuple[str, ...]
    kinetic_temperature: float | None

    @classmethod
    def from_code(
        cls, chain: int, step: int, what: int, kinetic_temperature: float | None
    ) -> "Failure":
        """Decode the bits in ``what`` that the compiled loop sets."""
        names = tuple(name for bit, name in enumerate(QUANTITIES) if what >> bit & 1)
        return cls(chain, step, names, kinetic_temperature)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Failure":
        """The failure that :meth:`to_json` wrote."""
        return cls(**{**fields, "quantities": tuple(fields["quantities"])})

    @property
    def first(self) -> str:
        """The first quantity, which is the likely cause."""
        return self.quantities[0]

    def __str__(self) -> str:
        """One paragraph: the chain, the step, the quantities, and advice."""
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
            known = heat[chain][np.isfinite(heat[chain]) & columns["finite"][chain]]
            last = float(known[-1]) if known.size else None
        found.append(Failure.from_code(int(chain), int(steps[chain]), int(what[chain]), last))
    return found


class DivergedWarning(UserWarning):
    """A warning that a chain is no longer finite. The earlier draws of the run are kept."""
