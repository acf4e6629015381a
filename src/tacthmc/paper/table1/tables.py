"""The table as Markdown and LaTeX, beside the paper's numbers."""

from collections.abc import Sequence

from tacthmc.paper.table1.configs import BASELINES, CONFIGS
from tacthmc.paper.table1.paper import SOURCE, TASK_TITLES
from tacthmc.paper.table1.report import RIVALS, VERDICT, made_by, verdicts
from tacthmc.paper.table1.summary import Entry, by_task
from tacthmc.report import Table

COLUMNS = (
    "method (configuration)",
    "wrong labels",
    "epochs",
    "seeds",
    "accuracy, %",
    "paper, %",
    "log-loss",
    "Brier",
    "calibration error",
    "notes",
)

JUDGED = (
    "Adam and momentum SGD are judged by their last iterate, samplers by the average of their"
    " predictions over one draw an epoch after the burn-in, as in the paper. ± is the standard"
    " deviation over seeds."
)

DATA_NOTES = {
    "emnist47": "emnist47 has a split of its own: these are no results on EMNIST Balanced, on which"
    " the paper's are."
}


def table(found: Sequence[Entry]) -> Table:
    """The table with a row for each entry."""
    return Table(COLUMNS, tuple(_row(entry) for entry in found))


def _named(entry: Entry) -> str:
    return f"{entry.config}, {entry.epochs} epochs"


def _row(entry: Entry) -> tuple[str, ...]:
    paper = entry.paper
    return (
        entry.title,
        f"{entry.noise:.0%}",
        str(entry.epochs),
        str(len(entry.records)),
        entry.shown("accuracy", 2, 100),
        "–" if paper is None else f"{100 * paper:.2f}",
        entry.shown("log_loss", 4),
        entry.shown("brier", 4),
        entry.shown("ece", 4),
        entry.notes or "–",
    )


def markdown(found: Sequence[Entry]) -> str:
    """The page with a table for each task."""
    parts = ["# Table 1", JUDGED, BASELINES, VERDICT]
    used = sorted({entry.config for entry in found})
    parts += [f"Configuration *{name}*: {CONFIGS[name].about}." for name in used]
    for (task, data), own in by_task(found).items():
        parts += [f"## {TASK_TITLES[task]} (data: {data})", table(own).markdown()]
        parts += [note for name, note in DATA_NOTES.items() if data.startswith(name)]
        judged = verdicts(own, {"configuration": _named})
        if judged.rows:
            parts += [RIVALS, judged.markdown()]
        parts.append(made_by(own))
    parts.append(f"The paper's numbers: {SOURCE}.")
    return "\n\n".join(parts) + "\n"


def latex(found: Sequence[Entry]) -> str:
    """A LaTeX ``tabular`` for each task: methods by noise levels, with the paper's numbers."""
    parts = [f"% The paper's numbers: {SOURCE}.", f"% {JUDGED}"]
    for (task, data), own in by_task(found).items():
        noises = sorted({entry.noise for entry in own})
        heads = " & ".join(f"{100 * noise:g}\\%" for noise in noises)
        lines = [
            f"% {TASK_TITLES[task]}, data: {data}",
            f"\\begin{{tabular}}{{l{'r' * len(noises)}}}",
            "\\hline",
            f"\\% permuted labels & {heads} \\\\",
            "\\hline",
        ]
        for title, row in _rows(own).items():
            cells = [_latex_cell(row.get(noise)) for noise in noises]
            papers = [_latex_paper(row.get(noise)) for noise in noises]
            lines.append(f"{escaped(title)} & {' & '.join(cells)} \\\\")
            lines.append(f"\\quad paper & {' & '.join(papers)} \\\\")
        parts.append("\n".join([*lines, "\\hline", "\\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def _rows(own: Sequence[Entry]) -> dict[str, dict[float, Entry]]:
    rows: dict[str, dict[float, Entry]] = {}
    for entry in own:
        rows.setdefault(f"{entry.title}, {entry.epochs} epochs", {})[entry.noise] = entry
    return rows


def _latex_cell(entry: Entry | None) -> str:
    if entry is None:
        return "--"
    shown = entry.shown("accuracy", 2, 100).replace(" ± ", "$\\,\\pm\\,$").replace("–", "--")
    return f"{shown} ({escaped(entry.notes)})" if entry.notes else shown


def _latex_paper(entry: Entry | None) -> str:
    paper = None if entry is None else entry.paper
    return "--" if paper is None else f"{100 * paper:.2f}"


def escaped(text: str) -> str:
    r"""The text with LaTeX's special characters escaped.

    >>> print(escaped("learning_rate, 5%"))
    learning\_rate, 5\%
    """
    for sign in "%_&#":
        text = text.replace(sign, "\\" + sign)
    return text
