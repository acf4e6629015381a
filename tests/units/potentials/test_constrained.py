"""Constrained positions: maps, Jacobians, and the potentials that use them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import Above, Between, constrained, ordered, positive, simplex, unit

TRANSFORMS = {
    "positive": positive,
    "above": Above(-2.0),
    "unit": unit,
    "between": Between(-1.0, 5.0),
    "simplex": simplex,
    "ordered": ordered,
}
FREE = jnp.array([0.3, -1.2, 2.0])
DATA = np.random.default_rng(0).normal(0.0, 2.0, 40).astype(np.float32)


def posterior(batch_size=40):
    def log_prior(p):
        return -p["scale"]

    def log_likelihood(p, x):
        return -0.5 * (x / p["scale"]) ** 2 - jnp.log(p["scale"])

    return tacthmc.posterior(log_prior, log_likelihood, DATA, batch_size)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_transform_and_its_inverse(transform):
    assert np.allclose(transform.free(transform.constrain(FREE)), FREE, atol=1e-5)


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_the_jacobian_is_that_of_the_map(transform):
    """The last number of a simplex follows from the others."""
    jacobian = jax.jacobian(lambda phi: transform.constrain(phi)[: len(FREE)])(FREE)
    expected = np.linalg.slogdet(np.asarray(jacobian, float))[1]
    assert np.isclose(transform.log_jacobian(FREE), expected, atol=1e-5)


def test_values_are_inside():
    many = 5 * jax.random.normal(jax.random.key(0), (100, 4))
    shares = simplex.constrain(many)
    assert shares.shape == (100, 5)
    assert np.allclose(shares.sum(-1), 1, atol=1e-5)
    assert bool((shares > 0).all())
    assert bool((jnp.diff(ordered.constrain(many), axis=-1) >= 0).all())


def test_the_energy_has_the_jacobian():
    free = constrained(posterior(), {"scale": positive})
    phi = {"scale": jnp.array(0.7)}
    expected = posterior().energy({"scale": jnp.exp(0.7)}) - 0.7
    assert np.isclose(free.energy(phi), expected, rtol=1e-5)


def test_the_jacobian_is_not_tempered_with_the_likelihood():
    heated = tacthmc.temper_likelihood(constrained(posterior(), {"scale": positive}))
    found = heated.estimate({"scale": jnp.array(0.7)}, jnp.asarray(DATA))
    assert np.isclose(found.fixed, np.exp(0.7) - 0.7, rtol=1e-5)


def test_other_names_stay_free():
    energy = tacthmc.potential(lambda p: p["a"] ** 2 + jnp.sum(p["b"]["c"]))
    free = constrained(energy, {"b": {"c": positive}})
    start = free.free({"a": jnp.array(-1.0), "b": {"c": jnp.ones(2), "d": jnp.zeros(1)}})
    assert float(start["a"]) == -1.0
    assert np.array_equal(start["b"]["c"], jnp.zeros(2))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"scale": -1.0}, r"expected larger than 0; got -1"),
        ({"scale": 0.0}, r"not on a boundary"),
        ({"width": 1.0}, "transforms has one for 'scale', and the position has 'width'"),
        (1.0, "transforms has transforms by name for the position, which has no names"),
    ],
)
def test_positions_outside(start, words):
    with pytest.raises(ValueError, match=words):
        constrained(posterior(), {"scale": positive}).free(start)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: constrained(posterior(), {"scale": jnp.exp}), TypeError, "must be a transform"),
        (
            lambda: constrained(tacthmc.temper_likelihood(posterior()), positive),
            TypeError,
            "constrain first",
        ),
        (lambda: Between(1.0, 1.0), ValueError, "low must be smaller than high"),
        (lambda: Above(float("nan")), ValueError, "low must be a finite number; got nan"),
    ],
)
def test_what_cannot_be_constrained(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_draws_in_constrained_values():
    energy = tacthmc.potential(lambda p: 2 * p["x"] - jnp.log(p["x"]) + 0.5 * p["y"] ** 2)
    free = constrained(energy, {"x": positive})
    start = free.free({"x": jnp.array(1.0), "y": jnp.array(0.0)})
    run = tacthmc.sample(jax.random.key(0), tacthmc.sgnht(0.1), free, start, 500, 2)
    found = run.constrained
    assert np.allclose(found["x"], np.exp(run.draws["x"]), rtol=1e-5)
    assert np.array_equal(found["y"], run.draws["y"])


def test_a_run_without_constraints():
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgnht(0.1), tacthmc.potential(jnp.sum), jnp.zeros(2), 100
    )
    with pytest.raises(ValueError, match=r"needs a potential made by tacthmc\.constrained"):
        run.constrained  # noqa: B018
