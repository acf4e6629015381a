"""Laws with exact draws, and functions that tell another law from them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tacthmc import _checks as checks
from tacthmc._positions import checked, dimension, flatten, scalar_names
from tacthmc._typing import Position, PRNGKey
from tacthmc.potentials import Potential, noisy, potential
from tacthmc.targets import GaussianMixture

EXACT_DRAWS = 1 << 16
"""Exact draws for the ranks, and as many for what the functions average to."""
QUANTILES = 1024
DEGREES = ("place", "width", "skewness", "tails")
"""What the Legendre polynomials of a rank respond to, by their degree."""
DRAWS_FOR_RESPONSE = 1 << 13
MOST_PAIRS = 10
NUDGE = 0.02
"""The relative change of place and width from which the response of a function is computed."""


class KnownLaw(eqx.Module):
    """A potential, and exact draws from exp(−U).

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> law = KnownLaw(tacthmc.potential(lambda x: 0.5 * x**2), jax.random.normal)
    >>> law.draw(jax.random.key(0)).shape
    ()
    """

    potential: Potential
    """Its estimates may be noisy."""
    draw: Callable[[PRNGKey], Any] = eqx.field(static=True)
    """One exact draw, as ``draw(key)``."""


def example_law(force: float = 0.0, energy: float = 0.0) -> KnownLaw:
    """Two overlapping Gaussians in the plane, of unequal weights, with a width of about 1.

    Args:
        force: the standard deviation of the noise of the force.
        energy: that of the energy.

    >>> law = example_law(force=1.0)
    >>> law.draw(jax.random.key(0)).shape
    (2,)
    """
    checks.non_negative("force", force)
    checks.non_negative("energy", energy)
    mixture = GaussianMixture(jnp.array([[-1.0, -0.4], [0.8, 0.5]]), jnp.array([0.35, 0.65]), 0.7)
    exact = potential(mixture)
    with_noise = noisy(exact, force=force, energy=energy) if force or energy else exact
    return KnownLaw(with_noise, lambda key: mixture.draw(key, 1)[0])


class Response(NamedTuple):
    """How much each function changes per unit of an error, (function, scalar)."""

    width: np.ndarray
    """Per relative change of the width."""
    bias: np.ndarray
    """Per standard deviation of a shift."""


class Functions(eqx.Module):
    """Bounded functions of a position: polynomials of the ranks of its scalars among exact draws.

    The first polynomial is the rank itself. If the law is right, every polynomial has mean zero.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    tables: Array
    """The quantiles of each scalar, (scalar, quantile). The energy is the last scalar."""
    pairs: tuple[tuple[int, int], ...] = eqx.field(static=True)

    def __call__(self, scalars: Array) -> Array:
        """All functions of the scalars of one position."""
        levels = jnp.linspace(-1.0, 1.0, self.tables.shape[1], dtype=scalars.dtype)
        x = jax.vmap(lambda v, table: jnp.interp(v, table, levels))(scalars, self.tables)
        legendre = (x, 1.5 * x**2 - 0.5, 2.5 * x**3 - 1.5 * x, 4.375 * x**4 - 3.75 * x**2 + 0.375)
        products = [x[i] * x[j] for i, j in self.pairs]
        together = [jnp.stack(products)] if products else []
        return jnp.concatenate([*legendre, *together])


def scalars_of(law: KnownLaw, position: Position) -> Array:
    """The scalars of a position, and its energy where there is one."""
    flat = flatten(position, jnp.result_type(float))
    if not law.potential.traits.has_energy:
        return flat
    return jnp.concatenate([flat, law.potential.energy(position).astype(flat.dtype)[None]])


class Reference(NamedTuple):
    """What the functions average to under the law, and how they respond to errors."""

    functions: Functions
    mean: np.ndarray
    error: np.ndarray
    response: Response


def exact_positions(law: KnownLaw, key: PRNGKey, count: int) -> Position:
    """Exact draws, stacked."""
    return checked(_drawn(law.draw, jax.random.split(key, count)))


@partial(jax.jit, static_argnums=0)
def _drawn(draw: Callable[[PRNGKey], Any], keys: Array) -> Any:
    return jax.vmap(draw)(keys)


def reference(law: KnownLaw, key: PRNGKey) -> Reference:
    """The functions of a law, their means, and their response, from exact draws."""
    first, second = jax.random.split(key)
    for_tables = exact_positions(law, first, EXACT_DRAWS)
    one = jax.tree.map(lambda x: x[0], for_tables)
    count = dimension(one)
    names = [name for _, _, name in scalar_names(one, count)]
    pairs = tuple((i, j) for j in range(count) for i in range(j))[:MOST_PAIRS]
    scalars = jax.jit(jax.vmap(lambda p: scalars_of(law, p)))
    values = np.asarray(scalars(for_tables), float)
    all_names = [*names, *(["energy"] if values.shape[1] > count else [])]
    tables = np.quantile(values, np.linspace(0, 1, QUANTILES), axis=0).T
    functions = Functions(
        (
            *(f"{what} of {name}" for what in DEGREES for name in all_names),
            *(f"dependence of {names[i]} and {names[j]}" for i, j in pairs),
        ),
        jnp.asarray(tables, jnp.result_type(float)),
        pairs,
    )
    each = jax.jit(jax.vmap(functions))
    seen = scalars(exact_positions(law, second, EXACT_DRAWS))
    found = np.asarray(each(seen), float)
    mean, error = found.mean(axis=0), found.std(axis=0) / EXACT_DRAWS**0.5
    return Reference(functions, mean, error, _response(each, seen[:DRAWS_FOR_RESPONSE], count))


def _response(each: Any, seen: Array, count: int) -> Response:
    values = np.asarray(seen, float)
    mean = np.asarray(each(seen), float).mean(axis=0)
    center, sd = values.mean(axis=0), values.std(axis=0)
    columns: dict[str, list[np.ndarray]] = {"width": [], "bias": []}
    for i in range(count):
        wider, moved = values.copy(), values.copy()
        wider[:, i] = center[i] + (1 + NUDGE) * (values[:, i] - center[i])
        moved[:, i] += NUDGE * sd[i]
        for kind, changed in (("width", wider), ("bias", moved)):
            after = np.asarray(each(jnp.asarray(changed, seen.dtype)), float).mean(axis=0)
            columns[kind].append((after - mean) / NUDGE)
    return Response(np.stack(columns["width"], axis=1), np.stack(columns["bias"], axis=1))
