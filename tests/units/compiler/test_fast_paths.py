"""What is done differently for speed gives what the plain way gives."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest

import tacthmc
from tacthmc.compiler import _cpu_flags as xla
from tacthmc.compiler import _scatter as tables
from tacthmc.compiler._materialize import MANY, computed_once
from tacthmc.paper import networks as models
from tacthmc.predict import averaged
from tacthmc.run import _chains as chains_module
from tacthmc.run import _gradient_cost as work
from tacthmc.run._chunk import block_steps
from tacthmc.run._over_chains import over_chains
from tacthmc.tuning._curvature import largest_curvature
from tests.fresh import fresh


def test_tables_of_many_chains_by_a_loop_or_a_mask():
    table = jax.random.normal(jax.random.key(0), (3, 5))
    index, amount = jnp.array([4, 0, 2]), jnp.array([1.0, -2.0, 0.5])
    expected = np.asarray(table).copy()
    expected[np.arange(3), index] += np.asarray(amount)
    assert np.allclose(tables._one_by_one(table, index, amount), expected)
    assert np.allclose(jax.vmap(tables._masked)(table, index, amount), expected)
    assert np.allclose(jax.jit(jax.vmap(tables.add_at))(table, index, amount), expected)
    twice = jax.vmap(jax.vmap(tables.add_at))(table[None], index[None], amount[None])
    assert np.allclose(twice[0], expected)


def small_network(batches):
    model = models.mlp(inputs=6, hidden=5, classes=3)
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(40, 6)).astype(np.float32), rng.integers(0, 3, 40, dtype=np.int32))
    potential = tacthmc.posterior(
        models.gaussian_prior(scale=1.0),
        models.categorical(model),
        data,
        10,
        batches=batches,
        batched=True,
    )
    return model, potential


@pytest.mark.parametrize("axis", [None, "chains", "batch"])
@pytest.mark.parametrize("batches", ["replacement", "epochs"])
def test_chains_one_by_one_are_those_side_by_side(monkeypatch, batches, axis):
    """On a CPU chains of large models take turns."""
    model, potential = small_network(batches)
    init = model.init(jax.random.key(1))
    mesh = None if axis is None else jax.make_mesh((2,), (axis,), devices=jax.devices()[:2])
    took_turns = []

    def seen(*args, in_turn, **kwargs):
        took_turns.append(in_turn)
        return over_chains(*args, in_turn=in_turn, **kwargs)

    monkeypatch.setattr(chains_module, "over_chains", seen)

    def run():
        jax.clear_caches()
        sampler = tacthmc.tact(1e-3, keep_every=5)
        return tacthmc.sample(jax.random.key(0), sampler, potential, init, 20, 4, mesh=mesh)

    together = run()
    monkeypatch.setattr(chains_module, "LARGE", 1)
    monkeypatch.setattr(work, "HEAVY", 1)
    in_turn = run()
    assert took_turns == [False, True]
    for name in together.trace:
        assert np.allclose(together.trace[name], in_turn.trace[name], rtol=1e-3, atol=1e-5), name
    assert not np.allclose(in_turn.trace["energy"][0], in_turn.trace["energy"][1])


@pytest.mark.parametrize(
    ("keep_every", "size", "expected"),
    [(50, 1, 50), (100, 1, 50), (50, 100_000, 1), (7, 1, 7), (997, 1, 50), (58, 1, 29)],
)
def test_blocks_of_steps(keep_every, size, expected):
    assert block_steps(keep_every, size) == expected


def test_a_block_that_does_not_divide_the_interval():
    target = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))

    def run(keep_every):
        sampler = tacthmc.sgnht(0.01, keep_every=keep_every)
        return tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 106, 2)

    # The last of 53 = 50 + 3 steps is the one that an interval of 106 = 2·53 has in its middle.
    assert block_steps(53, 2) == 50
    energies = run(53).trace["energy"], run(1).trace["energy"][:, [52, 105]]
    assert np.allclose(*energies, rtol=1e-3)


def test_averaged_predictions():
    model = models.mlp(inputs=4, hidden=3, classes=2)
    draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), 5))
    images = jax.random.normal(jax.random.key(1), (7, 4))
    each = [
        jax.nn.softmax(model.logits(jax.tree.map(lambda x, i=i: x[i], draws), images), axis=-1)
        for i in range(5)
    ]
    for batch_size, together in ((3, 1), (7, 2), (100, 5)):
        found = averaged(model, draws, images, batch_size=batch_size, together=together)
        assert np.allclose(found, np.mean(each, axis=0), atol=1e-6)
    with pytest.raises(ValueError, match="leading axis of draws"):
        averaged(model, {**draws, "out.bias": jnp.zeros((4, 2))}, images)
    with pytest.raises(ValueError, match="images is empty"):
        averaged(model, draws, images[:0])


def test_curvature_of_a_model_without_a_forward_derivative():
    model, potential = small_network("replacement")
    init = model.init(jax.random.key(1))
    found = largest_curvature(jax.random.key(0), potential, init)
    assert 1.0 < found < 1e4


def flags_when_configured(**environment):
    """XLA_FLAGS, and the limit in force, in a process that configures its CPU."""
    code = (
        "import os, tacthmc; from tacthmc.compiler._cpu_flags import small_loop_bytes;"
        "tacthmc.configure_cpu(); print(os.environ.get('XLA_FLAGS'), small_loop_bytes())"
    )
    *flags, limit = fresh(code, **environment).split()
    return " ".join(flags), int(limit)


def test_the_compilers_limit_is_raised_unless_somebody_set_it():
    loops = f"--xla_backend_extra_options={xla.OPTION}={xla.WANTED},{xla.NOT_UNROLLED}"
    wide = f" --{xla.WIDTH}={xla.WIDE}" if xla.knows_width(jaxlib.__version__) else ""
    assert flags_when_configured() == (loops + wide, xla.WANTED)
    narrow = f"--{xla.WIDTH}=256"
    assert flags_when_configured(XLA_FLAGS=narrow) == (f"{narrow} {loops}", xla.WANTED)
    assert flags_when_configured(TACTHMC_XLA_FLAGS="0") == ("None", xla.DEFAULT)
    theirs = f"--xla_backend_extra_options={xla.OPTION}=5000"
    assert flags_when_configured(XLA_FLAGS=theirs) == (theirs, 5000)
    others = "--xla_backend_extra_options=xla_cpu_fold_all_constants=true"
    assert flags_when_configured(XLA_FLAGS=others) == (others, xla.DEFAULT)


def test_importing_changes_nothing():
    """Neither the environment nor JAX's settings."""
    code = (
        "import os, jax; before = dict(os.environ), dict(jax.config.values); import tacthmc;"
        "print(before == (dict(os.environ), dict(jax.config.values)))"
    )
    assert fresh(code).strip() == "True"


def test_a_leaf_computed_once_is_the_same_to_the_last_bit():
    leaf = jax.random.normal(jax.random.key(0), (MANY,))
    leaf = leaf.at[:6].set(jnp.array([0.0, -0.0, 2e-38, 3e38, jnp.inf, jnp.nan]))
    found = np.asarray(jax.jit(computed_once)(leaf))
    expected = np.asarray(leaf)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[:5]), np.signbit(expected[:5]))
    short = jnp.array([1.0, jnp.inf])
    assert computed_once(short) is short
    assert (jax.grad(lambda x: jnp.sum(computed_once(x)))(leaf) == 1).all()
