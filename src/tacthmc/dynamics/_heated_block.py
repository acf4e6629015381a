r"""Heat for a part of the position: the rest stands still while ξ is off its plateau.

A trip to a high temperature forgets all that θ has learnt, and what was slow to learn is slow to
come back. With θ = (a, b) and b the block that is heated, a step off the plateau moves b, ξ and
their momenta and thermostats, and leaves a with its momentum where they are; on the plateau
everything moves. ξ feels what b does to the energy: its fluctuations are those of the block's
dimension, not of D. It costs one gradient a step, as ever, and mini-batches may be of any size.
(:func:`tacthmc.temper_block` heats what a block does to the energy and lets the rest move at unit
temperature; that takes two gradients, and exact ones.)

**Invariant density**: that of :func:`tacthmc.tact`, unchanged. Write its generator as

.. math:: L = L_{b,\xi} + g(\xi)\,L_a, \qquad g = 1 \text{ for } |\xi| \le \xi_0, \text{ else } 0,

L_a being all terms that move a coordinate of a, its momentum, and that coordinate's share in its
thermostat's drive (which is a sum over coordinates). Each coordinate's terms leave π invariant by
themselves: force and drift are Hamiltonian, friction, noise and their share in dz balance. So
L_a f has mean zero under π at every fixed ξ, and L_a does not move ξ: neither does g change that,
∫ g(ξ)·L_a f dπ = ∫ g(ξ)·(∫ L_a f dπ(·|ξ)) dπ(ξ) = 0. On the plateau θ follows the posterior
whatever the bias is, as before. In the splitting g is that of ξ in the middle of the step, where λ
is taken too.

**Assumptions** beside those of :func:`tacthmc.tact`: b and ξ alone have to lead from mode to mode
somewhere between two changes of a, or modes that differ in a are not mixed any better than
without heat. A ξ that moves by itself has *one* bias for all a, while its free energy at a standing
a depends on a: where that differs by more than a few kT from place to place ξ is held back by it. A
ξ that is led (:class:`tacthmc.dynamics.Sweep`) does not mind. Slow sweeps then have b at its conditional law
given a at every temperature, and a at the posterior's: right on the plateau, and not the law of
(a, b) at any other λ, which would need an a that moves there or a ξ that feels the energy. So
evidence ratios and draws of all temperatures (``keep="all"``) are refused for a led ξ.

After a led trip b has to find its way beside the old a before a may move, or a would be drawn to
what b has not yet learnt: the rest goes on standing for ``longer`` steps, at unit temperature. A
step that moves b alone leaves the posterior invariant as well.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from tacthmc import _checks as checks
from tacthmc._positions import dimension
from tacthmc._typing import Number, Position, Scalar
from tacthmc.dynamics._coupling import Coupling
from tacthmc.dynamics._schedule import Sweep


class HeatedBlock(eqx.Module):
    """Which part of the position moves off the plateau, for :func:`tacthmc.tact`; see the module.

    >>> import jax.numpy as jnp, tacthmc
    >>> network = {"body": jnp.zeros(3), "head": jnp.zeros(2)}
    >>> sampler = tacthmc.tact(0.01, heated=HeatedBlock({"body": False, "head": True}))
    >>> hot = sampler.heated.moving(network, jnp.array(2.0), 0, sampler.coupling, None)
    >>> bool(hot["body"]), bool(hot["head"])
    (False, True)
    """

    block: Any
    longer: Number

    def __init__(self, block: Any, longer: int = 0):
        """Heat the leaves that ``block`` has True for; the rest stands still off the plateau.

        Args:
            block: a pytree of booleans that matches the position or is a prefix of it.
            longer: steps for which the rest goes on standing after each trip of a sweep.
        """
        leaves = jax.tree.leaves(block)
        if not all(isinstance(leaf, bool) for leaf in leaves):
            raise TypeError(f"block must be a pytree of booleans; got {block!r}")
        if len(set(leaves)) < 2:
            every = "everything" if all(leaves) and leaves else "nothing"
            raise ValueError(
                f"block picks {every}; expected True for what is heated and False for what stands"
                " still off the plateau"
            )
        checks.whole("longer", longer, 0)
        self.block, self.longer = block, longer

    def free(
        self, xi: Scalar, step: Any, coupling: Coupling, sweep: Sweep | None
    ) -> Bool[Array, ""]:
        """Whether the rest moves too."""
        on_plateau = coupling.on_plateau(xi)
        if sweep is None:
            return on_plateau
        since = sweep.since_trip(step)
        return on_plateau & (since >= jnp.asarray(self.longer).astype(since.dtype))

    def moving(
        self, like: Position, xi: Scalar, step: Any, coupling: Coupling, sweep: Sweep | None
    ) -> Any:
        """For each leaf of a position whether it moves in this step."""
        free = self.free(xi, step, coupling, sweep)

        def leaves(heated: bool, part: Any) -> Any:
            return jax.tree.map(lambda _: free | heated, part)

        try:
            return jax.tree.map(leaves, self.block, like)
        except (ValueError, TypeError) as error:
            raise ValueError(
                "heated.block must match the position or be a prefix of it; expected"
                f" {jax.tree.structure(like)}, got {jax.tree.structure(self.block)}"
            ) from error


def check_heated(heated: HeatedBlock, has: dict[str, Any], sweep: Sweep | None) -> None:
    """Refuse what does not go with it: ``has`` says what there is of that."""
    checks.instance("heated", heated, HeatedBlock, "a tacthmc.dynamics.HeatedBlock")
    for name, is_there in has.items():
        if is_there:
            raise ValueError(f"heated does not go with {name}; expected none of it")
    if sweep is None and heated.longer:
        raise ValueError(
            "heated.longer is for a ξ that is led: without a sweep there is no end of a trip to"
            f" count from; got {heated.longer}"
        )
    if sweep is None:
        return
    longer, period, rest = (checks.concrete(x) for x in (heated.longer, sweep.period, sweep.rest))
    if longer is not None and period is not None and rest is not None and longer >= rest * period:
        raise ValueError(
            "heated.longer must be less than the rest of a sweep, or the rest of the position never"
            f" moves again; got {longer} and a rest of {rest * period:g} steps"
        )


def only(moving: Any, values: Position, otherwise: Position | None = None) -> Position:
    """Values where leaves move; elsewhere zeros, or what is given."""
    other = jax.tree.map(jnp.zeros_like, values) if otherwise is None else otherwise
    return jax.tree.map(lambda m, x, y: jnp.where(m, x, y), moving, values, other)


def share(moving: Any, like: Position) -> Scalar:
    """How much of a position moves."""
    parts = jax.tree.leaves(jax.tree.map(lambda m, x: m.astype(float) * x.size, moving, like))
    # A block without a number in it has no temperature, rather than 0/0.
    return jnp.maximum(jnp.sum(jnp.stack(parts)), 1) / dimension(like)
