"""Replicas on a path with numbers that tuning has yet to choose."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacthmc import _checks as checks
from tacthmc._typing import Number
from tacthmc.potentials import Potential


class UntunedReplicas:
    """:func:`tacthmc.replica_exchange` without a step size: tuning chooses what is not given.

    :func:`tacthmc.sample` tunes it before the run; :func:`tacthmc.tune` only tunes it.

    >>> import tacthmc
    >>> tacthmc.replica_exchange(num_leapfrog=4)
    UntunedReplicas(num_leapfrog=4)
    """

    def __init__(
        self,
        inverse_temperatures: Sequence[Number] | None = None,
        base: Potential | None = None,
        num_leapfrog: int | None = None,
    ):
        """Fix the given arguments, which are those of :func:`tacthmc.replica_exchange`."""
        self.inverse_temperatures: np.ndarray | None = None
        if inverse_temperatures is not None:
            self.inverse_temperatures = checked_inverse_temperatures(inverse_temperatures)
        if base is not None:
            checks.instance(
                "base", base, Potential, "a Potential, such as samplers.gaussian_base(0.0, 5.0)"
            )
        if num_leapfrog is not None:
            checks.whole("num_leapfrog", num_leapfrog, 1)
        self.base, self.num_leapfrog = base, num_leapfrog

    @property
    def given(self) -> dict[str, Any]:
        """The given arguments by name."""
        names = ("inverse_temperatures", "base", "num_leapfrog")
        return {n: getattr(self, n) for n in names if getattr(self, n) is not None}

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.given.items())
        return f"UntunedReplicas({', '.join(shown)})"


def checked_inverse_temperatures(given: Any) -> np.ndarray:
    """A ladder of inverse temperatures that falls from 1 to at least 0."""
    expected = "at least two numbers that fall from 1 to 0 or more, such as (1, 0.3, 0.05, 0)"
    try:
        ladder = np.asarray([float(value) for value in given])
    except (TypeError, ValueError) as error:
        raise TypeError(f"inverse_temperatures must be {expected}; got {given!r}") from error
    falls = len(ladder) >= 2 and ladder[0] == 1.0 and bool(np.all(np.diff(ladder) < 0))
    if not (falls and ladder[-1] >= 0):
        raise ValueError(f"inverse_temperatures must be {expected}; got {given!r}")
    return ladder
