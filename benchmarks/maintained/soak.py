"""Kill a stored run 50 times at random moments; it has to end as if nothing had happened.

    python -m benchmarks soak [--kills 50] [--seed 0]

Kills fall at random times, while rows are being written, before they are shown, and while a
checkpoint is being written.
"""

import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from pathlib import Path

from benchmarks import record
from tests import stored_run
from tests.killed_process import computed_again, start_and_wait
from tests.stored_run import assert_identical, contents

KINDS = ("time", "time", "flush", "publish", "checkpoint")
"""Where it is killed, with their shares."""
QUICK = {"kills": 2}


class Soak:
    """Kills so far, and what was computed again because of them."""

    def __init__(self, folder: Path, seed: int):
        """Run once without being killed, to know how a run has to end."""
        self._choose, self._folder, self._cache = random.Random(seed), folder, folder / "cache"
        start_and_wait(folder / "reference", cache=self._cache)
        self._reference = contents(folder / "reference")
        self.runs, self.kinds, self.again = 0, Counter[str](), [0]

    @property
    def kills(self) -> int:
        """How many kills so far."""
        return self.kinds.total()

    @property
    def _path(self) -> Path:
        return self._folder / str(self.runs)

    def goes_on(self, kills: int) -> bool:
        """Whether something is left to kill or to end."""
        return self.kills < kills or self._path.exists()

    def once(self, kills: int) -> None:
        """Start a run or resume one, and kill it; let it end after enough kills."""
        kind, kill, seconds = self._place()
        if self.kills >= kills:
            kill, seconds = "", None
        sealed = (self._path / "config.json").exists()
        code, errors = start_and_wait(self._path, kill, self._cache, seconds)
        if sealed:
            self._count(errors)
        if code:
            assert code == -9, errors
            self.kinds[kind] += 1
            print(f"kill {self.kills} ({kind}): {self.again[-1]} steps computed again", flush=True)
            return
        assert_identical(contents(self._path), self._reference)
        self.runs += 1

    def _place(self) -> tuple[str, str, float | None]:
        kind = self._choose.choice(KINDS)
        kill = f"{kind}:{self._choose.randint(1, 4)}"
        return (kind, "", self._choose.uniform(0.5, 7.0)) if kind == "time" else (kind, kill, None)

    def _count(self, errors: str) -> None:
        step, steps_again = computed_again(errors) if "goes on" in errors else (0, 0)
        self.again.append(steps_again)
        assert steps_again <= stored_run.CHECKPOINT_STEPS, (step, steps_again)


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)


def main(args: Namespace) -> None:
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(Path(place), args.seed)
        while soak.goes_on(args.kills):
            soak.once(args.kills)
    result = record.about(args, seed=args.seed) | {
        "kills": soak.kills,
        "kills_by_kind": dict(soak.kinds),
        "runs_ended_and_byte_identical": soak.runs,
        "checkpoint_steps": stored_run.CHECKPOINT_STEPS,
        "most_steps_computed_again": max(soak.again),
        "seconds": round(time.perf_counter() - begun),
    }
    record.write(args.out, result)
    print(result)
