"""Table B's protocol as numbers; docs/table-b.md says it in words."""

from dataclasses import dataclass

from tacthmc import _checks as checks
from tacthmc.paper.table1.configs import CONFIGS
from tacthmc.paper.table1.group import burn_in
from tacthmc.paper.table1.paper import NOISES

CONFIG = "tuned"

TASK_ORDER = ("cnn", "rnn", "mlp")
"""What runs first where time is short: CIFAR-10, Fashion-MNIST, EMNIST."""

SEARCH_SEED = 100
"""Of all chains of a search, and of no final one."""

EPOCHS = 300


@dataclass(frozen=True)
class Protocol:
    """How much each method gets; the same for all of them."""

    rungs: tuple[tuple[int, int], ...]
    """Of the search: how many settings are left, and to which epoch they run."""
    epochs: int
    """Of a single chain; of all chains together where there are many."""
    seeds: tuple[int, ...] = (0, 1, 2)
    chains: int = 4
    noises: tuple[float, ...] = NOISES
    compute: str = "float32"

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name, found in (("seeds", self.seeds), ("noises", self.noises)):
            if not found or len(set(found)) < len(found):
                raise ValueError(f"{name} must be different numbers, at least one; got {found}")
        if SEARCH_SEED in self.seeds:
            raise ValueError(f"seeds must not have the search's, {SEARCH_SEED}; got {self.seeds}")
        for noise in self.noises:
            if not 0 <= noise <= 1:
                raise ValueError(f"noise is a share of the labels, 0 to 1; got {noise}")
        if self.epochs % self.chains:
            raise ValueError(
                f"epochs must be a multiple of {self.chains}, for {self.chains} chains to have as"
                f" many together; got {self.epochs}"
            )
        counts, ends = zip(*self.rungs, strict=True)
        if sorted(set(counts), reverse=True) != list(counts) or sorted(set(ends)) != list(ends):
            raise ValueError(
                f"rungs must go from many settings to few, on and on; got {self.rungs}"
            )

    @classmethod
    def of(cls, epochs: int = EPOCHS, **options: object) -> "Protocol":
        """12 settings for a fifteenth of the epochs, 4 of them for 40%, 2 of them for all.

        >>> Protocol.of(300).rungs
        ((12, 20), (4, 120), (2, 300))
        """
        checks.whole("epochs", epochs, 1)
        ends = (max(1, epochs // 15), max(2, 2 * epochs // 5), max(3, epochs))
        return cls(tuple(zip((12, 4, 2), ends, strict=True)), epochs, **options)  # pyright: ignore[reportArgumentType]

    @classmethod
    def quick(cls, epochs: int = 4, **options: object) -> "Protocol":
        """A look: that all of it runs, no more."""
        given = {"seeds": (0, 1), "noises": (0.0, 0.2), "chains": 2} | options
        return cls(((4, 1), (2, 2)), epochs, **given)  # pyright: ignore[reportArgumentType]

    @property
    def held(self) -> int:
        """Epochs for which ξ is held in the search, as in a single chain's final run."""
        return self.burn_in(self.epochs)

    def burn_in(self, epochs: int) -> int:
        """Of a run of so many epochs."""
        return burn_in(CONFIGS[CONFIG], epochs)

    @property
    def search_epochs(self) -> int:
        """Chain-epochs of a method's search at one noise level.

        >>> Protocol.of(300).search_epochs
        1000
        """
        ends = [0, *(end for _, end in self.rungs)]
        return sum(
            count * (end - begun) for (count, end), begun in zip(self.rungs, ends, strict=False)
        )
