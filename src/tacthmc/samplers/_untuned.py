"""A sampler some of whose numbers are still to be chosen."""

from typing import Any

from tacthmc import _checks as checks
from tacthmc.dynamics._coupling import Coupling

NAMES = (
    "step_size",
    "noise",
    "xi_step_size",
    "xi_noise",
    "thermostat",
    "xi_thermostat",
    "coupling",
    "bias",
    "keep_every",
    "keep_within",
    "refresh",
    "centre",
    "frame",
)
"""What can be fixed; the rest of :func:`tacthmc.tact`'s arguments have no numbers to choose."""


class Untuned:
    """:func:`tacthmc.tact` without its numbers; those given here are fixed, the others chosen.

    ``tacthmc.tact()`` makes one, ``tacthmc.tact(keep_every=20)`` one with K fixed.
    :func:`tacthmc.sample` tunes it before it begins, :func:`tacthmc.tune` does so by itself.
    To fix the step size and have the rest chosen, make it by this name; so too to say that there
    shall be no frame (``frame=None``) or no breathing (``centre=None``). ``frame="diagonal"`` asks
    for one with a scale for each coordinate, by their standard deviations in a short run.

    >>> Untuned(step_size=0.01, keep_every=20)
    Untuned(step_size=0.01, keep_every=20)
    """

    def __init__(self, **fixed: Any):
        """Fix what is given, by the names of :func:`tacthmc.tact`'s arguments."""
        for name in fixed:
            if name not in NAMES:
                near = checks.nearest(name, NAMES)
                hint = f"; did you mean {near!r}?" if near else "."
                raise TypeError(
                    f"{name!r} cannot be fixed for a warm-up{hint} Expected any of {NAMES};"
                    " settings beside these go with numbers of your own, tact(step_size, …)"
                )
        for name, value in fixed.items():
            if value is None and name not in ("frame", "centre"):
                raise TypeError(f"{name} must not be None: leave it out to have it chosen")
        for name in ("step_size", "xi_step_size"):
            if name in fixed:
                checks.positive(name, fixed[name])
        for name in ("noise", "xi_noise"):
            if name in fixed:
                checks.non_negative(name, fixed[name])
        if "keep_every" in fixed:
            checks.whole("keep_every", fixed["keep_every"], 1)
        if "coupling" in fixed:
            checks.instance("coupling", fixed["coupling"], Coupling, "a Coupling")
        if isinstance(frame := fixed.get("frame"), str) and frame != "diagonal":
            raise ValueError(
                f'frame must be "diagonal", a tacthmc.dynamics.Frame or None; got {frame!r}'
            )
        for name in ("step_size", "noise", "xi_step_size", "xi_noise"):
            if callable(fixed.get(name)):
                raise TypeError(f"{name} must be a number for a warm-up; got a schedule")
        self.fixed = fixed

    def __repr__(self) -> str:
        """As it was made."""
        return f"Untuned({', '.join(f'{k}={v!r}' for k, v in self.fixed.items())})"
