"""How much arithmetic a step's gradient is, counted before anything is compiled."""

import math
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from tacthmc.potential import Potential

HEAVY = 100_000_000
"""Multiplications a step from which a CPU does better with one chain at a time on a core: its
caches then hold that chain's activations, and its matrix products are large enough alone.
"""


def products(jaxpr: Jaxpr) -> int:
    """Multiplications in the matrix products and convolutions of a traced function.

    Loops count as often as they turn, where that is known; of branches the dearest counts.

    >>> import jax, jax.numpy as jnp
    >>> products(jax.make_jaxpr(lambda a, b: a @ b)(jnp.ones((2, 3)), jnp.ones((3, 5))).jaxpr)
    30
    """
    return sum(_of(equation) for equation in jaxpr.eqns)


def _of(equation: Any) -> int:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        left = equation.invars[0].aval.shape
        return math.prod(left[axis] for axis in contracted) * equation.outvars[0].aval.size
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval
        outputs = kernel.shape[params["dimension_numbers"].rhs_spec[0]]
        return kernel.size // max(outputs, 1) * equation.outvars[0].aval.size
    inside = [_inside(value) for value in params.values()]
    if name == "cond":
        return max((count for counts in inside for count in counts), default=0)
    turns = params.get("length", 1) if name == "scan" else 1
    return turns * sum(map(sum, inside))


def _inside(value: Any) -> list[int]:
    """The counts of the functions that a parameter holds."""
    if isinstance(value, ClosedJaxpr):
        return [products(value.jaxpr)]
    if isinstance(value, Jaxpr):
        return [products(value)]
    if isinstance(value, (tuple, list)):
        return [count for one in value for count in _inside(one)]
    return []


def heavy(potential: Potential, data: Any, position: Any, model: Any) -> bool:
    """Whether one step's gradient has so many multiplications."""
    return gradient_products(potential, data, position, model) >= HEAVY


def gradient_products(potential: Potential, data: Any, position: Any, model: Any) -> int:
    """Multiplications of one step's energy and gradient, of one chain.

    ``data`` is what :meth:`Potential.init_data` gives, or a streamed posterior's batch.
    """

    def step(data: Any, position: Any, model: Any) -> Any:
        _, selection = potential.select(data, jax.random.key(0), position)
        return potential.evaluate(position, potential.fetch(selection), model)

    return products(jax.make_jaxpr(step)(data, position, model).jaxpr)
