"""Steps that are too long, seen by the friction that the thermostat needs.

Without noise in the force, the thermostat settles at the injected friction by Theorem 1, which is
c. A step that is too long for a part of the region heats there, and the thermostat settles above c.
The density of the chain is then not exp(−U), though R-hat and the kinetic temperature look right.
"""

from typing import TYPE_CHECKING

import numpy as np

from tacthmc.dynamics import Langevin, NoThermostat

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_FRICTION_RATIO = 1.2
"""The friction relative to the injected one from which shares and widths are wrong by percents."""
MAX_FRICTION = 3.0
"""The same ratio for a chain from which no error is needed, if all chains reach it."""
SIGMAS = 4.0
"""The number of standard errors by which it has to be above that."""
MIN_ROWS = 20
"""The smallest number of rows of a trace in which chains can have settled."""


def step_notes(run: "Run") -> list[str]:
    """A warning if the steps of a run without noise heat."""
    if not _has_law(run):
        return []
    seen = run.after_warmup("thermostat")
    expected = next((law.expected_mean for law in run.thermostats if law.name == "z_theta"), 0.0)
    if seen.shape[1] < MIN_ROWS or not expected > 0:
        return []
    means = seen.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0
    sure = means.mean() - SIGMAS * error > MAX_FRICTION_RATIO * expected
    # Chains that heat by very different amounts have a large error.
    if not sure and means.min() <= MAX_FRICTION * expected:
        return []
    return [
        f"! the thermostat settled at {means.mean():.3g}, and without noise it should be at"
        f" {expected:.3g}: steps are too long somewhere, and heat. Take a smaller step_size"
    ]


def _has_law(run: "Run") -> bool:
    """Whether there is a thermostat at unit temperature, and no noise in the force."""
    if not run.sampler_is_known or not isinstance(run.sampler, Langevin):
        return False
    has_thermostat = not isinstance(run.sampler.thermostat, NoThermostat)
    return has_thermostat and run.sampler.tempering is None and run.facts.is_exact
