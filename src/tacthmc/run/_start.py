"""The starting positions of chains, and their checks."""

import contextlib
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc._positions import checked, leaf_names, scalar_dtype, total
from tacthmc._typing import Position
from tacthmc.compiler._async_jit import forget_outdated
from tacthmc.dynamics import Sampler
from tacthmc.potentials import FullPotential, Potential
from tacthmc.potentials._base import innermost


@dataclass(frozen=True)
class PerChain:
    """States that an ``init`` has a leading axis of chains, where it could also be one position.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> starts = PerChain(jnp.array([-1.0, 1.0]))              # two chains of one number each
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, starts, 1_000, 2)
    >>> run.draws.shape
    (2, 18)
    """

    positions: Any


def chain_positions(
    potential: Potential, init: Any, num_chains: int, example: Any = None
) -> Position:
    """One position per chain, from one for all or from a stack of them.

    Where both readings are possible, a vector is one position and a matrix is a stack of vectors.
    :class:`PerChain` states that it is a stack. ``example`` is a batch, for streamed posteriors.
    """
    if potential.traits.num_chains not in (None, num_chains):
        raise ValueError(
            f"num_chains is {num_chains}, but the potential has numbers for"
            f" {potential.traits.num_chains}"
        )
    per_chain = isinstance(init, PerChain)
    init = checked(init.positions if isinstance(init, PerChain) else init)
    shapes = [leaf.shape for leaf in jax.tree.leaves(init)]
    stacked = all(shape and shape[0] == num_chains for shape in shapes)
    if per_chain and not stacked:
        raise ValueError(
            f"PerChain needs a leading axis of num_chains={num_chains} on every leaf of init; got"
            f" shapes {shapes}"
        )
    if not per_chain and not (stacked and _is_stack(potential, init, example)):
        init = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), init)
    trace_once(potential, jax.tree.map(lambda x: x[0], init), example)
    return init


def trace_once(potential: Potential, position: Any, example: Any = None) -> None:
    """Trace the potential once, so that wrong shapes and dtypes raise the user's own error.

    If it does not do what it did the last time, all compiled programs are outdated. ``position``
    may be one of shapes.
    """
    key = jax.random.key(0)
    batch = eqx.filter_eval_shape(lambda p: potential.for_chain(0).batch(key, p, example), position)
    forget_outdated(_first_estimate, potential, position, batch)


def _first_estimate(potential: Potential, position: Position, batch: Any) -> Any:
    own = potential.for_chain(0)
    found = own.value_and_grad(position, batch)
    # Those of this package compute both energies by the same functions.
    # Code that was not imported, as in a notebook, may have no module.
    module = type(innermost(own)).full.__module__ or ""
    defines_full = not module.startswith("tacthmc.")
    return (found, own.energy(position)) if defines_full and own.traits.has_energy else found


def check_code(sampler: Sampler, positions: Any) -> None:
    """Forget compiled programs if functions or parts of the user, in a sampler, have changed.

    It makes one step with a simple energy. ``positions`` is a stack of them, or of shapes.
    """
    if _is_ours(sampler):
        return
    position = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    # A sampler that needs another energy is not looked at.
    with contextlib.suppress(Exception):
        forget_outdated(_first_step, sampler, position)


def _first_step(sampler: Sampler, position: Position) -> Any:
    key, energy = jax.random.key(0), FullPotential(_sum_of_squares)
    state = sampler.init(key, position)
    return sampler.advance(sampler.noise(key, state.position), state, energy, ())


def _sum_of_squares(position: Position) -> Any:
    dtype = scalar_dtype(position)
    return total([jnp.sum(x * x) for x in jax.tree.leaves(position)], dtype)


def _is_ours(part: Any) -> bool:
    """Whether a part has no functions, and only classes of this package."""
    if isinstance(part, eqx.Module):
        inside = vars(part).values()
        return type(part).__module__.startswith("tacthmc.") and all(map(_is_ours, inside))
    if isinstance(part, (tuple, list)):
        return all(map(_is_ours, part))
    return not callable(part)


def _fits(potential: Potential, position: Position, example: Any) -> bool:
    try:
        trace_once(potential, position, example)
    except Exception:
        return False
    return True


def _is_stack(potential: Potential, init: Position, example: Any) -> bool:
    """Whether an ``init`` is a stack, if the length of every leaf is the number of chains."""
    one = jax.tree.map(lambda x: x[0], init)
    if not _fits(potential, one, example):
        return False
    if not _fits(potential, init, example):
        return True
    # Both readings are possible. A vector is one position, and a matrix is a stack of vectors.
    return all(leaf.ndim > 1 for leaf in jax.tree.leaves(init))


@eqx.filter_jit
def first_estimates(
    potential: Potential, positions: Position, key: Array, example: Any
) -> tuple[Any, Any]:
    """The energy and gradient of a batch for each chain."""

    def one(chain: Array, position: Position) -> tuple[Any, Any]:
        own = potential.for_chain(chain)
        batch = own.batch(jax.random.fold_in(key, chain), position, example)
        return own.value_and_grad(position, batch)

    return jax.vmap(one)(jnp.arange(len(jax.tree.leaves(positions)[0])), positions)


def check_start(potential: Potential, positions: Position, key: Array, example: Any = None) -> None:
    """Require finite positions, energies and gradients at the start."""
    names = leaf_names(positions)

    def first_bad(tree: Any, what: str) -> None:
        for name, leaf in zip(names, jax.tree.leaves(tree), strict=True):
            bad = ~np.isfinite(np.asarray(leaf)).reshape(len(leaf), -1).all(axis=1)
            if bad.any():
                raise ValueError(
                    f"{what} is not finite at the start of chain {int(np.argmax(bad))}, in"
                    f" leaf {name!r}"
                )

    first_bad(positions, "init")
    energies, gradients = first_estimates(potential, positions, key, example)
    bad = ~np.isfinite(np.asarray(energies))
    if bad.any():
        chain = int(np.argmax(bad))
        raise ValueError(
            f"the energy at the start of chain {chain} is {float(energies[chain])}: start where"
            " the log density is finite"
        )
    first_bad(gradients, "the gradient of the energy")
