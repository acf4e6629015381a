"""The content of a report: the draws of a few parameters, and as many rows as can be shown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from tacthmc import _checks as checks
from tacthmc._positions import dimension, scalar_names
from tacthmc.diagnostics._modes import Modes, find_modes
from tacthmc.run._result import Run
from tacthmc.run._summary import Parameter, Summary, parameters

MAX_CHAINS, MAX_PARAMETERS, MAX_POINTS, MAX_ROWS = 8, 4, 2000, 500
"""The largest numbers of chains, parameters, points per figure and rows per chain in a report."""
MAX_SEARCHED_SCALARS = 100_000
"""The largest number of scalars among which parameters are searched by name."""


@dataclass(frozen=True)
class ReferenceDensity:
    """A known density of one coordinate, to plot over the marginals.

    >>> import numpy as np
    >>> x = np.linspace(-4, 4, 101)
    >>> normal = ReferenceDensity(x, np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi))
    >>> round(float(normal.density.max()), 3)
    0.399
    """

    x: np.ndarray
    density: np.ndarray


class Shown:
    """A run as it is shown in a report. Expensive results are cached."""

    def __init__(
        self,
        name: str,
        run: Run,
        chosen: Sequence[str] | None = None,
        references: dict[str, ReferenceDensity] | None = None,
    ):
        """Show the scalars with the names ``chosen``; by default the first ones."""
        self.name, self.run, self.references = name, run, references or {}
        self.scalars = _chosen(run, chosen)

    @property
    def names(self) -> list[str]:
        """The names of the shown parameters."""
        return [name for _, _, name in self.scalars]

    @cached_property
    def summary(self) -> Summary:
        """The summary of the run."""
        return self.run.summary()

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The rows of the table: those of the summary, and the other chosen ones."""
        known = {p.name for p in self.summary.parameters}
        more = [scalar for scalar in self.scalars if scalar[2] not in known]
        return self.summary.parameters + parameters(self.run, more)

    @property
    def first(self) -> Parameter:
        """The row of the first shown parameter."""
        return next(p for p in self.parameters if p.name == self.names[0])

    @property
    def rows(self) -> int:
        """The number of rows of the trace, which is 0 at the start of a run."""
        return self.run.trace["step"].shape[1]

    @property
    def known(self) -> bool:
        """Whether the sampler is known, and with it the well of ξ."""
        return self.run.program_is_known

    @property
    def which(self) -> str:
        """A description of the draws."""
        if self.run.keep.all_temperatures:
            return "Draws of all temperatures, weighted to unit temperature"
        return "Draws at unit temperature" if self.run.has_tempering else "Kept draws"

    @cached_property
    def draws(self) -> dict[str, np.ndarray]:
        """The draws of the parameters at unit temperature, each (chain, draw).

        Draws of all temperatures are resampled by their weights, so that every figure shows the
        posterior.
        """
        values = {
            name: np.asarray(self.run.draws_of(leaf, index), float)
            for leaf, index, name in self.scalars
        }
        if not self.run.keep.all_temperatures:
            return values
        return {name: np.take_along_axis(v, self._resampled, 1) for name, v in values.items()}

    @cached_property
    def _resampled(self) -> np.ndarray:
        rows = []
        for chain in np.exp(self.run.log_weights):
            # Systematic resampling has the least noise, and needs no random numbers. Each chain
            # keeps its number of draws, so that chains can be compared.
            total = np.cumsum(chain) / max(chain.sum(), 1e-300)
            at = (np.arange(len(chain)) + 0.5) / max(len(chain), 1)
            rows.append(np.minimum(np.searchsorted(total, at), len(chain) - 1))
        return np.stack(rows)

    @property
    def num_draws(self) -> int:
        """The number of draws per chain."""
        return self.run.num_draws

    @cached_property
    def modes(self) -> Modes | None:
        """The modes of the shown parameters over all chains; None with too few draws."""
        if self.num_draws < 2:
            return None
        flat = np.stack([values.ravel() for values in self.draws.values()], axis=1)
        return find_modes(flat) if np.all(np.isfinite(flat)) else None

    @cached_property
    def mode_of(self) -> np.ndarray | None:
        """The mode of each draw, (chain, draw)."""
        if self.modes is None:
            return None
        return self.modes.labels.reshape(self.run.num_chains, -1)

    @cached_property
    def chains(self) -> list[int]:
        """The numbers of the shown chains."""
        return list(range(min(self.run.num_chains, MAX_CHAINS)))

    def usable(self, column: str) -> np.ndarray:
        """A column of the trace after warm-up."""
        return np.asarray(self.run.after_warmup(column), float)


def every(count: int, most: int) -> int:
    """The stride that shows at most ``most`` of ``count``.

    >>> every(2000, 2000), every(2001, 2000)
    (1, 2)
    """
    return max(1, -(-count // most))


def _chosen(run: Run, chosen: Sequence[str] | None) -> list[tuple[int, tuple[int, ...], str]]:
    shapes = run.draw_shapes()
    if chosen is None:
        return scalar_names(shapes, MAX_PARAMETERS)
    known = {name: row for row in scalar_names(shapes, MAX_SEARCHED_SCALARS) for name in [row[2]]}
    for name in chosen:
        if name not in known:
            near = checks.nearest(name, known)
            hint = f"; the nearest is {near!r}" if near else ""
            raise ValueError(
                f"the run has no parameter {name!r}{hint}. It has {dimension(shapes):,}, the first"
                f" is {next(iter(known))!r}"
            )
    return [known[name] for name in chosen]


def settings(value: Any) -> str:
    """A part of a sampler as plain text: its class with its numbers.

    >>> import tacthmc
    >>> settings(tacthmc.dynamics.PowerCoupling())
    'PowerCoupling(plateau=0.3333, unit=1, wall=1.667, power=3, even=True)'
    """
    if value is None or isinstance(value, (str, bool)):
        return str(value)
    if isinstance(value, (int, float, np.ndarray, np.generic, jax.Array)):
        array = np.asarray(value)
        return f"{array.item():.4g}" if array.ndim == 0 else f"array of shape {array.shape}"
    fields = getattr(value, "__dataclass_fields__", None) or getattr(value, "_fields", None)
    if fields is not None:
        return _with_fields(value, fields)
    if callable(value):
        return f"a schedule, {getattr(value, '__name__', type(value).__name__)}"
    if isinstance(value, (dict, list, tuple)):
        return f"a pytree of {len(jax.tree.leaves(value))} leaves"
    return type(value).__name__


def _with_fields(value: Any, fields: Iterable[str]) -> str:
    inner = ((name, getattr(value, name, None)) for name in fields)
    shown = ", ".join(f"{name}={settings(v)}" for name, v in inner if v is not None)
    return f"{type(value).__name__}({shown})"
