"""The choices of tuning as they are made, and the values that the user fixed."""

import sys
from typing import Any

from tacthmc.samplers import Untuned
from tacthmc.tuning._choices import Choice, shown
from tacthmc.tuning._stage_bar import StageBar


class Notes:
    """The choices so far. Values that the user fixed take precedence."""

    def __init__(self, fixed: dict[str, Any], verbose: bool):
        self.fixed, self.verbose = fixed, verbose
        self.choices: list[Choice] = []
        self._bar = StageBar(verbose)

    def __enter__(self) -> "Notes":
        """Show the bar until the end of the block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the bar."""
        self._bar.close()

    def begin(self, stage: str) -> None:
        """Say that a stage begins."""
        self._bar.begin(stage)

    def choose(self, name: str, value: Any, reason: str) -> Any:
        # "diagonal" says how to make coordinates, but does not fix them.
        is_method = name == "linear" and isinstance(self.fixed.get(name), str)
        if name in self.fixed and not is_method:
            value, reason = self.fixed[name], "given"
        self.choices.append(Choice(name, value, reason))
        self.say(f"{name} = {shown(value)}: {reason}")
        return value

    def value(self, name: str) -> Any:
        """The value chosen under a name."""
        return next(choice.value for choice in self.choices if choice.name == name)

    def revise(self, name: str, value: Any, reason: str) -> None:
        """Replace an earlier choice."""
        self.choices = [
            Choice(name, value, f"{c.reason}; {reason}") if c.name == name else c
            for c in self.choices
        ]
        self.say(f"{name} = {shown(value)} instead: {reason}")

    def say(self, line: str) -> None:
        if self.verbose and not self._bar.print(f"tuning: {line}"):
            print(f"tuning: {line}", file=sys.stderr, flush=True)


def fixed_in(sampler: Untuned) -> dict[str, Any]:
    """The given numbers and parts, by the names of choices.

    >>> import tacthmc
    >>> given = tacthmc.dynamics.ContinuousTempering(noise=0.3)
    >>> fixed_in(tacthmc.tact(noise=0.2, tempering=given))
    {'noise': 0.2, 'xi_noise': 0.3}
    """
    names = ("step_size", "noise", "thermostat")
    fixed = {name: getattr(sampler, name) for name in names if getattr(sampler, name) is not None}
    if sampler.tempering is not None:
        for name in sorted(sampler.tempering.given):
            chosen = name if name in ("coupling", "bias") else f"xi_{name}"
            fixed[chosen] = getattr(sampler.tempering, name)
    if sampler.coordinates is not None:
        both = {"linear": sampler.coordinates.linear, "center": sampler.coordinates.center}
        fixed |= {name: part for name, part in both.items() if not is_word(part, "auto")}
    return fixed


def is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
