"""Table B as Markdown and LaTeX: mean ± standard deviation over seeds, and which differ."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tacthmc.paper.figures.study import RESULTS
from tacthmc.paper.table1.configs import CONFIGS
from tacthmc.paper.table1.paper import TASK_TITLES, TITLES
from tacthmc.paper.table1.protocol import CONFIG, TASK_ORDER
from tacthmc.paper.table1.records import Record
from tacthmc.paper.table1.report import RIVALS, SCORES, VERDICT, made_by, verdicts
from tacthmc.paper.table1.reproduce import SEARCH, read_records
from tacthmc.paper.table1.summary import Entry, by_task, commands
from tacthmc.paper.table1.tables import DATA_NOTES, escaped
from tacthmc.report import Table

ABOUT = (
    "Every method had the same search: as many settings, epochs and chains, chosen at each noise"
    " level apart by the log-loss on a tenth of the training images. The final runs are judged on"
    " the test images (those of a quick look on validation images too). ± is the standard deviation"
    " over seeds. Samplers are judged by the average of their predictions over one draw an epoch"
    " after the burn-in, Adam and momentum SGD by their last iterate; several chains by the average"
    " over all of them."
)


def entries_b(records: Iterable[Record]) -> list[Entry]:
    """The entries of final cells, in the table's order; a seed counts once."""
    cells: dict[tuple[Any, ...], dict[int, Record]] = defaultdict(dict)
    final = [r for r in records if r["table"] == "B" and r["stage"] == "final"]
    for record in sorted(final, key=lambda r: bool(r["finished"])):
        names = ("task", "data", "method", "noise", "chains", "epochs", "compute")
        key = (*(record[name] for name in names), _settings(record))
        cells[key][record["seed"]] = record
    found = [_entry([own[seed] for seed in sorted(own)]) for own in cells.values()]
    methods = list(TITLES)
    return sorted(
        found,
        key=lambda e: (
            TASK_ORDER.index(e.task), e.data, _chains(e), e.noise, methods.index(e.method),
            e.epochs, e.settings,
        ),
    )  # fmt: skip


def _settings(record: Record) -> str:
    given = record["settings"]["given"]
    return ", ".join(f"{name} {value:g}" for name, value in sorted(given.items()))


def _entry(own: Sequence[Record]) -> Entry:
    one = own[0]
    names = ("task", "data", "method", "config", "noise", "epochs")
    return Entry(**{name: one[name] for name in names}, settings=_settings(one), records=tuple(own))


def _chains(entry: Entry) -> int:
    return entry.records[0]["chains"]


def _shape(entry: Entry) -> str:
    return f"{_chains(entry)} × {entry.epochs}"


def table(found: Sequence[Entry]) -> Table:
    """The table with a row for each entry."""
    columns = (
        "chains × epochs", "wrong labels", "method", "seeds", *(s[0] for s in SCORES.values()),
        "round trips", "settings", "notes",
    )  # fmt: skip
    return Table(columns, tuple(_row(entry) for entry in found))


def _row(entry: Entry) -> tuple[str, ...]:
    trips = [r["round_trips"] for r in entry.records]
    return (
        _shape(entry),
        f"{entry.noise:.0%}",
        TITLES[entry.method],
        str(len(entry.records)),
        *(entry.shown(score, digits, scale) for score, (_, digits, scale) in SCORES.items()),
        "–" if None in trips else ", ".join(map(str, trips)),
        entry.settings,
        entry.notes or "–",
    )


def markdown_b(found: Sequence[Entry]) -> str:
    """The page with a table for each task, the comparisons, and the commands that made it."""
    parts = ["# Table 1, tuned (Table B)", ABOUT, f"All methods: {CONFIGS[CONFIG].about}.", VERDICT]
    for (task, data), own in by_task(found).items():
        parts += [f"## {TASK_TITLES[task]} (data: {data})", table(own).markdown()]
        parts += [note for name, note in DATA_NOTES.items() if data.startswith(name)]
        judged = verdicts(own, {"chains × epochs": _shape})
        if judged.rows:
            parts += [RIVALS, judged.markdown()]
        parts.append(made_by(own))
    return "\n\n".join(parts) + "\n"


def latex_b(found: Sequence[Entry]) -> str:
    """A LaTeX ``tabular`` for each task: methods by noise levels and scores."""
    parts = [f"% {ABOUT}".replace("±", "+-")]
    for (task, data), own in by_task(found).items():
        noises = sorted({entry.noise for entry in own})
        columns = [(noise, score) for noise in noises for score in SCORES]
        wrong = " & ".join(
            f"\\multicolumn{{{len(SCORES)}}}{{c}}{{{100 * noise:g}\\% permuted}}"
            for noise in noises
        )
        heads = " & ".join(escaped(head) for _ in noises for head, *_ in SCORES.values())
        lines = [
            *(f"% {command}" for command in commands(own)),
            f"% {TASK_TITLES[task]}, data: {data}",
            f"\\begin{{tabular}}{{l{'r' * len(columns)}}}",
            "\\hline",
            f" & {wrong} \\\\",
            f" & {heads} \\\\",
            "\\hline",
        ]
        for title, row in _rows(own).items():
            cells = [_cell(row.get(noise), score) for noise, score in columns]
            lines.append(f"{title} & {' & '.join(cells)} \\\\")
        parts.append("\n".join([*lines, "\\hline", "\\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def _rows(own: Sequence[Entry]) -> dict[str, dict[float, Entry]]:
    rows: dict[str, dict[float, Entry]] = {}
    for entry in own:
        title = f"{TITLES[entry.method]}, ${_chains(entry)}\\times{entry.epochs}$"
        rows.setdefault(title, {})[entry.noise] = entry
    return rows


def _cell(entry: Entry | None, score: str) -> str:
    if entry is None:
        return "--"
    _, digits, scale = SCORES[score]
    shown = entry.shown(score, digits, scale).replace(" ± ", "$\\,\\pm\\,$").replace("–", "--")
    said = entry.notes if score == "accuracy" else ""
    return f"{shown} ({escaped(said)})" if said else shown


def write_table_b(out: Path) -> list[Path]:
    """Write ``table-b.md`` and ``table-b.tex`` from Table B's records in the folder."""
    found = entries_b(read_records(out))
    paths = [out / "table-b.md", out / "table-b.tex"]
    for path, text in zip(paths, (markdown_b(found), latex_b(found)), strict=True):
        path.write_text(text, encoding="utf-8")
    return [out / RESULTS, *([out / SEARCH] if (out / SEARCH).exists() else []), *paths]
