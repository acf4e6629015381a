"""What a summary says of models that are not what was meant: data ignored, parameters left free."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.potentials._base import innermost
from tacthmc.potentials._posterior import Posterior
from tacthmc.potentials._streamed import HostBatches, StreamedPosterior

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_SLOPE_ERROR = 0.3
"""The relative error of changes of the energy by its gradients that short moves may have."""
TRIED_EXAMPLES = 64
"""The number of examples whose likelihoods are compared."""


def model_notes(run: "Run") -> list[str]:
    """Warnings about the potential of a run, from its gradients and likelihoods at draws."""
    if not run.program_is_known or not run.num_draws:
        return []
    found = run.width
    notes = []
    if found.flat:
        notes.append(
            f"! the energy does not depend on {' and '.join(found.flat)}: its draws follow no law."
            " Give it a prior, or leave it out"
        )
    if not found.flat and not _is_slope(found.slope):
        notes.append(
            f"! energies change {found.slope:.2g} times as much as their gradients say: a part of"
            " the energy has no gradient or a wrong one (stop_gradient, rounding, a derivative"
            " written by hand), and chains do not feel it"
        )
    if found.impossible:
        notes.append(
            f"! {found.impossible} of {found.num_draws} draws have an energy that no draw from"
            " exp(−U) has: chains went where the energy is large and its gradient does not say so,"
            " as beyond a wall, or have not arrived yet. Transform a bounded parameter so that it"
            " ranges over all numbers"
        )
    return notes + _ignored_data(run) + _wrong_number(run)


def _is_slope(slope: float) -> bool:
    """Whether gradients are those of the energy, as far as it is known."""
    return bool(np.isnan(slope) or abs(slope - 1) <= MAX_SLOPE_ERROR)


def _ignored_data(run: "Run") -> list[str]:
    """A warning if likelihoods are the same for all examples, or at all positions."""
    inner = innermost(run.potential)
    if not isinstance(inner, Posterior) or inner.model_state is not None:
        return []
    if run.potential.traits.num_chains is not None:
        return []
    examples = jax.tree.map(lambda x: x[:TRIED_EXAMPLES], inner.data)
    if _all_alike(examples):
        return []
    first, last = (
        _likelihoods(run, inner, run.whole(run.one_draw(chain, draw)), examples)
        for chain, draw in ((0, 0), (run.num_chains - 1, run.num_draws - 1))
    )
    if np.array_equal(first, last):
        return [
            "! the likelihood is the same at different draws: it does not depend on the position,"
            " so these are draws from the prior. Use the first argument of log_likelihood"
        ]
    if len(np.unique(first)) == len(np.unique(last)) == 1:
        return [
            f"! all of {len(first)} different examples have the same likelihood: it ignores its"
            " data. Use the second argument of log_likelihood"
        ]
    return []


def _likelihoods(run: "Run", inner: Posterior, position: Any, examples: Any) -> np.ndarray:
    with jax.enable_x64(run.x64):
        found = inner.log_likelihoods(inner.log_likelihood, position, examples, None)[0]
    return np.asarray(found)


def _all_alike(examples: Any) -> bool:
    return all(bool(jnp.all(x == x[:1])) for x in jax.tree.leaves(examples))


def _wrong_number(run: "Run") -> list[str]:
    """A warning if the loader knows another number of examples than the posterior was given."""
    inner = innermost(run.potential)
    if not isinstance(inner, StreamedPosterior) or inner.source is None:
        return []
    known = _examples_of(inner.source.loader)
    if known is None or known == inner.num_data:
        return []
    return [
        f"! num_data is {inner.num_data:,}, and the loader goes through {known:,} examples: the"
        f" likelihood counts {inner.num_data / known:.3g} times, so widths are wrong by about"
        f" {np.sqrt(known / inner.num_data):.2g}. Give streamed the number of the loader"
    ]


def _examples_of(loader: Any) -> int | None:
    """The number of examples, if the loader says it: by its data set, or as a list of batches."""
    if isinstance(loader, HostBatches):
        return loader.order.num_data
    for name in ("dataset", "data_source"):
        part: Any = getattr(loader, name, None)
        if hasattr(part, "__len__"):
            return len(part)
    if isinstance(loader, (list, tuple)):
        return sum(len(jax.tree.leaves(batch)[0]) for batch in loader)
    return None
