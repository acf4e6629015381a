"""Named configurations: all choices that the paper leaves open or its authors' code makes."""

from dataclasses import dataclass
from typing import Literal

from tacthmc.paper.table1.paper import EPOCHS

BASELINES = (
    "The paper tunes its baselines and does not say to what. Here SGHMC and SGNHT have TACT-HMC's"
    " η_θ, c_θ (and γ_θ) and K, Adam and momentum SGD the rate of the authors' code, 1e-3 (momentum"
    " 0.9), unless settings say otherwise."
)

OPTIMIZERS = ("adam", "momentum_sgd")
"""The methods that are judged by their last iterate, as in the paper. All others are judged by the
average over draws."""


@dataclass(frozen=True)
class Config:
    """What one word on the command line stands for."""

    about: str
    variant: Literal["algorithm1", "splitting", "authors"]
    """The variant of TACT-HMC, see :func:`tacthmc.samplers.tact_from_tuple`."""
    euler: bool
    """Whether SGHMC and SGNHT take Algorithm 1's steps instead of the splitting's."""
    relative_inertia: float | None = None
    """Γ of all thermostats, in steps; None for the 7-tuple's γ."""
    per_tensor: bool = False
    """Whether SGNHT has a thermostat for each tensor."""
    label_kind: Literal["permutation", "random per batch"] = "permutation"
    pixels: Literal["plain", "train", "authors"] = "plain"
    """0 to 1 as they are, or normalized as in :func:`tacthmc.paper.data.normalized`."""
    epochs: int = EPOCHS
    tact_epochs: int = EPOCHS
    burn_in: float = 0.3
    """The share of epochs whose draws do not count."""
    scheduled: bool = False
    """Whether TACT-HMC tempers the likelihood alone, with a ξ on a schedule: ξ rests for the
    burn-in and is then swept on an even slope of λ. Otherwise ξ is the variant's."""


CONFIGS: dict[str, Config] = {
    "paper": Config(
        "the paper's 7-tuples (per datum), Algorithm 1 to the letter: Euler, γ = 1, the bias"
        " averaged with the global 1/k, momenta redrawn every K steps on the plateau",
        variant="algorithm1",
        euler=True,
    ),
    "splitting": Config(
        "the paper's 7-tuples (per datum) with this library's integrator and bias, γ = 1",
        variant="splitting",
        euler=False,
    ),
    "adapted": Config(
        "the paper's 7-tuples (per datum) with this library's integrator and bias, and thermostats"
        " whose inertia is relative, Γ = 100 steps: at η/N ~ 1e-8 one with γ = 1 hardly moves in a"
        " million steps",
        variant="splitting",
        euler=False,
        relative_inertia=100.0,
    ),
    "authors": Config(
        "the choices of the authors' code: its coupling, metadynamics, η_ξ = η_θ/100, a"
        " thermostat per tensor, labels randomized per batch, pixels normalized as MNIST's,"
        " 2,000 epochs for TACT-HMC",
        variant="authors",
        euler=True,
        per_tensor=True,
        label_kind="random per batch",
        pixels="authors",
        tact_epochs=2 * EPOCHS,
    ),
    "tuned": Config(
        "this library's integrator and bias with thermostats of relative inertia, pixels normalized"
        " by the training images' mean and standard deviation; TACT-HMC tempers the likelihood, its"
        " ξ is held at 0 for the burn-in and swept from then on, λ falls evenly along it, and"
        " nothing is kept after a sweep until the energy has stopped falling",
        variant="splitting",
        euler=False,
        relative_inertia=100.0,
        pixels="train",
        scheduled=True,
    ),
}
