"""The goal of a run: looks at the draws now and then, and ends the run when there are enough.

**When it looks.** Checks come at numbers of intervals that grow by at least a tenth each time, so
that their number is that of the logarithm of the run's length. The next one is due when the present
speed would reach the goal. It does not depend on time: a resumed run looks at the same steps, and
stops at the same one, as a run that was never interrupted.

**What it costs.** A check first looks at a thinned part of the draws, with five times as many as
are wanted effective. It stops at the first quantity that has too few. Thinning loses effective
draws, 1% of them at this factor, and gains none.
"""

import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tacthmc.compiler._hosts import all_gather_json, raise_together
from tacthmc.compiler._mesh import local_chains
from tacthmc.diagnostics._weights import log_weights
from tacthmc.run._effective import Standing
from tacthmc.run._held_draws import HeldDraws, Table
from tacthmc.run._monitor import Observer, Snapshot
from tacthmc.run._plan import Plan
from tacthmc.run._program import Chains
from tacthmc.run._quantities import (
    Measured,
    Quantity,
    effective_count,
    known_modes,
    measured,
    quantities,
)
from tacthmc.run._record import StoredRecord
from tacthmc.run._trimmed import WARM_UP_PART
from tacthmc.store._folder import Folder
from tacthmc.store._structure import SHAPES, read_structure

MIN_DRAWS = 100
"""The number of draws of each chain after warm-up before which no run ends."""
MIN_LOOK_DRAWS = 8
"""The number of draws of each chain before which nothing can be measured."""
MIN_GROWTH, MAX_GROWTH = 1.1, 1.5
"""The smallest and the largest ratio of the steps at two checks in a row."""
AIM = 0.95
"""The next check is due at this share of the steps that the goal would take at the present rate."""
QUICK_FACTOR = 5
"""The number of draws in a quick look, per effective draw that is wanted."""
MIN_QUICK_DRAWS = 200
"""The smallest number of draws of a chain in a quick look."""
HELD_FACTOR = 50
"""The number of draws that are held, per effective draw that is wanted."""
MIN_HELD_DRAWS, MIN_HELD_OF_CHAIN = 20_000, 1_000
"""The smallest limits on the draws that are held: of all chains, and of each."""


class Goal(Observer):
    """The condition of one run, with what it remembers of the draws."""

    def __init__(self, plan: Plan, chains: Chains):
        """The goal of a run from its start."""
        condition = plan.until
        assert condition is not None
        self._plan, self._condition = plan, condition
        most = max(HELD_FACTOR * condition.draws, MIN_HELD_DRAWS) // plan.num_chains
        self._scalars = condition.scalars(_one_draw(plan.program.samplers[0], chains))
        self._held = HeldDraws(self._scalars, plan.num_chains, max(most, MIN_HELD_OF_CHAIN))
        self._modes = known_modes(plan.program.samplers)
        # Before this interval no chain can have enough draws.
        kept_from = 0 if plan.drops_tenth else plan.warm_up(0) // plan.every
        share = WARM_UP_PART / (WARM_UP_PART - 1) if plan.drops_tenth else 1.0
        self._next = kept_from + math.ceil(MIN_DRAWS * share)
        self.standing = Standing(0, plan.total, condition.draws, condition.rhat)

    def go_on(self, notes: dict[str, Any], folder: Folder) -> None:
        """Continue after the checkpoint with these notes."""
        counts = np.array(notes["counts"], int)
        record = StoredRecord(folder, read_structure(folder.file(SHAPES)).kept)
        chains = local_chains(self._plan.program.mesh, self._plan.num_chains)
        self._held.read(record, counts, map(int, chains))
        before = notes.get("until") or {"next": 0}
        self._next = max(self._next, before["next"], notes["done"] + 1)

    def progress(self) -> str:
        """The effective draws so far, for a display."""
        return self.standing.progress

    def notes(self) -> dict[str, Any]:
        """What a checkpoint stores."""
        return {"next": self._next, "standing": list(self.standing)}

    def __call__(self, snapshot: Snapshot) -> bool:
        """Take in a chunk, and look at all draws if that is due."""
        self._held.add(snapshot)
        done = snapshot.step // self._plan.every
        is_last = done >= self._plan.intervals
        if done < self._next and not is_last:
            return False
        standing = raise_together(lambda: self._looked(snapshot.step, is_last))
        # All processes follow the first one, in case they round differently.
        self.standing = Standing(*all_gather_json(list(standing))[0])
        if done >= self._next:
            share = max(self.standing.effective / self._condition.draws, 1e-9)
            growth = min(max(AIM / share, MIN_GROWTH), MAX_GROWTH)
            self._next = max(done + 1, math.ceil(done * growth))
        return self.standing.reached

    def holds(self, done: int) -> bool:
        """The chunk after a check has to wait for it."""
        return done >= self._next

    def next_stop(self, done: int) -> int:
        """The interval of the next check, or one that comes before it."""
        if done < self._next:
            return self._next
        return max(done + 1, math.ceil(done * MIN_GROWTH))

    def _looked(self, step: int, is_last: bool) -> Standing:
        """Where the run stands; up to the first quantity that falls short, unless it is the end."""
        table = self._held.table(self._plan.warm_up(step))
        before = self.standing._replace(steps=step, effective=0.0, of="", rhat=None, rhat_of="")
        if table.num_draws < MIN_LOOK_DRAWS:
            return before
        weights = self._weights(table)
        if weights is None and not is_last:
            wanted = QUICK_FACTOR * self._condition.draws // self._plan.num_chains
            stride = table.num_draws // max(wanted, MIN_QUICK_DRAWS)
            few = self._too_few(table.thinned(stride)) if stride > 1 else None
            if few is not None:
                return before._replace(effective=few.effective, of=few.name)
        found: list[Measured] = []
        for quantity in self._quantities(table):
            found.append(measured(quantity, weights))
            if not is_last and not found[-1].holds(self._condition):
                break
        least = min(found, key=lambda one: one.effective)
        worst = max(found, key=lambda one: one.rhat)
        return before._replace(
            effective=least.effective,
            of=least.name,
            rhat=worst.rhat if math.isfinite(worst.rhat) else None,
            rhat_of=worst.name,
            reached=table.num_draws >= MIN_DRAWS
            and all(one.holds(self._condition) for one in found),
        )

    def _too_few(self, table: Table) -> Measured | None:
        """The first quantity with too few effective draws, if there is one."""
        for quantity in self._quantities(table):
            effective = effective_count(quantity.values, None)
            if effective < self._condition.draws:
                return Measured(quantity.name, effective, math.inf)
        return None

    def _quantities(self, table: Table) -> list[Quantity]:
        """All that is checked; that which fell short the last time comes first."""
        found = quantities(table, [name for _, _, name in self._scalars], self._modes)
        last = (self.standing.of, self.standing.rhat_of)
        return sorted(found, key=lambda quantity: quantity.name not in last)

    def _weights(self, table: Table) -> np.ndarray | None:
        """The weights of draws of all temperatures."""
        if not self._plan.program.keep.all_temperatures or "lambda" not in table.stats:
            return None
        energy = table.stats.get("tempered_energy", table.stats["full_energy"])
        return np.exp(np.stack(log_weights(list(table.stats["lambda"]), list(energy))))


def _one_draw(sampler: Any, chains: Chains) -> Any:
    """The shapes of a draw."""

    def position(state: Any) -> Any:
        return sampler.position(jax.tree.map(lambda x: x[0], state))

    return eqx.filter_eval_shape(position, chains.each.state)
