"""Plots with Matplotlib."""

from typing import Any

import numpy as np

from tacthmc._checks import missing_extra
from tacthmc.dynamics._bias import FreeEnergy


def axes(ax: Any = None, columns: int = 1) -> Any:
    """The given axes, or new ones."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise missing_extra("a plot", "Matplotlib", "report") from error
    if ax is not None:
        return ax
    return plt.subplots(1, columns, figsize=(4 * columns + 1, 3.5))[1]


def plot_free_energy(pooled: FreeEnergy, chains: list[FreeEnergy], ax: Any = None) -> Any:
    """Plot A(ξ), with a thin line for each chain and a thick one for all together.

    Returns the axes.

    >>> flat = FreeEnergy(np.linspace(-1.0, 1.0, 5), np.zeros(5))
    >>> len(plot_free_energy(flat, [flat, flat]).lines)
    3
    """
    ax = axes(ax)
    for profile in chains:
        ax.plot(profile.xi, profile.value, color="0.7", linewidth=0.8)
    ax.plot(pooled.xi, pooled.value, color="C0", linewidth=2)
    ax.set_xlabel("ξ")
    ax.set_ylabel("free energy A(ξ)")
    return ax


def plot_xi(steps: np.ndarray, xi: np.ndarray, plateau: float, wall: float, ax: Any = None) -> Any:
    """Plot ξ over time, with one line per chain and the plateau shaded. Returns the axes.

    >>> steps = np.array([[10, 20, 30], [10, 20, 30]])
    >>> ax = plot_xi(steps, np.zeros((2, 3)), plateau=0.3, wall=1.0)
    >>> len(ax.lines), ax.get_xlabel()
    (2, 'step')
    """
    ax = axes(ax)
    ax.axhspan(-plateau, plateau, color="0.9")
    for chain_steps, chain in zip(steps, xi, strict=True):
        ax.plot(chain_steps, chain, linewidth=0.6)
    ax.set_ylim(-wall, wall)
    ax.set_xlabel("step")
    ax.set_ylabel("ξ")
    return ax


def plot_draws(
    names: list[str], values: list[np.ndarray], weights: np.ndarray | None, ax: Any = None
) -> Any:
    """Plot histograms of scalars, each (chain, draw), with a thin line per chain.

    Returns the axes.

    >>> draws = np.random.default_rng(0).normal(size=(2, 100))
    >>> plot_draws(["theta[0]"], [draws], None).get_xlabel()
    'theta[0]'
    """
    panels = np.atleast_1d(axes(ax, len(names)))
    if len(panels) < len(names):
        raise ValueError(f"ax has {len(panels)} axes for {len(names)} parameters")
    for panel, name, scalar in zip(panels, names, values, strict=False):
        edges = np.histogram_bin_edges(scalar, 60)
        for chain, row in enumerate(scalar):
            part = None if weights is None else weights[chain]
            panel.hist(row, edges, density=True, weights=part, histtype="step", linewidth=0.8)
        panel.set_xlabel(name)
        panel.set_yticks([])
    return panels[0] if len(panels) == 1 else panels
