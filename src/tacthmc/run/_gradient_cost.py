"""How much arithmetic a step's gradient is, and of which kind, counted before compiling."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from tacthmc.dynamics._low_rank import has_low_rank
from tacthmc.potentials import Potential, forces

HEAVY = 100_000_000
"""Multiplications a step from which a CPU does better with one chain at a time on a core: its
caches then hold that chain's activations, and its matrix products are large enough alone. (Not so
of small ones in loops, see :class:`GradientCost`.)
"""


class GradientCost(NamedTuple):
    """Multiplications in matrix products and convolutions.

    >>> GradientCost(405_000_000, 262_000_000).heavy, GradientCost(405_000_000, 262_000_000).recurrent
    (True, True)
    """

    products: int
    in_loops: int
    """Those of them in loops of which a single turn is not heavy."""

    @property
    def heavy(self) -> bool:
        """Whether there are so many that chains are better not mixed on a core."""
        return self.products >= HEAVY

    @property
    def recurrent(self) -> bool:
        """Whether most come in small portions that wait for each other, as an LSTM's do.

        Cores that share the work of single products have too little to do then in one chain's.
        """
        return 2 * self.in_loops > self.products

    def in_turn(self, cores_share_products: bool) -> bool:
        """Whether chains on a device had better take turns."""
        return self.heavy and not (self.recurrent and cores_share_products)

    def spreads_batches(self, ways: int) -> bool:
        """Whether cores had better share each batch, where chains could be spread ``ways`` ways."""
        return self.heavy and (ways == 1 or not self.recurrent)


def cost_of(jaxpr: Jaxpr) -> GradientCost:
    """What a traced function multiplies.

    Loops count as often as they turn, where that is known; of branches the dearest counts.

    >>> import jax, jax.numpy as jnp
    >>> cost_of(jax.make_jaxpr(lambda a, b: a @ b)(jnp.ones((2, 3)), jnp.ones((3, 5))).jaxpr)
    GradientCost(products=30, in_loops=0)
    """
    return _sum(_of(equation) for equation in jaxpr.eqns)


def _sum(parts: Iterable[GradientCost]) -> GradientCost:
    products, in_loops = 0, 0
    for part in parts:
        products, in_loops = products + part.products, in_loops + part.in_loops
    return GradientCost(products, in_loops)


def _of(equation: Any) -> GradientCost:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        inner = math.prod(left[axis] for axis in contracted)
        return GradientCost(inner * equation.outvars[0].aval.size, 0)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        outputs = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return GradientCost(kernel.size // max(outputs, 1) * equation.outvars[0].aval.size, 0)
    inside = [part for value in params.values() for part in _inside(value)]
    if name == "cond":
        return max(inside, default=GradientCost(0, 0))
    turn = _sum(inside)
    if name != "scan":
        return turn
    turns = params["length"]
    in_loops = turn.in_loops if turn.heavy else turn.products
    return GradientCost(turns * turn.products, turns * in_loops)


def _inside(value: Any) -> list[GradientCost]:
    """The work of the functions that a parameter holds."""
    if isinstance(value, ClosedJaxpr):
        return [cost_of(value.jaxpr)]
    if isinstance(value, Jaxpr):
        return [cost_of(value)]
    if isinstance(value, (tuple, list)):
        return [part for one in value for part in _inside(one)]
    return []


def gradient_cost(potential: Potential, data: Any, position: Any, model: Any) -> GradientCost:
    """That of one step's energy and gradient, of one chain.

    ``data`` is what the potential's batches start with, or a streamed posterior's batch.
    """

    def step(data: Any, position: Any, model: Any) -> Any:
        _, selection = potential.batches.select(data, jax.random.key(0), position)
        return forces(potential, position, potential.batches.fetch(selection), model)

    return cost_of(jax.make_jaxpr(step)(data, position, model).jaxpr)


LARGE = 1 << 13
"""Parameters below which no gradient is heavy enough to be looked at."""


class Placement(NamedTuple):
    """How a device takes its chains."""

    in_turn: bool
    """One after the other."""
    heavy: bool
    """A step is mostly its gradient."""


def placement(
    sampler: Any, potential: Potential, data: Any, position: Any, model: Any
) -> Placement:
    """Of large chains on a CPU, by what a step computes and on how many devices; of shapes alone."""
    if has_low_rank((sampler, potential)):
        # Thin products of several vectors take XLA several times as long as those of each.
        return Placement(in_turn=True, heavy=True)
    cost = gradient_cost(potential.for_chain(0), data, position, model)
    # Without a mesh a CPU is one device, whose cores share what they are given.
    share_products = not jax.sharding.get_abstract_mesh().axis_names
    return Placement(cost.in_turn(share_products), cost.heavy)
