"""The paper's tasks, ready to run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.paper.data import ImageSet
from tacthmc.paper.tasks import METHODS, TASKS, task

pytestmark = pytest.mark.usefixtures("quick_compilation")


def some(name, count=256):
    rng = np.random.default_rng(0)
    shape = (32, 32, 3) if name == "cnn" else (28, 28)
    classes = TASKS[name].classes
    images = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    labels = rng.integers(0, classes, count).astype(np.uint8)
    names = tuple(map(str, range(classes)))
    return ImageSet("some", images, labels, images, labels, names, "made")


@pytest.mark.parametrize("name", list(TASKS))
@pytest.mark.parametrize("method", list(METHODS))
def test_settings_are_the_papers(name, method):
    ready = task(name, method, some(name))
    eta, xi_eta, c, _, _, _, every = TASKS[name].hyperparameters
    assert ready.keep.every == every
    assert ready.potential.batch_size == {"mlp": 128, "rnn": 64, "cnn": 64}[name]
    # 1e-3·Σθ² on the mean loss is ½·(2e-3·N)·Σθ² on the sum.
    assert float(ready.potential.log_prior(jnp.ones(3))) == pytest.approx(-1e-3 * 256 * 3)
    if method in ("adam", "momentum_sgd"):
        assert ready.sampler.learning_rate == 1e-3
        assert ready.sampler.num_data == 256
        return
    assert ready.sampler.step_size == pytest.approx(eta / 256)
    assert ready.sampler.injected == pytest.approx(c)
    if method == "tact":
        assert ready.sampler.tempering.step_size == pytest.approx(xi_eta / 256)


def test_a_task_runs_with_wrong_labels():
    ready = task("mlp", "sgnht", some("mlp"), label_share=0.2)
    starts = jax.vmap(ready.init)(jax.random.split(jax.random.key(1), 2))
    key, keep = jax.random.key(0), tacthmc.Keep(every=5, after=0)
    start = tacthmc.PerChain(starts)
    run = tacthmc.sample(key, ready.sampler, ready.potential, start, 20, 2, keep=keep)
    assert not run.failures
    assert run.num_draws == 4


def test_what_is_no_task():
    with pytest.raises(ValueError, match=r"name must be one of mlp, rnn, cnn; got 'cmn' \(cnn\?\)"):
        task("cmn", "tact", some("cnn"))
    with pytest.raises(ValueError, match="method must be one of"):
        task("cnn", "sgd", some("cnn"))
    with pytest.raises(ValueError, match="images of shape"):
        task("cnn", "tact", some("mlp"))
    with pytest.raises(ValueError, match="share must be a number from 0 to 1"):
        task("mlp", "tact", some("mlp"), label_share=2)
    noisy = task("mlp", "tact", some("mlp"), label_share=0.3, label_kind="random per batch")
    assert noisy.potential.classes == 47
