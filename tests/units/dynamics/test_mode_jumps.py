"""A list of modes: its densities and maps, and the errors of what is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tacthmc
from tacthmc.dynamics import ModeJumps, Modes

CENTERS = np.array([[-2.0, 1.0, 0.0], [3.0, 0.5, -1.0]])
MATRICES = np.array(
    [[[1.0, 0.0, 0.0], [0.4, 0.7, 0.0], [-0.2, 0.1, 2.0]], [[-0.5, 0, 0], [1.0, 0.3, 0], [0, 0, 1]]]
)
WEIGHTS = [3.0, 1.0]


def truth(modes, places):
    """log(w_k·N(θ; μ_k, L_k L_kᵀ)) of each mode at each place."""
    scales = np.asarray(modes.scales, float)
    scales = scales if scales.ndim == 3 else np.stack([np.diag(row) for row in scales])
    weights = np.exp(np.asarray(modes.log_weights, float))
    columns = [
        np.log(w) + multivariate_normal(center, scale @ scale.T).logpdf(places)
        for w, center, scale in zip(weights, np.asarray(modes.centers), scales, strict=True)
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    "scales", [MATRICES, [[1.0, 0.5, 2.0], [0.3, -1.0, 1.0]]], ids=["matrices", "diagonals"]
)
def test_densities_and_the_nearest_mode(scales):
    modes = Modes(CENTERS, scales, WEIGHTS)
    places = np.random.default_rng(0).normal(size=(50, 3)) * 3
    parts = truth(modes, places)
    for place, expected in zip(jnp.asarray(places, jnp.float32), parts, strict=True):
        log_density = np.logaddexp.reduce(expected)
        assert float(modes.log_density(place)) == pytest.approx(log_density, rel=1e-4, abs=1e-3)
        assert int(modes.nearest(place)) == np.argmax(expected)


def test_a_place_and_its_z_belong_together():
    modes = Modes(CENTERS, MATRICES, WEIGHTS)
    z = jnp.array([0.3, -1.0, 2.0])
    for k in range(2):
        place = modes.mapped(z, jnp.asarray(k))
        assert np.allclose(place, CENTERS[k] + MATRICES[k] @ np.asarray(z), atol=1e-5)
        assert np.allclose(modes.standardized(place)[k], z, atol=1e-5)


def test_weights_are_normalized_and_numbers_are_arrays():
    modes = Modes([[0, 1], [2, 3]], [[1, 1], [2, 2]], [1, 3])
    assert np.exp(modes.log_weights) == pytest.approx([0.25, 0.75])
    assert {x.dtype for x in jax.tree.leaves(modes)} == {jnp.dtype(jnp.float32)}
    assert modes.count == 2


@pytest.mark.slow
def test_double_precision(x64):
    modes = Modes(CENTERS, MATRICES, WEIGHTS)
    assert {x.dtype for x in jax.tree.leaves(modes)} == {jnp.dtype(jnp.float64)}
    # A list in double precision serves positions in single precision, and the other way round.
    single = Modes(jnp.asarray(CENTERS, jnp.float32), MATRICES, WEIGHTS)
    potential = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    for which, dtype in ((modes, jnp.float32), (single, jnp.float64)):
        jump = ModeJumps(which).move(jax.random.key(0), jnp.zeros(3, dtype), potential)
        assert jump.position.dtype == jump.energy.dtype == dtype


@pytest.mark.parametrize(
    ("centers", "scales", "weights", "message"),
    [
        ([0.0, 1.0], [[1.0]], [1.0], r"centers of shape \(k, d\).* got \(2,\)"),
        (np.zeros((0, 2)), np.zeros((0, 2)), [], r"got \(0, 2\)"),
        ([[0.0, 1.0]], [[1.0]], [1.0], r"and \(1,\)"),
        ([[0.0, 1.0]], [[1.0, 1.0]], [1.0, 1.0], r"and \(2,\)"),
        ([[0.0, 1.0]], [[1.0, 1.0]], [0.0], "weights must be a finite number > 0"),
        ([[0.0, 1.0]], [[1.0, 1.0]], [-1.0], "weights must be a finite number > 0"),
        ([[0.0, np.nan]], [[1.0, 1.0]], [1.0], "finite centers"),
        ([[0.0, 1.0]], [[1.0, 0.0]], [1.0], "zero diagonal"),
        ([[0.0, 1.0]], [[[1.0, 0.5], [0.5, 1.0]]], [1.0], "must be lower triangular"),
    ],
)
def test_what_is_no_list_of_modes(centers, scales, weights, message):
    with pytest.raises(ValueError, match=message):
        Modes(centers, scales, weights)


def test_arguments_that_are_none():
    modes = Modes([[0.0]], [[1.0]], [1.0])
    with pytest.raises(ValueError, match="every must be a whole number >= 1"):
        ModeJumps(modes, every=0)
    potential = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
    sampler = tacthmc.sgnht(0.1, jumps=ModeJumps(modes))
    with pytest.raises(ValueError, match="jumps have 1 coordinates, and the position has 2"):
        tacthmc.sample(jax.random.key(0), sampler, potential, jnp.zeros(2), 100)


def test_the_number_of_energies_of_a_move():
    calls = []

    def energy(x):
        calls.append(1)
        return 0.5 * jnp.sum(x**2)

    jumps = ModeJumps(Modes([[0.0]], [[1.0]], [1.0]))
    jumps.move(jax.random.key(0), jnp.zeros(1), tacthmc.potential(energy))
    assert len(calls) == jumps.energies_per_move
