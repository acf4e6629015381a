"""Arguments that ``sample`` and ``resume`` share, checked."""

from collections.abc import Sequence
from typing import Any

from tacthmc import _checks as checks
from tacthmc.dynamics._sampler import Sampler
from tacthmc.run._chains import stacked, traced


def one_sampler(sampler: Sampler | Sequence[Sampler], num_chains: int) -> tuple[Sampler, bool, int]:
    """One sampler (with a leading chain axis where there were many), and how many chains."""
    checks.whole("num_chains", num_chains, 1)
    if not isinstance(sampler, (list, tuple)):
        checks.instance("sampler", sampler, Sampler, "one of the package's samplers")
        assert isinstance(sampler, Sampler)
        return traced(sampler), False, num_chains
    if not sampler:
        raise ValueError("sampler is an empty list; expected one sampler per chain")
    for number, one in enumerate(sampler):
        checks.instance(f"sampler[{number}]", one, Sampler, "one of the package's samplers")
    if num_chains not in (1, len(sampler)):
        raise ValueError(
            f"num_chains is {num_chains}, but there are {len(sampler)} samplers: give one per chain"
        )
    return stacked(list(sampler)), True, len(sampler)


def check_checkpoints(seconds: float | None, steps: int | None, keep_every: int) -> None:
    """Refuse intervals between checkpoints that are none, or cannot be kept."""
    if seconds is not None:
        checks.positive("checkpoint_seconds", seconds)
    if steps is not None:
        checks.whole("checkpoint_steps", steps, 1)
        if steps < 2 * keep_every:
            raise ValueError(
                f"checkpoint_steps is {steps}; expected at least 2·keep_every = {2 * keep_every}:"
                " a checkpoint comes after whole intervals of keep_every steps"
            )


def check_callbacks(callbacks: Any) -> None:
    """Refuse what is no sequence of functions."""
    if not isinstance(callbacks, (list, tuple)):
        raise TypeError(f"callbacks must be a list of functions; got {callbacks!r}")
    for number, one in enumerate(callbacks):
        if not callable(one):
            raise TypeError(f"callbacks[{number}] must be a function; got {one!r}")


def check_progress(progress: Any) -> None:
    """Refuse what is neither a choice nor left open."""
    if progress not in (None, True, False):
        raise TypeError(f"progress must be True, False or None; got {progress!r}")
