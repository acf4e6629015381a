"""The choices of tuning with their reasons."""

from typing import Any, NamedTuple

import jax

from tacthmc._notebook import table, text


class Choice(NamedTuple):
    """A number (or a part) of a sampler, and the reason for it.

    >>> Choice("keep_every", 20, "given").reason
    'given'
    """

    name: str
    value: Any
    reason: str


@jax.tree_util.register_static
class Tuning:
    """All choices of tuning, in their order. ``str`` gives a table.

    A tuned sampler has it as :attr:`tacthmc.dynamics.Langevin.tuning`. All instances are equal,
    because reasons do not affect compiled programs.

    >>> tuning = Tuning((Choice("step_size", 0.1, "0.4 over the largest curvature, 4"),))
    >>> tuning["step_size"]
    0.1
    >>> print(tuning)
    step_size  0.1  0.4 over the largest curvature, 4
    """

    is_stored_by_fields = True
    """A stored run has all of it, by the names of its attributes."""

    def __init__(
        self,
        choices: tuple[Choice, ...],
        gradients: int = 0,
        start: Any = None,
        modes: Any = None,
        advice: str = "",
        doubt: str = "",
    ):
        """Record choices and what else the short runs gave.

        Args:
            choices: the choices, in their order.
            gradients: the total number of gradients.
            start: the last positions.
            modes: the modes that were found, a :class:`tacthmc.dynamics.Modes`, if they are known
                to be nearly all.
            advice: what to do if the run mixes badly.
            doubt: why the modes that were found may not be all.
        """
        self.choices, self.gradients, self.start = tuple(choices), gradients, start
        self.modes, self.advice, self.doubt = modes, advice, doubt

    def __getitem__(self, name: str) -> Any:
        """The value chosen under a name."""
        for choice in self.choices:
            if choice.name == name:
                return choice.value
        raise KeyError(
            f"nothing was chosen for {name!r}; there is {[c.name for c in self.choices]}"
        )

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` is a :class:`Tuning`."""
        return isinstance(other, Tuning)

    def __hash__(self) -> int:
        return hash(Tuning)

    def __str__(self) -> str:
        rows = [(c.name, shown(c.value), c.reason) for c in self.choices]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        return "\n".join(
            f"{name:<{widths[0]}}  {value:<{widths[1]}}  {reason}" for name, value, reason in rows
        )

    def _repr_html_(self) -> str:
        rows = [(c.name, shown(c.value), c.reason) for c in self.choices]
        said = "".join(f"<p>{text(part)}</p>" for part in (self.doubt, self.advice) if part)
        return table(("setting", "value", "reason"), rows) + said

    def __repr__(self) -> str:
        return f"<Tuning of {len(self.choices)} settings>"

    def record(self) -> list[dict[str, Any]]:
        """The choices as JSON, for the config of a stored run."""
        return [{"name": c.name, "value": plain(c.value), "reason": c.reason} for c in self.choices]


def shown(value: Any) -> str:
    """A value as text: numbers with three digits, and parts by their names.

    >>> import numpy as np, tacthmc
    >>> shown(0.12345), shown(np.zeros(3)), shown(tacthmc.dynamics.ScalarThermostat())
    ('0.123', 'array of shape (3,)', 'ScalarThermostat')
    """
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(getattr(value, "shape", None), tuple):
        return f"array of shape {value.shape}"
    return str(plain(value))


def plain(value: Any) -> Any:
    """A value that JSON can represent."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__ if jax.tree.leaves(value) != [value] else str(value)


class TuningError(RuntimeError):
    """An error that no working setting was found. The message lists what was tried.

    >>> issubclass(TuningError, RuntimeError)
    True
    """
