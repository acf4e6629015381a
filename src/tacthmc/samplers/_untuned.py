"""A sampler some of whose numbers are still to be chosen."""

from typing import Any

from tacthmc import _checks as checks
from tacthmc._typing import Number
from tacthmc.dynamics import ContinuousTempering, Coordinates, Refresh, Thermostat

NAMES = ("step_size", "noise", "tempering", "thermostat", "coordinates", "refresh")
"""What can be fixed, by the names of :func:`tacthmc.tact`'s arguments."""


class Untuned:
    """:func:`tacthmc.tact` without its numbers; those given here are fixed, the others chosen.

    ``tacthmc.tact()`` makes one, ``tacthmc.tact(noise=0.2)`` one with c fixed.
    :func:`tacthmc.sample` tunes it before it begins, :func:`tacthmc.tune` does so by itself. To fix
    the step size and have the rest chosen, make it by this name.

    Of a :class:`tacthmc.dynamics.ContinuousTempering` the parts that were given stay, the others
    are chosen. Of :class:`tacthmc.dynamics.Coordinates` both fields are fixed, a field that is
    "auto" is chosen, and ``linear="diagonal"`` asks for a scale for each coordinate, by their
    standard deviations in a short run.

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
    ):
        """Fix what is given; the meaning of each is that of :func:`tacthmc.tact`'s argument."""
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
        ):
            if part is not None:
                checks.instance(name, part, kind, f"a tacthmc.dynamics.{kind.__name__}")
        self.step_size, self.noise, self.tempering = step_size, noise, tempering
        self.thermostat, self.coordinates, self.refresh = thermostat, coordinates, refresh

    def __repr__(self) -> str:
        """As it was made."""
        given: dict[str, Any] = {name: getattr(self, name) for name in NAMES}
        shown = (f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"Untuned({', '.join(shown)})"
