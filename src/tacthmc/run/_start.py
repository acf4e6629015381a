"""Where chains start, checked before anything is sampled."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc._positions import checked, leaf_names
from tacthmc._typing import Position
from tacthmc.potentials import Potential


@dataclass(frozen=True)
class PerChain:
    """Says that an ``init`` has a leading axis of chains, where it could be read otherwise.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    >>> starts = PerChain(jnp.array([-1.0, 1.0]))              # two chains of one number each
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), target, starts, 1_000, 2)
    >>> run.draws.shape
    (2, 18)
    """

    positions: Any


def chain_positions(potential: Potential, init: Any, num_chains: int, fed: Any = None) -> Position:
    """One position per chain, from one for all or from a stack of them.

    Where both readings make sense, a vector is one position and a matrix a stack of vectors;
    :class:`PerChain` says that it is a stack. ``fed`` is a batch, for potentials that draw none by
    themselves.
    """
    if potential.traits.num_chains not in (None, num_chains):
        raise ValueError(
            f"num_chains is {num_chains}, but the potential has numbers for"
            f" {potential.traits.num_chains}"
        )
    said = isinstance(init, PerChain)
    init = checked(init.positions if isinstance(init, PerChain) else init)
    shapes = [leaf.shape for leaf in jax.tree.leaves(init)]
    stacked = all(shape and shape[0] == num_chains for shape in shapes)
    if said and not stacked:
        raise ValueError(
            f"PerChain needs a leading axis of num_chains={num_chains} on every leaf of init; got"
            f" shapes {shapes}"
        )
    if not said and not (stacked and _is_stack(potential, init, fed)):
        init = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_chains, *x.shape)), init)
    _evaluated(potential, jax.tree.map(lambda x: x[0], init), fed)
    return init


def _evaluated(potential: Potential, position: Position, fed: Any) -> None:
    """Trace the potential once: wrong shapes and dtypes show here, as the user's own error."""
    potential = potential.for_chain(0)
    eqx.filter_eval_shape(
        lambda p: potential.value_and_grad(p, potential.batch(jax.random.key(0), p, fed)), position
    )


def _fits(potential: Potential, position: Position, fed: Any) -> bool:
    try:
        _evaluated(potential, position, fed)
    except Exception:
        return False
    return True


def _is_stack(potential: Potential, init: Position, fed: Any) -> bool:
    """Whether an init whose leaves all are as long as there are chains has one for each."""
    one = jax.tree.map(lambda x: x[0], init)
    if not _fits(potential, one, fed):
        return False
    if not _fits(potential, init, fed):
        return True
    # Both readings make sense. A vector is one position, a matrix a stack of vectors.
    return all(leaf.ndim > 1 for leaf in jax.tree.leaves(init))


@eqx.filter_jit
def _first_estimates(
    potential: Potential, positions: Position, key: Array, fed: Any
) -> tuple[Any, Any]:
    def one(chain: Array, position: Position) -> tuple[Any, Any]:
        own = potential.for_chain(chain)
        batch = own.batch(jax.random.fold_in(key, chain), position, fed)
        return own.value_and_grad(position, batch)

    return jax.vmap(one)(jnp.arange(len(jax.tree.leaves(positions)[0])), positions)


def check_start(potential: Potential, positions: Position, key: Array, fed: Any = None) -> None:
    """Refuse a start where position, energy or gradient is not finite."""
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
    energies, gradients = _first_estimates(potential, positions, key, fed)
    bad = ~np.isfinite(np.asarray(energies))
    if bad.any():
        chain = int(np.argmax(bad))
        raise ValueError(
            f"the energy at the start of chain {chain} is {float(energies[chain])}: start where"
            " the log density is finite"
        )
    first_bad(gradients, "the energy's gradient")
