"""Pictures, with Matplotlib."""

from typing import Any

from tacthmc.bias import FreeEnergy


def plot_free_energy(pooled: FreeEnergy, chains: list[FreeEnergy], ax: Any = None) -> Any:
    """Plot A(ξ): chains thin, all together thick. Returns the axes."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need Matplotlib: pip install matplotlib") from error
    if ax is None:
        _, ax = plt.subplots()
    for profile in chains:
        ax.plot(profile.xi, profile.value, color="0.7", linewidth=0.8)
    ax.plot(pooled.xi, pooled.value, color="C0", linewidth=2)
    ax.set_xlabel("ξ")
    ax.set_ylabel("free energy A(ξ)")
    return ax
