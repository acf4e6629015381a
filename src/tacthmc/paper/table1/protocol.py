"""Table B's protocol as numbers; ``research/table-b.md`` says it in words."""

from dataclasses import dataclass

from tacthmc.paper import checks
from tacthmc.paper.table1.configs import CONFIGS
from tacthmc.paper.table1.group import burn_in, check_different, check_shares
from tacthmc.paper.table1.paper import NOISES

CONFIG = "tuned"

TASK_ORDER = ("cnn", "rnn", "mlp")
"""The order in which tasks run, since time may be short: CIFAR-10, Fashion-MNIST, EMNIST."""

SEARCH_SEED = 100
"""The seed of all chains of a search, and of no final chain."""

EPOCHS = 300


@dataclass(frozen=True)
class Protocol:
    """How much each method gets; it is the same for all methods."""

    rungs: tuple[tuple[int, int], ...]
    """The search's rungs: how many settings are left, and to which epoch they run."""
    epochs: int
    """The epochs of a final run: of a single chain, or of several chains together."""
    seeds: tuple[int, ...] = (0, 1, 2)
    chains: int = 4
    noises: tuple[float, ...] = NOISES
    compute: str = "float32"

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name, found in (("seeds", self.seeds), ("noises", self.noises)):
            check_different(name, found)
        check_shares(self.noises)
        if SEARCH_SEED in self.seeds:
            raise ValueError(f"seeds must not have the search's, {SEARCH_SEED}; got {self.seeds}")
        if self.epochs % self.chains:
            raise ValueError(
                f"epochs must be a multiple of {self.chains}, so that {self.chains} chains can"
                f" share them; got {self.epochs}"
            )
        counts, ends = zip(*self.rungs, strict=True)
        if sorted(set(counts), reverse=True) != list(counts) or sorted(set(ends)) != list(ends):
            raise ValueError(
                f"rungs must go from many settings to few, and to more epochs; got {self.rungs}"
            )

    @classmethod
    def of(
        cls,
        epochs: int = EPOCHS,
        *,
        seeds: tuple[int, ...] = (0, 1, 2),
        noises: tuple[float, ...] = NOISES,
        compute: str = "float32",
    ) -> "Protocol":
        """12 settings for a fifteenth of the epochs, 4 of them for 40%, 2 of them for all.

        >>> Protocol.of(300).rungs
        ((12, 20), (4, 120), (2, 300))
        """
        checks.whole("epochs", epochs, 1)
        ends = (max(1, epochs // 15), max(2, 2 * epochs // 5), max(3, epochs))
        rungs = tuple(zip((12, 4, 2), ends, strict=True))
        return cls(rungs, epochs, seeds, noises=noises, compute=compute)

    @classmethod
    def quick(
        cls,
        epochs: int = 4,
        *,
        seeds: tuple[int, ...] = (0, 1),
        noises: tuple[float, ...] = (0.0, 0.2),
        compute: str = "float32",
    ) -> "Protocol":
        """A protocol of few epochs, which shows that everything runs, and no more."""
        return cls(((4, 1), (2, 2)), epochs, seeds, chains=2, noises=noises, compute=compute)

    @property
    def held(self) -> int:
        """Epochs for which ξ rests in the search, as in a single chain's final run."""
        return self.burn_in(self.epochs)

    def burn_in(self, epochs: int) -> int:
        """Epochs of a run whose draws do not count."""
        return burn_in(CONFIGS[CONFIG], epochs)

    @property
    def search_epochs(self) -> int:
        """How many epochs all chains of a method's search make at one noise level.

        >>> Protocol.of(300).search_epochs
        1000
        """
        ends = [0, *(end for _, end in self.rungs)]
        return sum(
            count * (end - begun) for (count, end), begun in zip(self.rungs, ends, strict=False)
        )
