"""The condition that ends a run: so many effective draws."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import jax

from tacthmc import _checks as checks
from tacthmc._positions import scalar_names
from tacthmc.run._keep import Keep
from tacthmc.run._mode_notes import MIN_ENTRIES
from tacthmc.run._parameters import MAX_SHOWN_PARAMETERS

MAX_SEARCHED_SCALARS = 100_000
"""The largest number of scalars among which parameters are searched by name."""


@dataclass(frozen=True)
class Effective:
    """A condition for ``until=``; made by :func:`tacthmc.effective`."""

    draws: int
    """The number of effective draws of all chains together."""
    rhat: float = 1.01
    """The largest R-hat."""
    parameters: tuple[str, ...] | None = None
    """The names of the scalars that count; by default the first 16."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        checks.whole("draws", self.draws, MIN_ENTRIES)
        checks.within("rhat", self.rhat, 1.0, float("inf"))
        names = self.parameters
        if names is not None and not (
            isinstance(names, tuple) and all(isinstance(name, str) for name in names)
        ):
            raise TypeError(f"parameters must be names of parameters; got {names!r}")

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Effective":
        """The inverse of :meth:`to_json`."""
        names = fields["parameters"]
        return cls(fields["draws"], fields["rhat"], None if names is None else tuple(names))

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        names = None if self.parameters is None else list(self.parameters)
        return {**asdict(self), "parameters": names}

    def scalars(self, draw: Any) -> list[tuple[int, tuple[int, ...], str]]:
        """The scalars that count, in a draw with these shapes: leaf, index and name."""
        if self.parameters is None:
            return scalar_names(draw, MAX_SHOWN_PARAMETERS)
        known = {row[2]: row for row in scalar_names(draw, MAX_SEARCHED_SCALARS)}
        for name in self.parameters:
            if name not in known:
                near = checks.nearest(name, known)
                hint = f"; the nearest is {near!r}" if near else ""
                raise ValueError(
                    f"parameters of effective(…) has {name!r}, which is none of the"
                    f" {len(known):,} scalars of the position{hint}"
                )
        return [known[name] for name in self.parameters]


def effective(
    draws: int, *, rhat: float = 1.01, parameters: Sequence[str] | None = None
) -> Effective:
    """A condition for ``until=`` of :func:`tacthmc.sample`: the run has so many effective draws.

    The run ends when every quantity that is checked has ``draws`` effective draws, R-hat at most
    ``rhat``, and 100 kept draws in each chain. Checked are the parameters, the energy and, if the
    sampler jumps between known modes, whether a draw is in each mode with a share of 1% or more.
    Such a mode has to be entered and left ten times. Effective draws are those of the summary: bulk
    ESS of all chains, from draws at unit temperature after the warm-up, or from weighted draws with
    ``Keep(temperatures="all")``. The error of the mean of a parameter is then about its standard
    deviation over √draws. R-hat of a single chain compares its halves.

    No number can count modes that no chain has found.

    Args:
        draws: effective draws of all chains together. R-hat below 1.01 takes about a hundred of
            each chain, so many chains make it the stricter condition.
        rhat: the largest R-hat.
        parameters: the names of the scalars to check, as in the summary (``"theta[0]"``). By
            default they are the first 16.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 10**7, 4,
    ...                      until=effective(400))
    >>> run.until.reached, run.interrupted, run.num_steps < 200_000
    (True, False, True)
    """
    if parameters is not None and not isinstance(parameters, (list, tuple)):
        raise TypeError(f"parameters must be a list of names; got {parameters!r}")
    return Effective(draws, rhat, None if parameters is None else tuple(parameters))


def check_until(until: Any, keep: Keep, positions: Any) -> None:
    """Check the condition of a run against its draws; ``positions`` have a chain axis."""
    checks.instance("until", until, Effective, "made by tacthmc.effective, such as effective(400)")
    assert isinstance(until, Effective)
    if keep.forget:
        raise ValueError("until counts draws that are kept: it does not go with Keep.forget")
    until.scalars(jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions))


class Standing(NamedTuple):
    r"""Where a run stood when its condition was last checked. Printed, it is a line of text.

    >>> standing = Standing(5_000, 9_000, 400, 1.01, 412.3, "x", 1.004, "y", reached=True)
    >>> print(str(standing).replace(": ", ":\n"))
    ended by `until` after 5,000 of at most 9,000 steps:
    412 effective draws of x, the fewest (400 wanted), R-hat at most 1.004
    """

    steps: int
    """Steps per chain."""
    num_steps: int
    """The largest number of steps."""
    wanted: int
    """The number of effective draws that the condition asks for."""
    limit: float
    """The largest R-hat that it allows."""
    effective: float = 0.0
    """The fewest effective draws. During a run it is an upper bound: the first quantity with too
    few decides."""
    of: str = ""
    """The quantity with the fewest."""
    rhat: float | None = None
    """The largest R-hat, or None if it is not known."""
    rhat_of: str = ""
    """The quantity with the largest."""
    reached: bool = False
    """Whether the condition holds. The run then ended for this reason."""

    @property
    def progress(self) -> str:
        """The effective draws so far, for a display."""
        return f"{self.effective:,.0f} of {self.wanted:,} effective draws"

    def __str__(self) -> str:
        of = f" of {self.of}, the fewest" if self.of else ""
        fewest = f"{self.effective:,.0f} effective draws{of} ({self.wanted:,} wanted)"
        if self.reached:
            return (
                f"ended by `until` after {self.steps:,} of at most {self.num_steps:,} steps:"
                f" {fewest}, R-hat at most {self.rhat:.3f}"
            )
        rhat = ""
        if self.rhat_of and (self.rhat is None or self.rhat > self.limit):
            value = "unknown" if self.rhat is None else f"{self.rhat:.3f}"
            rhat = f", R-hat {value} of {self.rhat_of} (at most {self.limit:g} wanted)"
        if self.steps < self.num_steps:
            return f"`until` asks for more: {fewest}{rhat}"
        return f"! num_steps ended the run before `until`: {fewest}{rhat}"
