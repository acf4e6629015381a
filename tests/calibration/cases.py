"""One case: a sampler on a model, its row of the record, and whether it is as expected."""

import time
from typing import Any, NamedTuple
from zlib import crc32

import jax
import numpy as np

import tacthmc
from tests.budget import PER_CHECK
from tests.calibration.contenders import (
    CONTENDERS,
    Expected,
    heat_step,
    step_size,
)
from tests.calibration.models import MODELS, noise_of_batches

SEED = 2022
QUANTITIES = 4
"""Three of the position, and the energy."""
LEVEL = PER_CHECK * 3 * QUANTITIES
"""So that each of the three checks of a quantity has the suite's level of one check."""


class Case(NamedTuple):
    """A sampler on a model, with all data or with mini-batches."""

    model: str
    sampler: str
    batched: bool

    @property
    def name(self) -> str:
        return f"{self.model}-{'batches' if self.batched else 'full'}-{self.sampler}"

    @property
    def expected(self) -> Expected:
        """What the sampler's docstring lets expect."""
        model = MODELS[self.model]
        noise = noise_of_batches(self.model) if self.batched else np.zeros(3)
        step = heat_step(self.sampler, model, noise)
        return CONTENDERS[self.sampler].expected(step, noise)


CASES = [
    Case(model, name, batched)
    for model in MODELS
    for name, contender in CONTENDERS.items()
    for batched in (False, True)
    if contender.on_batches or not batched
]


def calibration(case: Case, simulations: int | None = None) -> tacthmc.calibration.Calibration:
    """The calibration of a case."""
    model, contender = MODELS[case.model], CONTENDERS[case.sampler]
    return tacthmc.calibrate(
        jax.random.fold_in(jax.random.key(SEED), crc32(case.name.encode())),
        contender.make(step_size(case.sampler, model), model),
        model.prior_draw,
        model.simulate,
        model.potential(case.batched, contender.level),
        num_simulations=simulations or contender.simulations,
        num_steps=contender.steps * model.longer,
        num_draws=50,
        keep=tacthmc.Keep(every=20),
        quantities=model.quantities,
        level=LEVEL,
    )


def measured(case: Case, simulations: int | None = None) -> dict[str, Any]:
    """The row of a case."""
    begun = time.process_time()
    found, expected = calibration(case, simulations), case.expected
    narrow, wide = found.detectable_widths
    row = {
        "model": case.model,
        "sampler": case.sampler,
        "batches": case.batched,
        "verdict": found.verdict,
        "expected": expected._asdict(),
        "simulations": found.num_simulations,
        "diverged": found.diverged,
        "draws": found.num_draws,
        "distance": found.distance,
        "detectable_widths": [round(narrow, 4), round(wide, 4)],
        "detectable_bias": round(found.detectable_bias, 4),
        "checks": [
            {
                "name": row.name,
                "bias": [round(x, 4) for x in row.bias],
                "width": [round(x, 4) for x in row.width],
                "ranks_p": float(f"{row.ranks_p:.3g}"),
                "bias_p": float(f"{row.bias_p:.3g}"),
                "width_p": float(f"{row.width_p:.3g}"),
            }
            for row in found.rows
        ],
        "cpu_seconds": round(time.process_time() - begun, 1),
    }
    return row | {"faults": faults(row)}


def faults(row: dict[str, Any]) -> list[str]:
    """Where a row is not as expected; an empty list if it is."""
    expected = Expected(**row["expected"])
    if row["verdict"] == "too short":
        return [f"too short: {row['draws']} draws"]
    if row["diverged"] > expected.may_diverge * row["simulations"]:
        return [f"{row['diverged']} chains diverged"]
    if expected.is_exact:
        return [] if row["verdict"] == "right" else [f"{row['verdict']}, though exact"]
    return [fault for check in row["checks"] for fault in _faults(check, expected)]


def _faults(check: dict[str, Any], expected: Expected) -> list[str]:
    """Intervals have the suite's level of one check. They must meet what is expected."""
    slack = expected.slack
    hotter = [np.sqrt(1.5) * (t - 1) for t in (expected.low, expected.high)]
    if check["name"] == "energy":
        # The energy of a hot or cold posterior is also wider or narrower.
        widths = (expected.low * (1 - 2 * slack), expected.high * (1 + 2 * slack))
        places = (min(0.0, 1.5 * hotter[0]) - 3 * slack, 1.5 * max(0.0, hotter[1]) + 3 * slack)
    else:
        widths = (np.sqrt(expected.low) * (1 - slack), np.sqrt(expected.high) * (1 + slack))
        places = (-2 * slack, 2 * slack)
    found = []
    for what, (low, high) in (("width", widths), ("bias", places)):
        value, least, most = check[what]
        if most < low or least > high:
            found.append(
                f"{what} of {check['name']} is {value:.3f} [{least:.3f}, {most:.3f}], expected"
                f" {low:.3f} to {high:.3f}"
            )
    return found
