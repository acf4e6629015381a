"""Figures as plain data for Plotly: traces, layout, and a caption."""

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np

COLORS = (
    "#4c8bf5",
    "#f0862a",
    "#34a874",
    "#e45756",
    "#a678c8",
    "#4fb3bf",
    "#c9a227",
    "#a07862",
)
"""Colors that are easy to distinguish on white and on black."""
GRAY = "#8a8f98"
SHOWN = ("name", "text", "title")
"""The keys of a figure whose texts are shown."""
BAND = "rgba(138, 143, 152, 0.18)"


@dataclass(frozen=True)
class Plot:
    """One figure. ``note`` says what is not shown."""

    key: str
    title: str
    caption: str
    data: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    height: int = 320


def color(index: int) -> str:
    """The color of a chain or a mode."""
    return COLORS[index % len(COLORS)]


def numbers(values: Any, digits: int = 5) -> list[float | None]:
    """Values with few digits for JSON. Values that are not finite become gaps.

    >>> numbers([1 / 3, float("nan")])
    [0.33333, None]
    """
    flat = np.asarray(values, float).ravel()
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in flat]


def line(x: Any, y: Any, name: str, index: int, **more: Any) -> dict[str, Any]:
    """A line trace; ``x`` is an array, or (start, stride)."""
    where = {"x0": x[0], "dx": x[1]} if isinstance(x, tuple) else {"x": numbers(x)}
    style = {"color": color(index), "width": 1.2, **more.pop("line", {})}
    trace = {"type": "scatter", "mode": "lines", "name": name, "line": style}
    return {**trace, **where, "y": numbers(y), **more}


def points(x: Any, y: Any, name: str, shade: str, **more: Any) -> dict[str, Any]:
    """A trace of points; ``x`` is an array, or (start, stride)."""
    where = {"x0": x[0], "dx": x[1]} if isinstance(x, tuple) else {"x": numbers(x)}
    marker = {"color": shade, "size": 4, "opacity": 0.55}
    trace = {"type": "scatter", "mode": "markers", "name": name, "marker": marker}
    return {**trace, **where, "y": numbers(y), **more}


def steps(edges: np.ndarray, heights: Any, name: str, index: int, **more: Any) -> dict[str, Any]:
    """The outline of a histogram, from its edges and heights."""
    x = np.concatenate([edges[:1], edges])
    y = np.concatenate([[0.0], np.asarray(heights, float), [0.0]])
    style = {"shape": "hv", "width": 1.2, **more.pop("line", {})}
    return line(x, y, name, index, line=style, **more)


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title."""
    return {"title": {"text": title}, **more}


def plain(spec: Any) -> Any:
    """A figure whose texts Plotly shows as they are. It takes tags for markup, and $ for TeX.

    >>> plain({"name": "<b>x</b>", "y": [1.0]})
    {'name': '&lt;b&gt;x&lt;/b&gt;', 'y': [1.0]}
    """
    if isinstance(spec, dict):
        return {
            key: html.escape(value, quote=False).replace("$", "&#36;")
            if key in SHOWN and isinstance(value, str)
            else plain(value)
            for key, value in spec.items()
        }
    return [plain(value) for value in spec] if isinstance(spec, list | tuple) else spec


def level(value: float, axis_of: str = "y", dash: str = "dash", **more: Any) -> dict[str, Any]:
    """A straight line across the figure."""
    other = "x" if axis_of == "y" else "y"
    return {
        "type": "line",
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
        f"{axis_of}0": value,
        f"{axis_of}1": value,
        "line": {"color": COLORS[3], "width": 1.2, "dash": dash},
        **more,
    }


def band(low: float, high: float, axis_of: str) -> dict[str, Any]:
    """A shaded band across the figure, for the plateau."""
    other = "x" if axis_of == "y" else "y"
    return {
        "type": "rect",
        "layer": "below",
        f"{other}ref": "paper",
        f"{other}0": 0,
        f"{other}1": 1,
        f"{axis_of}0": low,
        f"{axis_of}1": high,
        "fillcolor": BAND,
        "line": {"width": 0},
    }
