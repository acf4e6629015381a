"""Positions with boundaries, such as scales and probabilities, in free coordinates."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer

from tacthmc._typing import Batch, Scalar
from tacthmc.potentials._base import Energy, FullPotential, Potential, WrappedPotential
from tacthmc.potentials._batch_noise import CovarianceTerm
from tacthmc.potentials._posterior import DataPotential
from tacthmc.potentials._transforms import Transform


class Constraints(eqx.Module):
    """Transforms by name, for some of the leaves of a position."""

    transforms: Any

    def constrain(self, free: Any) -> Any:
        """The position with constrained values."""
        return _mapped(self.transforms, free, lambda transform, leaf: transform.constrain(leaf))

    def free(self, position: Any) -> Any:
        """The free coordinates of a position."""
        return _mapped(self.transforms, position, _freed)

    def log_jacobian(self, free: Any) -> Scalar:
        """log |det ∂θ/∂φ|."""
        found = _mapped(self.transforms, free, lambda transform, leaf: transform.log_jacobian(leaf))
        return sum(jax.tree.leaves(_where_transformed(self.transforms, found)), jnp.zeros(()))


def _mapped(transforms: Any, position: Any, function: Callable[..., Any], where: str = "") -> Any:
    """The position with a function of each transform and its leaf in the place of the leaf."""
    if isinstance(transforms, Transform):
        return jax.tree.map(lambda leaf: function(transforms, leaf), position)
    _check_names(transforms, position, where or "the position")
    changed = {
        name: _mapped(one, position[name], function, f"{where}[{name!r}]")
        for name, one in transforms.items()
    }
    return {name: changed.get(name, leaf) for name, leaf in position.items()}


def _where_transformed(transforms: Any, position: Any) -> list[Any]:
    """The parts of a position that have a transform."""
    if isinstance(transforms, Transform):
        return [position]
    return [x for name, one in transforms.items() for x in _where_transformed(one, position[name])]


def _check_names(transforms: Any, position: Any, where: str) -> None:
    """Raise an error for transforms of names that the position does not have."""
    if not isinstance(position, Mapping):
        raise ValueError(
            f"transforms has transforms by name for {where}, which has no names; got a"
            f" {type(position).__name__}"
        )
    for name in transforms:
        if name not in position:
            known = ", ".join(repr(other) for other in position)
            raise ValueError(f"transforms has one for {name!r}, and {where} has {known}")


def _freed(transform: Transform, value: Any) -> Any:
    value = jnp.asarray(value)
    free = transform.free(value)
    if not isinstance(free, Tracer) and not bool(jnp.isfinite(free).all()):
        raise ValueError(
            f"position must have values inside of their constraints, not on a boundary: expected"
            f" {transform.expected}; got {value}"
        )
    return free


class _Composed(eqx.Module):
    """A user's function of constrained values, as one of free coordinates."""

    function: Callable[..., Any]
    constraints: Constraints

    def __call__(self, free: Any, *rest: Any) -> Any:
        return self.function(self.constraints.constrain(free), *rest)


class _LogPrior(eqx.Module):
    """log p(θ) + log |det ∂θ/∂φ|."""

    log_prior: Callable[[Any], Any]
    constraints: Constraints

    def __call__(self, free: Any) -> Any:
        value = jnp.asarray(self.log_prior(self.constraints.constrain(free)))
        return value + self.constraints.log_jacobian(free).astype(value.dtype)


class _Energy(eqx.Module):
    """U(θ) − log |det ∂θ/∂φ|."""

    energy: Callable[[Any], Any]
    constraints: Constraints

    def __call__(self, free: Any) -> Any:
        value = jnp.asarray(self.energy(self.constraints.constrain(free)))
        return value - self.constraints.log_jacobian(free).astype(value.dtype)


class ConstrainedPotential(WrappedPotential):
    """A potential of free coordinates φ, with θ = f(φ)."""

    inner: Potential
    constraints: Constraints

    def constrain(self, free: Any) -> Any:
        """The position with constrained values, of one position."""
        return self.constraints.constrain(free)

    def free(self, position: Any) -> Any:
        """The free coordinates of a position, where chains start."""
        return self.constraints.free(position)

    def estimate(
        self,
        position: Any,
        batch: Batch,
        model: Any = None,
        correction: CovarianceTerm | None = None,
    ) -> Energy:
        return self.inner.estimate(position, batch, model, correction)

    def full(self, position: Any) -> Energy:
        return self.inner.full(position)


def constrained(potential: Potential, transforms: Any) -> ConstrainedPotential:
    r"""The potential in free coordinates φ, where positions have boundaries: θ = f(φ).

    .. math:: U(f(\varphi)) - \log|\det \partial f/\partial \varphi|

    is sampled. The Jacobian counts as a part of the prior, which ``temper_likelihood`` does not
    heat. Chains move, and draws are kept, in φ: begin at ``potential.free(position)``, and map
    draws with :attr:`tacthmc.Run.constrained`.

    Args:
        potential: made by :func:`tacthmc.potential`, :func:`tacthmc.posterior` or
            :func:`tacthmc.streamed`, of constrained values. Other functions, such as
            :func:`tacthmc.temper_likelihood`, come after this one.
        transforms: a transform for all of the position, or a dictionary of those of some names:
            ``positive``, ``unit``, ``simplex``, ``ordered``, ``Above(low)`` and
            ``Between(low, high)``, all in ``tacthmc.potentials``. Other names are free.

    >>> import jax, jax.numpy as jnp, tacthmc
    >>> from tacthmc.potentials import positive
    >>> gamma = tacthmc.potential(lambda p: p["rate"] - jnp.log(p["rate"]))
    >>> free = constrained(gamma, {"rate": positive})
    >>> start = free.free({"rate": 1.0})
    >>> run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), free, start, 20_000, 4,
    ...                      progress=False)
    >>> bool(abs(run.constrained["rate"].mean() - 2.0) < 0.2)
    True
    """
    constraints = Constraints(_checked_transforms(transforms, "transforms"))
    if isinstance(potential, FullPotential):
        inner: Potential = FullPotential(_Energy(potential.function, constraints))
    elif isinstance(potential, DataPotential):
        inner = eqx.tree_at(
            lambda p: (p.log_prior, p.log_likelihood),
            potential,
            (
                _LogPrior(potential.log_prior, constraints),
                _Composed(potential.log_likelihood, constraints),
            ),
        )
    else:
        raise TypeError(
            "potential must be made by tacthmc.potential, tacthmc.posterior or tacthmc.streamed;"
            f" got a {type(potential).__name__} (constrain first, and wrap the result)"
        )
    return ConstrainedPotential(inner, constraints)


def _checked_transforms(transforms: Any, where: str) -> Any:
    if isinstance(transforms, Transform):
        return transforms
    if not isinstance(transforms, Mapping):
        raise TypeError(
            f"{where} must be a transform, such as tacthmc.potentials.positive, or a dictionary of"
            f" transforms; got {transforms!r}"
        )
    return {
        name: _checked_transforms(one, f"{where}[{name!r}]") for name, one in transforms.items()
    }


def constraints_of(potential: Potential | None) -> Constraints | None:
    """The constraints of a potential inside any wrappers, if it has some."""
    while isinstance(potential, WrappedPotential):
        if isinstance(potential, ConstrainedPotential):
            return potential.constraints
        potential = potential.inner
    return None
