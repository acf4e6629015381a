"""``tact()`` without numbers beside other samplers, on targets whose answers are known exactly.

    python -m benchmarks modes [--only grid two-modes-16 …] [--rivals tact smc …]
                               [--repeats 16] [--first-seed 0] [--budget 2000000]
    python -m benchmarks modes --join FILE…

Every contestant gets the same number of gradients. A rival has a grid of settings. Each is measured
with a few seeds, the best few get the others, and the best of these counts; what the grid costs
does not. A row is a few seeds of one setting on one target. Rows that the file has are skipped.
The second form measures nothing: it adds the rows of other files, as several machines make them.
"""

import time
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.modes.judge import judged
from benchmarks.modes.rivals import RIVALS, Rival
from benchmarks.modes.score import Score, score
from benchmarks.modes.targets import TARGETS, Target, target
from benchmarks.record import RecordError, Rows, about, add_again, opened

SAME = ("target", "rival", "setting", "budget", "first")
BLOCK, FINALISTS = 4, 3
"""The number of seeds of a row, and the number of settings that get all seeds."""
QUICK = {
    "only": ["ring"],
    "rivals": ["tact", "parallel-tempering"],
    "repeats": 1,
    "budget": 50_000.0,
    "settings": 1,
}


def arguments(parser: ArgumentParser) -> None:
    """The targets, the contestants and the sizes."""
    parser.add_argument("--only", nargs="*", metavar="TARGET", default=[], help=", ".join(TARGETS))
    parser.add_argument("--rivals", nargs="*", metavar="NAME", default=[], help=", ".join(RIVALS))
    parser.add_argument("--repeats", type=int, default=16, help="independent seeds (%(default)s)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=2e6, help="gradients (%(default)g)")
    parser.add_argument("--settings", type=int, help="only the first so many of each grid")
    parser.add_argument("--join", nargs="+", type=Path, metavar="FILE", help="add their rows")
    add_again(parser)


def main(args: Namespace) -> None:
    for name, known in (("only", TARGETS), ("rivals", RIVALS)):
        if strange := [one for one in getattr(args, name) if one not in known]:
            raise RecordError(f"--{name} takes {', '.join(known)}; got {', '.join(strange)}")
    facts = {"grids": {name: list(rival.settings) for name, rival in RIVALS.items()}}
    rows = Rows(args.out, about(args, **facts), SAME, again=args.again)
    scores = {_place(one): one for one in (opened(args.out) or {}).get("scores", [])}
    if args.join:
        join(rows, args)
        return
    broken = []
    for name in args.only or TARGETS:
        for rival in args.rivals or RIVALS:
            contest = Contest(rows, target(name), rival, args)
            try:
                contest.run()
            except Exception as error:  # the others go on, and the next call tries again
                traceback.print_exc()
                broken.append(f"{rival} on {name}: {type(error).__name__}")
            found = contest.summary()
            rows.write(scores=list((scores := scores | {_place(found): found}).values()))
    if broken:
        raise RecordError("not measured: " + "; ".join(broken))


def join(rows: Rows, args: Namespace) -> None:
    """Add the rows of other files, and score all rows anew."""
    for file in args.join:
        if not (found := opened(file)) or not isinstance(found, dict) or "rows" not in found:
            raise RecordError(f"--join takes files of this benchmark; {file} has no rows")
        rows.join(found)
    measured = {(row["target"], row["rival"]) for row in rows.rows}
    contests = [
        Contest(rows, target(name), rival, args)
        for name in TARGETS
        for rival in RIVALS
        if (name, rival) in measured
    ]
    rows.write(scores=[contest.summary() for contest in contests])


def _place(summary: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(summary[key] for key in ("target", "rival", "budget"))


class Contest:
    """One contestant on one target: its settings, and what was measured of them."""

    def __init__(self, rows: Rows, of: Target, name: str, args: Namespace):
        """Join a record and what to measure."""
        self.rows, self.of, self.name, self.args = rows, of, name, args
        self.rival: Rival = RIVALS[name]

    def run(self) -> None:
        """Try all settings with the first seeds, and the best few with all."""
        tried = [setting for setting in self._settings() if not self._why_not(setting)]
        if not tried:
            self._skip(self._why_not(self._settings()[0]))
            return
        first, *others = blocks(self.args.first_seed, self.args.repeats)
        for setting in tried:
            self._measure(setting, first)
        for setting in self.best(tried)[:FINALISTS] if others else []:
            for seeds in others:
                self._measure(setting, seeds)

    def summary(self) -> dict[str, Any]:
        """What pages show: the facts of the target, and the score of the best setting."""
        found: dict[str, Any] = {
            "target": self.of.name,
            "rival": self.name,
            "budget": self.args.budget,
            "about": self.of.about,
            "dimension": self.of.dimension,
            "kind": self.of.kind,
            "log_z_truth": self.of.log_z,
        }
        measured = [setting for setting in self._settings() if self._repeats(setting)]
        if not measured:
            return found | {"skipped": self._why_not(self._settings()[0])}
        full = max(len(self._repeats(setting)) for setting in measured)
        finalists = [one for one in measured if len(self._repeats(one)) == full]
        best = self.best(finalists)[0]
        one = self._score(best)
        verdict = {"counts": one.counts, "crosses": one.crosses, "honesty": one.honesty}
        return found | {"setting": best, "tried": len(measured)} | one._asdict() | verdict

    def _settings(self) -> list[str]:
        return list(self.rival.settings)[: self.args.settings]

    def _why_not(self, setting: str) -> str:
        return self.rival.why_not(self.of, self.rival.settings[setting], self.args.budget)

    def best(self, settings: Sequence[str]) -> list[str]:
        """The settings from the best to the worst; those that do not count come last."""

        def rank(setting: str) -> tuple[bool, float]:
            found = self._score(setting)
            return not found.counts, -found.effective

        return sorted(settings, key=rank)

    def _repeats(self, setting: str) -> list[dict[str, Any]]:
        """All that is known of a setting, in this run and in earlier ones."""
        wanted = self._row(setting).items()
        rows = [row for row in self.rows.rows if all(row.get(key) == at for key, at in wanted)]
        return [one for row in rows for one in row["repeats"]]

    def _score(self, setting: str) -> Score:
        return score(self.of.truth, self._repeats(setting))

    def _row(self, setting: str, first: int | None = None) -> dict[str, Any]:
        row = {"target": self.of.name, "rival": self.name, "setting": setting}
        row["budget"] = self.args.budget
        return row if first is None else row | {"first": first}

    def _skip(self, reason: str) -> None:
        row = self._row("", 0)
        if not self.rows.has(row):
            self.rows.add(row | {"skipped": reason, "repeats": []})
            print(self.of.name, self.name, f"skipped: {reason}", flush=True)

    def _measure(self, setting: str, seeds: Sequence[int]) -> None:
        row = self._row(setting, seeds[0])
        if self.rows.has(row):
            return
        begun = time.perf_counter()
        samples = self.rival.run(self.of, self.rival.settings[setting], self.args.budget, seeds)
        row["repeats"] = [judged(self.of, sample) for sample in samples]
        row["seconds"] = round(time.perf_counter() - begun, 1)
        self.rows.add(row)
        found = score(self.of.truth, row["repeats"])
        print(
            f"{self.of.name:18} {self.rival.name:18} {setting:34} seeds {seeds[0]}-{seeds[-1]}:"
            f" {found.effective:10.4g} per 10⁶ gradients, error {found.error:.3g},"
            f" {row['seconds']} s{'' if found.counts else ', does not count'}",
            flush=True,
        )


def blocks(first: int, count: int) -> list[list[int]]:
    """Seeds in groups of a few.

    >>> blocks(0, 6)
    [[0, 1, 2, 3], [4, 5]]
    """
    seeds = list(range(first, first + count))
    return [seeds[i : i + BLOCK] for i in range(0, count, BLOCK)]
