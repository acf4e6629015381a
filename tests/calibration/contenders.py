"""The samplers of ``tests/table.py``, with steps for a model, and what their docstrings expect.

The table's numbers are for tests of single steps. Where they are none for a posterior, such as a
schedule of 60 steps, this file has others.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tacthmc
from tacthmc import samplers
from tacthmc.dynamics import Euler, ScheduledTempering
from tests.calibration.models import Model
from tests.table import SAMPLERS, WIDENING, OnAllData

STEP = 0.01
"""η times the largest curvature: a tenth of the inverse frequency, squared."""
LANGEVIN_STEP = 0.02
"""The same for SGLD."""
FRICTION = 0.1
"""c of every sampler with momentum here."""

WITHOUT_A_POSTERIOR = {"adam", "momentum-sgd", "optimizer"}


class Expected(NamedTuple):
    """Where the temperature of a sampler's posterior may lie, and the slack besides.

    A temperature T makes widths √T times too large and the energy's mean (T − 1)·D/2 too high,
    which is (T − 1)·√(D/2) of its standard deviations.
    """

    low: float = 1.0
    high: float = 1.0
    slack: float = 0.0
    """A relative error of widths that may come on top; bias may be twice as many sds."""
    why: str = "exact"
    may_diverge: float = 0.0
    """The share of chains that may diverge."""

    @property
    def is_exact(self) -> bool:
        return (self.low, self.high, self.slack) == (1.0, 1.0, 0.0)


Noise = np.ndarray
"""The variance of the force in each coordinate; zeros with all data."""


def exact(eta: float, noise: Noise) -> Expected:
    return Expected()


def by_steps(eta: float, noise: Noise) -> Expected:
    return Expected(slack=0.03, why="bias of steps")


def by_euler(eta: float, noise: Noise) -> Expected:
    found = by_one_thermostat(eta, noise)
    why = "bias of Euler's steps, of order √η, and a few chains whose thermostats overshoot"
    return found._replace(slack=0.12, why=why, may_diverge=0.005)


def by_one_thermostat(eta: float, noise: Noise) -> Expected:
    """One thermostat takes out the mean of the heat, and leaves what coordinates differ by."""
    heat = FRICTION + eta * noise / 2
    share = heat / heat.mean()
    return Expected(float(share.min()), float(share.max()), 0.04, "unequal noise, one thermostat")


def by_heat(eta: float, noise: Noise) -> Expected:
    hot = 1 + eta * noise / (2 * FRICTION)
    return Expected(float(min(1.0, hot.min())), float(hot.max()), 0.04, "heat ηv/(2c)")


def by_langevin(eta: float, noise: Noise) -> Expected:
    hot = 1 + eta * noise / 2
    return Expected(1.0, float(hot.max()), 0.03, "bias of steps, and heat ηv/2")


def by_schedule(eta: float, noise: Noise) -> Expected:
    found = by_one_thermostat(eta, noise)
    return found._replace(slack=0.06, why="a schedule that is not infinitely slow")


def by_cycles(eta: float, noise: Noise) -> Expected:
    hot = by_heat(eta, noise)
    return hot._replace(low=0.8, slack=0.04, why="cycles: too narrow after descent, and heat")


class Contender(NamedTuple):
    """A sampler for a model."""

    make: Callable[[float, Model], Any]
    expected: Callable[[float, Noise], Expected]
    step: float = STEP
    """η times the curvature."""
    steps: int = 6_000
    on_batches: bool = True
    """Whether it takes mini-batches; others compute all energies exactly."""
    simulations: int = 2_000
    level: str | None = None
    """The level of the energy, where the motion of ξ depends on it."""


def table(name: str) -> Callable[[float, Model], Any]:
    return lambda eta, model: SAMPLERS[name](eta)


def restarted(eta: float, model: Model) -> Any:
    return tacthmc.restarted(tacthmc.sgnht(eta), every=2_000, start=model.prior_draw, burn=500)


def continuously_tempered(eta: float, model: Model) -> Any:
    return OnAllData(samplers.ct_hmc(eta, 8, log_evidence=0.0))


def scheduled(**more: Any) -> Callable[[float, Model], Any]:
    return lambda eta, model: tacthmc.tact(
        eta, tempering=ScheduledTempering(2_000, rest=0.6), **more
    )


TEMPERED = 24_000
"""Steps of samplers that are at unit temperature for a fifth of the time."""

CONTENDERS: dict[str, Contender] = {
    "tact": Contender(table("tact"), by_one_thermostat, steps=TEMPERED),
    "tact-euler": Contender(table("tact-euler"), by_euler, steps=TEMPERED),
    # Their biases learn slowly, so that ξ is on the plateau for a twentieth of the time.
    "tact-authors": Contender(
        table("tact-authors"), by_euler, steps=240_000, simulations=300, level="mode"
    ),
    "tact-algorithm1": Contender(
        table("tact-algorithm1"), by_euler, steps=96_000, simulations=500, level="mode"
    ),
    "tact-tensor-metadynamics": Contender(
        table("tact-tensor-metadynamics"), by_one_thermostat, steps=2 * TEMPERED, level="mode"
    ),
    "tact-diagonal-well-tempered": Contender(
        table("tact-diagonal-well-tempered"), by_steps, steps=TEMPERED, level="mode"
    ),
    "tact-matrix": Contender(table("tact-matrix"), by_steps, steps=TEMPERED),
    "tact-widening": Contender(table("tact-widening"), by_one_thermostat, steps=TEMPERED),
    "tact-linear": Contender(table("tact-linear"), by_one_thermostat, steps=TEMPERED),
    "tact-scheduled": Contender(scheduled(), by_schedule, steps=TEMPERED),
    "tact-scheduled-widening": Contender(
        scheduled(coordinates=WIDENING), by_schedule, steps=TEMPERED
    ),
    "tact-scheduled-euler": Contender(scheduled(integrator=Euler()), by_euler, steps=TEMPERED),
    "without-thermostat": Contender(table("without-thermostat"), by_heat, steps=TEMPERED),
    "sgnht": Contender(table("sgnht"), by_one_thermostat),
    "sgnht-jumps": Contender(table("sgnht-jumps"), by_one_thermostat),
    "tact-jumps": Contender(table("tact-jumps"), by_one_thermostat, steps=TEMPERED),
    "adjusted": Contender(table("adjusted"), exact, step=0.25, on_batches=False),
    "sghmc": Contender(lambda eta, model: tacthmc.sghmc(eta), by_heat),
    "sgld": Contender(table("sgld"), by_langevin, step=LANGEVIN_STEP, steps=12_000),
    "psgld": Contender(table("psgld"), by_langevin, steps=12_000),
    "replica-exchange": Contender(table("replica-exchange"), by_heat),
    "replica-path": Contender(table("replica-path"), exact, step=0.25, on_batches=False),
    "replica-path-noisy": Contender(table("replica-path-noisy"), by_heat),
    "cyclical": Contender(
        lambda eta, model: tacthmc.cyclical(4 * eta, cycle_steps=2_000, explore=0.25), by_cycles
    ),
    "restarted": Contender(restarted, by_one_thermostat),
    "ct-hmc": Contender(
        continuously_tempered, exact, step=0.25, steps=12_000, on_batches=False, level="evidence"
    ),
    "ctld": Contender(table("ctld"), by_heat, steps=TEMPERED, level="mode"),
}


def step_size(name: str, model: Model) -> float:
    """η for a model. That of pSGLD has the units of θ: its G is about one over the gradient."""
    if name == "psgld":
        return float(LANGEVIN_STEP / np.sqrt(model.curvature))
    return CONTENDERS[name].step / model.curvature


def heat_step(name: str, model: Model, noise: Noise) -> float:
    """The step that :class:`Expected` is computed from."""
    if name == "psgld":
        # G stands still at 1/√(mean squared gradient), which has the noise in it.
        return float(step_size(name, model) / np.sqrt(model.curvature + noise.max()))
    return step_size(name, model) * (4 if name == "cyclical" else 1)
