"""How many gradients the warm-up of replicas may take: at most a fifth of those of the run.

A run of N steps takes gN gradients, and g is only known at the end, when the number of replicas is.
So the search for modes gets a part for few replicas, and rounds get what is left for as many as the
barrier needs. Below a certain length of rounds nothing would be learned; so the warm-up of a very
short run takes more than a fifth. :func:`tacthmc.tune` before the run has no such limit.
"""

from dataclasses import dataclass

WARM_UP_SHARE = 0.2
"""The largest share of the gradients of a run."""
MAX_SEARCH, MIN_SEARCH, SEARCH_PER_STEP = 30_000.0, 2_000.0, 0.15
"""The gradients that a search for modes takes without a limit and at least, and those for each step
of the run. With many steps it may take more than without a limit."""
MIN_LENGTH = 0.25
"""The smallest length of rounds, relative to that without a limit."""
FIRST_RUNGS, FEW_RUNGS, SHORT_RUN = 10, 6, 50_000
"""The number of replicas in the first rounds, that before a short run, and the number of steps over
all chains up to which a run is short."""
FEW_GRADIENTS = 3.0
"""The gradients of a step before the number of replicas is known."""


@dataclass
class WarmUp:
    """The gradients that are left for the warm-up."""

    steps: float | None
    """The number of steps of the run over all chains, or None for no limit."""
    gradients_per_step: float = FEW_GRADIENTS

    @property
    def search(self) -> float:
        """The gradients of the search for modes.

        >>> [WarmUp(steps).search for steps in (None, 4e3, 1e5, 1e6)]
        [30000.0, 2000.0, 15000.0, 150000.0]
        """
        return MAX_SEARCH if self.steps is None else max(SEARCH_PER_STEP * self.steps, MIN_SEARCH)

    @property
    def first_rungs(self) -> int:
        """The number of replicas in the first rounds."""
        return FEW_RUNGS if self.steps is not None and self.steps <= SHORT_RUN else FIRST_RUNGS

    def length(self, spent: float, planned: float) -> float:
        """The length of the next rounds relative to the planned ones, after so many gradients.

        >>> warm_up = WarmUp(20_000.0, 4.0)
        >>> warm_up.length(6_000.0, 5_000.0), warm_up.length(6_000.0, 20_000.0)
        (1.0, 0.5)
        """
        if self.steps is None:
            return 1.0
        left = WARM_UP_SHARE * self.steps * self.gradients_per_step - spent
        return float(min(max(left / planned, MIN_LENGTH), 1.0))
