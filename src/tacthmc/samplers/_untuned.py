"""A sampler with numbers that tuning has yet to choose."""

from typing import Any

from tacthmc import _checks as checks
from tacthmc._typing import Number
from tacthmc.dynamics import ContinuousTempering, Coordinates, ModeJumps, Refresh, Thermostat

NAMES = ("step_size", "noise", "tempering", "thermostat", "coordinates", "refresh", "jumps")
"""The arguments of :func:`tacthmc.tact` that can be fixed."""


class Untuned:
    """:func:`tacthmc.tact` without numbers: given arguments are fixed, tuning chooses the others.

    ``tacthmc.tact()`` makes one, and ``tacthmc.tact(noise=0.2)`` makes one with c fixed.
    :func:`tacthmc.sample` tunes it before the run; :func:`tacthmc.tune` only tunes it. To fix the
    step size and have the rest chosen, call ``Untuned(step_size=…)``.

    The given parts of a :class:`tacthmc.dynamics.ContinuousTempering` are fixed, and the others are
    chosen. Both fields of :class:`tacthmc.dynamics.Coordinates` are fixed, except that "auto" lets
    tuning choose, and ``linear="diagonal"`` requests a scale for each coordinate, from standard
    deviations in a short run.

    >>> Untuned(step_size=0.01, noise=0.2)
    Untuned(step_size=0.01, noise=0.2)
    """

    def __init__(
        self,
        step_size: Number | None = None,
        noise: Number | None = None,
        tempering: ContinuousTempering | None = None,
        thermostat: Thermostat | None = None,
        coordinates: Coordinates | None = None,
        refresh: Refresh | None = None,
        jumps: ModeJumps | None = None,
    ):
        """Fix the given arguments, which are those of :func:`tacthmc.tact`."""
        for name, value in (("step_size", step_size), ("noise", noise)):
            if callable(value):
                raise TypeError(f"{name} must be a number for tuning; got a schedule")
        if step_size is not None:
            checks.positive("step_size", step_size)
        if noise is not None:
            checks.non_negative("noise", noise)
        for name, part, kind in (
            ("tempering", tempering, ContinuousTempering),
            ("thermostat", thermostat, Thermostat),
            ("coordinates", coordinates, Coordinates),
            ("refresh", refresh, Refresh),
            ("jumps", jumps, ModeJumps),
        ):
            if part is not None:
                checks.instance(name, part, kind, f"a tacthmc.dynamics.{kind.__name__}")
        self.step_size, self.noise, self.tempering = step_size, noise, tempering
        self.thermostat, self.coordinates, self.refresh = thermostat, coordinates, refresh
        self.jumps = jumps

    def __repr__(self) -> str:
        given: dict[str, Any] = {name: getattr(self, name) for name in NAMES}
        shown = (f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"Untuned({', '.join(shown)})"
