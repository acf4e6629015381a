"""The cost of the gradient of a step, counted before compiling."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from tacthmc.dynamics._low_rank import has_low_rank
from tacthmc.potentials import Potential, forces

MIN_HEAVY_PRODUCTS = 100_000_000
"""The number of multiplications per step from which a CPU core is faster with one chain at a time.
Its caches then hold the activations of that chain, and its matrix products are large enough by
themselves. (Small products in loops are not, see :class:`GradientCost`.)
"""


class GradientCost(NamedTuple):
    """The number of multiplications in matrix products and convolutions.

    >>> cost = GradientCost(405_000_000, 262_000_000)
    >>> cost.heavy, cost.recurrent
    (True, True)
    """

    products: int
    in_loops: int
    """Those in loops with a small cost per iteration."""

    @property
    def heavy(self) -> bool:
        """Whether a core is faster with one chain at a time."""
        return self.products >= MIN_HEAVY_PRODUCTS

    @property
    def recurrent(self) -> bool:
        """Whether most products are small and wait for each other, as in an LSTM.

        If cores share the work of single products, one chain then does not keep them busy.
        """
        return 2 * self.in_loops > self.products

    def in_turn(self, cores_share_products: bool) -> bool:
        """Whether the chains of a device should run one after the other."""
        return self.heavy and not (self.recurrent and cores_share_products)

    def spreads_batches(self, ways: int) -> bool:
        """Whether cores should share each batch, if chains can be spread over ``ways`` cores."""
        return self.heavy and (ways == 1 or not self.recurrent)


def cost_of(jaxpr: Jaxpr) -> GradientCost:
    """The number of multiplications of a traced function.

    Loops of known length count once for each iteration. Of several branches the most expensive one
    counts.

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
    body = _sum(inside)
    if name != "scan":
        return body
    length = params["length"]
    in_loops = body.in_loops if body.heavy else body.products
    return GradientCost(length * body.products, length * in_loops)


def _inside(value: Any) -> list[GradientCost]:
    """The costs of the functions in a parameter of an operation."""
    if isinstance(value, ClosedJaxpr):
        return [cost_of(value.jaxpr)]
    if isinstance(value, Jaxpr):
        return [cost_of(value)]
    if isinstance(value, (tuple, list)):
        return [part for one in value for part in _inside(one)]
    return []


def gradient_cost(potential: Potential, data: Any, position: Any, model: Any) -> GradientCost:
    """The cost of the energy and gradient in one step of one chain.

    ``data`` is the initial memory of the batches, or a batch of a streamed posterior.
    """

    def step(data: Any, position: Any, model: Any) -> Any:
        _, selection = potential.batches.select(data, jax.random.key(0), position)
        return forces(potential, position, potential.batches.fetch(selection), model)

    return cost_of(jax.make_jaxpr(step)(data, position, model).jaxpr)


MIN_LARGE_PARAMETERS = 1 << 13
"""The number of parameters below which the cost of the gradient is not counted."""


class Placement(NamedTuple):
    """How a device runs its chains."""

    in_turn: bool
    """Whether chains run one after the other."""
    heavy: bool
    """Whether the gradient dominates the cost of a step."""


def placement(
    sampler: Any, potential: Potential, data: Any, position: Any, model: Any
) -> Placement:
    """How a CPU runs large chains, from the cost of a step and the number of devices."""
    if has_low_rank((sampler, potential)):
        # A thin matrix times several vectors takes XLA several times as long as times each vector.
        return Placement(in_turn=True, heavy=True)
    cost = gradient_cost(potential.for_chain(0), data, position, model)
    # Without a mesh a CPU is one device, whose cores share single operations.
    share_products = not jax.sharding.get_abstract_mesh().axis_names
    return Placement(cost.in_turn(share_products), cost.heavy)
