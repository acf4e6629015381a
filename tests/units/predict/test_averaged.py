"""Predictions averaged over draws that are at hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tacthmc.paper.networks import mlp
from tacthmc.predict import averaged


def test_averaged_predictions():
    model = mlp(inputs=4, hidden=3, classes=2)
    draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    images = jax.random.normal(jax.random.key(1), (7, 4))
    each = [
        jax.nn.softmax(model.logits(jax.tree.map(lambda x, i=i: x[i], draws), images), axis=-1)
        for i in range(5)
    ]
    for batch_size, draws_at_once in ((3, 1), (7, 2), (100, 5)):
        found = averaged(model, draws, images, batch_size=batch_size, draws_at_once=draws_at_once)
        assert np.allclose(found, np.mean(each, axis=0), atol=1e-6)
    with pytest.raises(ValueError, match="leading axis of draws"):
        averaged(model, {**draws, "out.bias": jnp.zeros((4, 2))}, images)
    with pytest.raises(ValueError, match="images is empty"):
        averaged(model, draws, images[:0])
