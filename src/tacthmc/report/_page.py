"""The page of a report: one self-contained HTML file with verdict, tables and figures."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from tacthmc._checks import missing_extra
from tacthmc._notebook import settings
from tacthmc._notebook import table as html_table
from tacthmc._notebook import text as _text
from tacthmc.calibration import Calibration
from tacthmc.report._calibration_section import (
    calibration_finding,
    calibration_table,
    rank_plot,
)
from tacthmc.report._draw_figures import comparison
from tacthmc.report._figures import all_plots
from tacthmc.report._mode_table import mode_table
from tacthmc.report._plot import Plot, plain
from tacthmc.report._policy import meta, without_own_styles
from tacthmc.report._shown import ReferenceDensity, Shown
from tacthmc.run._result import Run
from tacthmc.run._summary_text import COLUMNS, cells
from tacthmc.run._verdict import Finding
from tacthmc.store._folder import now, versions

MARKS = {"good": "✓ good", "look": "! look", "bad": "✗ bad"}


def write_report(
    runs: Run | Mapping[str, Run],
    path: str | Path,
    *,
    title: str | None = None,
    parameters: Sequence[str] | None = None,
    references: Mapping[str, ReferenceDensity] | None = None,
    calibration: Calibration | None = None,
) -> Path:
    """Write the report of a run, or of several side by side, to one HTML file.

    Args:
        runs: a run, or several by name.
        path: the file to write, or an existing folder, which gets a ``report.html``.
        title: the title of the page.
        parameters: the scalars to show, by their names in the summary; a leaf's name stands for
            its first eight. By default those that look suspicious, and the first.
        references: known densities by parameter, to plot over the marginals.
        calibration: a calibration of the sampler on this model (:func:`tacthmc.calibrate`), whose
            verdict and rank plots get a section.

    The file needs no network and no other files. Long traces are thinned, and the page says so.

    >>> import jax, jax.numpy as jnp, tacthmc, tempfile
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, jnp.zeros(2), 10_000, 4)
    >>> write_report(run, tempfile.mkdtemp()).name
    'report.html'
    """
    named = {"": runs} if isinstance(runs, Run) else dict(runs)
    if not named:
        raise ValueError("runs must name at least one run; got none")
    path = Path(path)
    if path.is_dir():
        path = path / "report.html"
    references = dict(references or {})
    shown = _all_shown(named, parameters, references)
    title = title or _title(shown)
    text = _page(title, shown, calibration)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
    return path


def _all_shown(
    runs: Mapping[str, Run],
    parameters: Sequence[str] | None,
    references: dict[str, ReferenceDensity],
) -> list[Shown]:
    """The runs as they are shown; those of one shape by the same parameters."""
    shown: list[Shown] = []
    for name, run in runs.items():
        same = [one for one in shown if one.run.draw_shapes() == run.draw_shapes()]
        chosen = same[0].names if same and parameters is None else parameters
        shown.append(Shown(name, run, chosen or None, references))
    return shown


def _title(shown: list[Shown]) -> str:
    if len(shown) > 1:
        return " · ".join(s.name for s in shown)
    path = shown[0].run.path
    return "A run of tacthmc" if path is None else f"Run {path.name}"


def _page(title: str, shown: list[Shown], calibration: Calibration | None) -> str:
    here = files("tacthmc.report")
    css, js = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    plotly = _plotly()
    body = _several(shown) if len(shown) > 1 else _one(shown[0], "")
    if calibration is not None:
        body += _calibrated(calibration)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            meta(scripts=[plotly, js], styles=[css]),
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{_text(title)}</title>",
            '<link rel="icon" href="data:,">',
            f"<style>{css}</style>",
            without_own_styles(plotly),
            f"<script>{plotly}</script>",
            "</head>",
            "<body>",
            f"<header><h1>{_text(title)}</h1>",
            f'<p class="faint">{_text(_what(shown))}</p></header>',
            f"<main>{body}</main>",
            f"<footer>Made by tacthmc {_text(versions().get('tacthmc', ''))}, {now()}.</footer>",
            f"<script>{js}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing_extra("a report", "Plotly", "report") from error
    # Inside a page the text must not end the script element.
    return get_plotlyjs().replace("</script>", "<\\/script>")


def _what(shown: list[Shown]) -> str:
    if len(shown) > 1:
        return f"{len(shown)} runs side by side."
    return shown[0].summary.title + "."


def _one(shown: Shown, prefix: str) -> str:
    summary = shown.summary
    plots = all_plots(shown)
    parts = [
        _headline(summary.headline),
        "<h3>In plain words</h3>",
        _findings(summary.findings),
        "<h3>Parameters</h3>",
        f'<p class="faint">{_text(shown.which)}.</p>',
        _parameters(shown),
        _modes(shown),
        *(_figure(plot, prefix) for plot in plots),
        "" if plots else '<p class="faint">There is nothing to show yet.</p>',
        "<h3>Sampler, device and versions</h3>",
        _facts(shown),
    ]
    return "\n".join(parts)


def _several(shown: list[Shown]) -> str:
    links = "".join(f'<a href="#run{i}">{_text(s.name)}</a>' for i, s in enumerate(shown))
    parts = [f"<nav>{links}</nav>", _compared(shown)]
    side_by_side = comparison(shown)
    if side_by_side is not None:
        parts.append(_figure(side_by_side, "all-"))
    for i, one in enumerate(shown):
        parts += [
            f'<section id="run{i}"><h2>{_text(one.name)}</h2>',
            f'<p class="faint">{_text(one.summary.title)}.</p>',
            _one(one, f"run{i}-"),
            "</section>",
        ]
    return "\n".join(parts)


def _calibrated(calibration: Calibration) -> str:
    parts = ["<h2>Calibration</h2>", _findings([calibration_finding(calibration)])]
    if calibration.rows:
        parts += [_table(*calibration_table(calibration)), _figure(rank_plot(calibration), "")]
    return "\n".join(parts)


def _compared(shown: list[Shown]) -> str:
    head = (
        "",
        "verdict",
        "R-hat",
        "effective draws",
        "per 10⁶ gradients",
        "modes seen by every chain",
        "round trips",
    )
    rows = []
    for one in shown:
        parameter = one.first
        gradients = one.run.num_steps * one.run.num_chains
        seen = ""
        if one.modes is not None and one.mode_of is not None:
            least = min(len(np.unique(chain)) for chain in one.mode_of)
            seen = f"{least} of {len(one.modes.shares)}"
        rows.append(
            (
                one.name,
                one.summary.headline.title,
                f"{parameter.rhat:.3f}",
                f"{parameter.ess:,.0f}",
                f"{1e6 * parameter.ess / gradients:,.1f}" if gradients else "",
                seen,
                f"{np.mean(one.summary.round_trips):,.0f}" if one.run.has_tempering else "",
            )
        )
    names = ", ".join(dict.fromkeys(one.first.name for one in shown))
    note = f'<p class="note">R-hat and effective draws are those of {_text(names)}.</p>'
    return _table(head, rows) + note


def _headline(finding: Finding) -> str:
    return (
        f'<div class="headline {finding.level}">'
        f'<strong class="mark">{_text(finding.title)}</strong><br>{_text(finding.text)}</div>'
    )


def _findings(findings: Sequence[Finding]) -> str:
    items = []
    for finding in findings:
        advice = ""
        if finding.suggestion:
            advice = f'<span class="advice">→ {_text(finding.suggestion)}</span>'
        items.append(
            f'<li class="{finding.level}"><b><span class="mark">{MARKS[finding.level]}</span>'
            f" · {_text(finding.title)}</b>{_text(finding.text)}{advice}</li>"
        )
    return f'<ul class="findings">{"".join(items)}</ul>'


def _parameters(shown: Shown) -> str:
    rows = [cells(row) for row in (*shown.parameters, *shown.summary.functions)]
    notes = "".join(
        f'<p class="note">{_text(_sentence(line))}</p>' for line in shown.summary.looked
    )
    return _table(COLUMNS, rows) + notes


def _modes(shown: Shown) -> str:
    found = mode_table(shown)
    if found is None:
        return ""
    where = f"Mean ± sd of the draws in each mode, searched in {', '.join(found.names)}."
    return f"<h3>Modes</h3>{_table(found.head, found.rows)}<p class='note'>{_text(where)}</p>"


def _sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:]}."


def _facts(shown: Shown) -> str:
    run = shown.run
    config: Mapping[str, Any] = run.config or {}
    facts = [
        ("steps per chain", f"{run.num_steps:,}; the first {run.keep.after:,} are not kept"),
        ("chains", f"{run.num_chains}"),
        ("draws per chain", _counts(run.counts)),
        ("time", f"{run.seconds:,.1f} s, and {run.compile_seconds:.1f} s compiling"),
        ("begun", str(config.get("created", ""))),
        ("device", str(config.get("device", ""))),
        ("versions", ", ".join(f"{k} {v}" for k, v in config.get("versions", {}).items())),
        ("random key", " ".join(str(k) for k in np.ravel(config.get("key", "")))),
    ]
    facts.append(("target", run.facts.name))
    if run.sampler_is_known:
        facts.append(("sampler", type(run.sampler).__name__))
        names = getattr(run.sampler, "__dataclass_fields__", {})
        facts += [(f"· {name}", settings(getattr(run.sampler, name, None))) for name in names]
        if any(s is not run.sampler for s in run.samplers):
            facts.append(("·", "each chain has its own numbers; those of the first are shown"))
    rows = [(name, value) for name, value in facts if value and value != "None"]
    return _table((), rows, "facts")


def _counts(counts: np.ndarray) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    return f'<div class="scroll">{html_table(head, rows, kind)}</div>'


def _figure(plot: Plot, prefix: str) -> str:
    key = prefix + plot.key
    # "<" is escaped, so that no parameter name can end the element.
    spec = json.dumps(
        plain({"data": plot.data, "layout": {**plot.layout, "height": plot.height}}),
        separators=(",", ":"),
        ensure_ascii=False,
    ).replace("<", "\\u003c")
    note = f'<p class="note">{_text(plot.note)}</p>' if plot.note else ""
    return (
        f"<figure><h3>{_text(plot.title)}</h3><figcaption>{_text(plot.caption)}</figcaption>{note}"
        f'<div class="plot" id="{key}" data-height="{plot.height}"></div>'
        f'<script type="application/json" id="{key}-data">{spec}</script></figure>'
    )
