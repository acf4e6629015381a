"""Which draws a run keeps: how often, from which step on, and at which temperatures."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tacthmc import _checks as checks
from tacthmc.potentials import Potential
from tacthmc.run._relaxation import WINDOW_BLOCKS
from tacthmc.samplers._cyclical import Cyclical
from tacthmc.samplers._restarted import Restarted

DEFAULT_EVERY = 50
"""The number of steps between draws, if neither the user nor tuning sets it."""


@dataclass(frozen=True)
class Keep:
    """Which draws of a run are kept, for :func:`tacthmc.sample` (lines 16 and 17 of Algorithm 1).

    A draw is due at every ``every``-th step after the first ``after`` steps. It is kept if the
    chain is at unit temperature, where draws come from the posterior.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 1_000,
    ...                      keep=Keep(every=10, after=500))
    >>> run.draws.shape
    (1, 50, 2)
    """

    every: int | None = None
    """K, the number of steps between draws; by default 50, or the choice of
    :func:`tacthmc.tune`."""
    after: int | None = None
    """The number of first steps from which nothing is kept; by default a tenth of the run."""
    temperatures: Literal["unit", "all"] = "unit"
    """"all" keeps draws of all temperatures, with ``run.log_weights`` that turn them into draws
    from the posterior. The weights need the full-data energy at every draw."""
    relaxation_window: int | None = None
    """The length of a window in steps. After each return to unit temperature nothing is kept until
    the energy no longer falls from one window to the next (:mod:`tacthmc.run._relaxation`)."""
    forget: bool = False
    """Whether draws are passed to the callbacks and then dropped, for models whose draws would fill
    the memory. The run then has its trace only."""

    def __post_init__(self) -> None:
        """Check the values that do not depend on the sampler."""
        if self.every is not None:
            checks.whole("Keep.every", self.every, 1)
        if self.after is not None:
            checks.whole("Keep.after", self.after, 0)
        if not isinstance(self.temperatures, str) or self.temperatures not in ("unit", "all"):
            raise ValueError(
                f"Keep.temperatures must be 'unit' or 'all'; got {self.temperatures!r}"
            )
        if self.relaxation_window is not None:
            checks.whole("Keep.relaxation_window", self.relaxation_window, 2 * WINDOW_BLOCKS)
        checks.flag("Keep.forget", self.forget)
        if self.forget and self.temperatures == "all":
            raise ValueError("Keep.forget goes with temperatures='unit': weights need all draws")

    @property
    def all_temperatures(self) -> bool:
        """Whether draws of all temperatures are kept."""
        return self.temperatures == "all"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)

    def with_defaults(self, sampler: Any, num_steps: int | None = None) -> "Keep":
        """The same options, with the defaults for a sampler and the length of a run."""
        every, after = self.every, self.after
        if every is None:
            tuning = getattr(sampler, "tuning", None)
            every = DEFAULT_EVERY if tuning is None else int(tuning["keep_every"])
        if after is None:
            after = 0 if num_steps is None else num_steps // 10
        return replace(self, every=every, after=after)

    def check(self, sampler: Any, potential: Potential) -> None:
        """Check the values against a sampler and a potential."""
        if self.all_temperatures and not potential.traits.has_energy:
            raise ValueError(
                "Keep.temperatures='all' weighs draws by their full-data energy, which this"
                " potential does not have (a mini-batch's energy would give wrong weights): use"
                " temperatures='unit', or a tacthmc.posterior with resident data and no"
                " model_state"
            )
        if self.all_temperatures and isinstance(sampler, (Cyclical, Restarted)):
            raise ValueError(
                f"Keep.temperatures='all' weighs draws by their temperature, which the draws of"
                f" a {type(sampler).__name__} between those that count do not have: use"
                " temperatures='unit'"
            )
        if self.relaxation_window is None:
            return
        tempering = getattr(sampler, "tempering", None)
        if tempering is None:
            raise ValueError(
                "Keep.relaxation_window is for tempered samplers: without a tempering variable θ"
                " never gets hot"
            )
        rest = checks.concrete(tempering.rest_steps) if tempering.rest_steps is not None else None
        if rest is not None and 2 * self.relaxation_window > rest.min():
            raise ValueError(
                "Keep.relaxation_window must fit twice into the rest of ξ on the plateau, or"
                f" nothing is ever kept; got {self.relaxation_window} and a rest of"
                f" {float(rest.min()):g} steps"
            )
