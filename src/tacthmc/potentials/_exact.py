"""Whether the energies of a potential are exact."""

from tacthmc.potentials._base import Potential
from tacthmc.potentials._batches import Batches, NoBatches, ResidentBatches
from tacthmc.potentials._subset import SubsetBatches


def has_exact_energies(potential: Potential) -> bool:
    """Whether ``full`` gives the energy that estimates have without noise.

    It does not for mini-batches and for added noise, where each estimate is another one.
    """
    return potential.traits.has_energy and _takes_all_data(potential.batches)


def _takes_all_data(batches: Batches) -> bool:
    while isinstance(batches, SubsetBatches):
        batches = batches.inner
    if isinstance(batches, ResidentBatches):
        return batches.order.batch_size == batches.order.num_data
    return isinstance(batches, NoBatches)


def description(potential: Potential) -> str:
    """Why the energies of a potential are not exact."""
    if not potential.traits.has_energy:
        return f"a {type(potential).__name__} without a full-data energy"
    batches = potential.batches
    if isinstance(batches, ResidentBatches):
        return f"batches of {batches.order.batch_size} out of {batches.order.num_data} examples"
    return f"a {type(potential).__name__} with {type(batches).__name__}"
