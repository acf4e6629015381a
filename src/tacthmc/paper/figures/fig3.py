"""The paper's Figure 3 (Appendix A): the coupling λ(ξ), its plateau and the walls."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.dynamics import PowerCoupling
from tacthmc.paper.figures.study import Numbers, Say, Study, new_figure
from tacthmc.report import Table


@dataclass(frozen=True)
class Config:
    """ξ0, ξ1, W0 and n of the paper's synthetic cases."""

    plateau: float = 1 / 3
    unit: float = 1.0
    wall: float = 5 / 3
    power: int = 3
    points: int = 401


def measure(config: Config, say: Say) -> Numbers:
    """λ, λ′ and the effective temperature across the well."""
    coupling = PowerCoupling(config.plateau, config.unit, config.wall, config.power)
    xi = jnp.linspace(-config.wall, config.wall, config.points)
    value, slope = jax.vmap(coupling.value_and_slope)(xi)
    return {
        "plateau": config.plateau,
        "unit": config.unit,
        "wall": config.wall,
        "xi": xi,
        "coupling": value,
        "slope": slope,
        "temperature": 1 / value,
        "efficiency": coupling.efficiency,
        "hottest": coupling.hottest,
        "temperature_at_unit": coupling.temperature(jnp.asarray(config.unit)),
        "steepest_slope": jnp.max(jnp.abs(slope)),
    }


def picture(numbers: Numbers) -> Any:
    """λ with the plateau shaded and the walls dashed; beside it the temperature."""
    figure = new_figure(9.0, 3.2)
    left, right = figure.subplots(1, 2)
    for ax in (left, right):
        ax.axvspan(-numbers["plateau"], numbers["plateau"], color="0.88")
        for side in (-1, 1):
            ax.axvline(side * numbers["wall"], color="C3", linestyle="--")
        ax.set_xlabel("ξ")
    left.plot(numbers["xi"], numbers["coupling"], color="C0")
    left.plot(numbers["xi"], numbers["slope"], color="C0", linewidth=0.8, linestyle=":")
    left.set(title="coupling λ(ξ); dotted: λ′(ξ)", ylim=(min(numbers["slope"]) * 1.1, 1.35))
    left.annotate("plateau: draws are kept", (0, 1.03), ha="center", va="bottom", fontsize=8)
    left.annotate("walls", (0.97 * numbers["wall"], 0.6), ha="right", fontsize=8, color="C3")
    right.plot(numbers["xi"], numbers["temperature"], color="C1")
    right.axhline(1, color="0.5", linewidth=0.6)
    right.set(title="effective temperature 1/λ(ξ)", yticks=np.arange(1, numbers["hottest"] + 1))
    return figure


def table(numbers: Numbers) -> Table:
    """The coupling in four numbers."""
    columns = ("ξ0", "W0", "temperature at ξ1", "at the walls", "efficiency ξ0/W0")
    row = (
        f"{numbers['plateau']:.3f}",
        f"{numbers['wall']:.3f}",
        f"{numbers['temperature_at_unit']:.2f}",
        f"{numbers['hottest']:.2f}",
        f"{numbers['efficiency']:.0%}",
    )
    return Table(columns, (row,))


STUDY = Study(
    "fig3",
    "the coupling λ(ξ) with its plateau and walls",
    Config(),
    Config(),
    measure,
    picture,
    table,
)
