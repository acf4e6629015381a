"""How much arithmetic a step's gradient is, and of which kind, counted before compiling."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from tacthmc.potentials._base import Potential

HEAVY = 100_000_000
"""Multiplications a step from which a CPU does better with one chain at a time on a core: its
caches then hold that chain's activations, and its matrix products are large enough alone. (Not so
of small ones in loops, see :class:`Work`.)
"""


class Work(NamedTuple):
    """Multiplications in matrix products and convolutions.

    >>> Work(405_000_000, 262_000_000).heavy, Work(405_000_000, 262_000_000).recurrent
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


def work(jaxpr: Jaxpr) -> Work:
    """What a traced function multiplies.

    Loops count as often as they turn, where that is known; of branches the dearest counts.

    >>> import jax, jax.numpy as jnp
    >>> work(jax.make_jaxpr(lambda a, b: a @ b)(jnp.ones((2, 3)), jnp.ones((3, 5))).jaxpr)
    Work(products=30, in_loops=0)
    """
    return _sum(_of(equation) for equation in jaxpr.eqns)


def _sum(parts: Iterable[Work]) -> Work:
    products, in_loops = 0, 0
    for part in parts:
        products, in_loops = products + part.products, in_loops + part.in_loops
    return Work(products, in_loops)


def _of(equation: Any) -> Work:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        inner = math.prod(left[axis] for axis in contracted)
        return Work(inner * equation.outvars[0].aval.size, 0)
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        outputs = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return Work(kernel.size // max(outputs, 1) * equation.outvars[0].aval.size, 0)
    inside = [part for value in params.values() for part in _inside(value)]
    if name == "cond":
        return max(inside, default=Work(0, 0))
    turn = _sum(inside)
    if name != "scan":
        return turn
    turns = params["length"]
    in_loops = turn.in_loops if turn.heavy else turn.products
    return Work(turns * turn.products, turns * in_loops)


def _inside(value: Any) -> list[Work]:
    """The work of the functions that a parameter holds."""
    if isinstance(value, ClosedJaxpr):
        return [work(value.jaxpr)]
    if isinstance(value, Jaxpr):
        return [work(value)]
    if isinstance(value, (tuple, list)):
        return [part for one in value for part in _inside(one)]
    return []


def gradient_work(potential: Potential, data: Any, position: Any, model: Any) -> Work:
    """That of one step's energy and gradient, of one chain.

    ``data`` is what :meth:`Potential.init_data` gives, or a streamed posterior's batch.
    """

    def step(data: Any, position: Any, model: Any) -> Any:
        _, selection = potential.select(data, jax.random.key(0), position)
        return potential.evaluate(position, potential.fetch(selection), model)

    return work(jax.make_jaxpr(step)(data, position, model).jaxpr)
