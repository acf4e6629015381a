"""What was chosen, and why."""

from typing import Any, NamedTuple

import jax


class Choice(NamedTuple):
    """A number (or a part) of a sampler, and what was seen that led to it.

    >>> Choice("keep_every", 20, "given").reason
    'given'
    """

    name: str
    value: Any
    reason: str


@jax.tree_util.register_static
class Tuning:
    """Everything a warm-up chose, in order; ``str`` gives a table for people.

    A tuned sampler carries it as :attr:`tacthmc.dynamics.Langevin.tuning`. Two of them are equal whatever
    they say: reasons do not change what is compiled.

    >>> tuning = Tuning((Choice("step_size", 0.1, "0.4 over the largest curvature, 4"),))
    >>> tuning["step_size"]
    0.1
    >>> print(tuning)
    step_size  0.1  0.4 over the largest curvature, 4
    """

    def __init__(self, choices: tuple[Choice, ...], gradients: int = 0, start: Any = None):
        """``start``: where the warm-up's chains ended; ``gradients``: what it took in all."""
        self.choices, self.gradients, self.start = tuple(choices), gradients, start

    def __getitem__(self, name: str) -> Any:
        """The value chosen under a name."""
        for choice in self.choices:
            if choice.name == name:
                return choice.value
        raise KeyError(
            f"nothing was chosen for {name!r}; there is {[c.name for c in self.choices]}"
        )

    def __eq__(self, other: object) -> bool:
        """Always, between two of them."""
        return isinstance(other, Tuning)

    def __hash__(self) -> int:
        """The same for all."""
        return hash(Tuning)

    def __str__(self) -> str:
        """A line for each choice."""
        rows = [(c.name, shown(c.value), c.reason) for c in self.choices]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        return "\n".join(
            f"{name:<{widths[0]}}  {value:<{widths[1]}}  {reason}" for name, value, reason in rows
        )

    def __repr__(self) -> str:
        """Short: a sampler's repr has it."""
        return f"<Tuning of {len(self.choices)} settings>"

    def record(self) -> list[dict[str, Any]]:
        """What is stored with a run."""
        return [{"name": c.name, "value": plain(c.value), "reason": c.reason} for c in self.choices]


def shown(value: Any) -> str:
    """A value in a table: numbers to three digits, the names of parts.

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
    """A value as JSON knows it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return type(value).__name__ if jax.tree.leaves(value) != [value] else str(value)


class TuningError(RuntimeError):
    """No setting was found that works; the message says what was seen on the way.

    >>> issubclass(TuningError, RuntimeError)
    True
    """
