"""What summaries and reports say about a potential, known without its functions."""

from typing import Any, NamedTuple

from tacthmc.potentials import Posterior, Potential, StreamedPosterior
from tacthmc.potentials._base import innermost
from tacthmc.potentials._exact import has_exact_energies


class PotentialFacts(NamedTuple):
    """Facts about a potential, which its run stores as JSON."""

    name: str
    """The name of its class."""
    has_one_energy: bool
    """Whether all chains have the same energy of all data."""
    is_exact: bool
    """Whether its estimates have no noise."""
    is_streamed: bool
    """Whether batches come from a loader."""
    batches_per_epoch: float
    """The cost of an energy of all data, in estimates."""


def potential_facts(potential: Potential) -> PotentialFacts:
    """The facts about a potential.

    >>> import tacthmc
    >>> potential_facts(tacthmc.potential(lambda x: x**2)).is_exact
    True
    """
    inner, traits = innermost(potential), potential.traits
    return PotentialFacts(
        name=type(potential).__name__,
        has_one_energy=traits.has_energy and traits.num_chains is None,
        is_exact=has_exact_energies(potential),
        is_streamed=isinstance(inner, StreamedPosterior),
        batches_per_epoch=(
            inner.num_data / inner.batch_size if isinstance(inner, Posterior) else 1.0
        ),
    )


def facts_from_json(fields: dict[str, Any]) -> PotentialFacts:
    """The facts in the config of a folder."""
    return PotentialFacts(**{name: fields[name] for name in PotentialFacts._fields})
