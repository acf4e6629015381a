"""What the summary says of models that are not what was meant."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import HostBatches
from tacthmc.run._draw_gradients import _moves
from tacthmc.run._model_notes import _examples_of, _wrong_number
from tacthmc.run._width import _impossible

DATA = np.zeros((40, 2), np.float32)


@pytest.mark.parametrize(
    ("loader", "known"),
    [
        ([DATA[:20], DATA[20:]], 40),
        (HostBatches(DATA, 10, jax.random.key(0)), 40),
        (SimpleNamespace(dataset=DATA, __iter__=None), 40),
        (iter([DATA]), None),
        (lambda chain: iter([DATA]), None),
    ],
)
def test_a_loader_is_asked_for_its_examples(loader, known):
    assert _examples_of(loader) == known


def test_another_number_of_examples_is_told():
    def run(num_data):
        batches = [DATA[:20], DATA[20:]]
        return SimpleNamespace(
            potential=tacthmc.streamed(lambda m: 0.0, lambda m, x: 0.0, batches, num_data)
        )

    assert _wrong_number(run(40)) == []
    (note,) = _wrong_number(run(160))
    assert "num_data is 160" in note
    assert "counts 4 times" in note
    assert "wrong by about 0.5" in note


def test_energies_that_no_draw_has_are_counted():
    rng = np.random.default_rng(0)
    right = 0.5 * np.sum(rng.normal(size=(4, 1000, 50)) ** 2, axis=2)
    assert _impossible(right, 50) == 0
    # The energy of Cauchy's law, whose tails are heavy.
    assert _impossible(np.log1p(rng.standard_cauchy((4, 1000)) ** 2), 1) == 0
    right[0, :3] += [1e4, np.inf, np.nan]
    assert _impossible(right, 50) == 3
    assert _impossible(None, 50) == 0


def slope_of(energy, gradient, size=20):
    draws = np.random.default_rng(0).normal(size=(4, 50, size))
    moves = _moves(draws, np.arange(size))
    at = np.concatenate([draws.reshape(-1, size), moves.ends])
    return moves.slope(energy(at), gradient(at))


def test_short_moves_compare_energies_with_gradients():
    def energy(x):
        return np.sum(0.25 * x**4 + np.sin(x), axis=1)

    def gradient(x):
        return x**3 + np.cos(x)

    assert slope_of(energy, gradient) == pytest.approx(1.0, abs=0.05)
    assert slope_of(energy, lambda x: 2 * gradient(x)) == pytest.approx(0.5, abs=0.05)
    assert slope_of(energy, lambda x: 0 * x) == np.inf
    # Where energies are too coarse or bend too much, nothing is known.
    assert np.isnan(slope_of(lambda x: 1e9 + energy(x), gradient))
    assert np.isnan(slope_of(lambda x: np.sum(np.sin(1e3 * x), axis=1), gradient))
