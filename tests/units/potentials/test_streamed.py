"""Data that come from a loader: the same draws as resident data, and where a run goes on."""

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import HostBatches
from tacthmc.run import _plan as plan
from tests.table import same

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(5)
DATA = {
    "x": np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32),
    "y": np.random.default_rng(1).normal(size=50).astype(np.float32),
}
SAMPLER = tacthmc.sgnht(1e-3)
EVERY_TENTH = tacthmc.Keep(every=10, after=0)


def log_prior(w):
    return -0.5 * jnp.sum(w**2)


def log_likelihood(w, example):
    return -0.5 * (example["y"] - jnp.dot(example["x"], w)) ** 2


def run(potential, num_steps=200, keep=EVERY_TENTH, store=None, callbacks=()):
    return tacthmc.sample(
        KEY,
        SAMPLER,
        potential,
        jnp.zeros(2),
        num_steps,
        2,
        keep=keep,
        store=store,
        callbacks=callbacks,
    )


def streamed(loader):
    return tacthmc.streamed(log_prior, log_likelihood, loader, 50)


def pipeline(chain):
    """A Grain pipeline of its own for each chain."""
    rows = [{"x": DATA["x"][i], "y": DATA["y"][i]} for i in range(50)]
    dataset = grain.MapDataset.source(rows).shuffle(seed=chain + 1).repeat().batch(8)
    # Threads for rows this small cost far more than the rows.
    return dataset.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("batches", [slow("replacement"), "epochs"])
def test_the_same_indices_give_the_same_draws(batches):
    resident = run(tacthmc.posterior(log_prior, log_likelihood, DATA, 7, batches=batches))
    loaded = run(streamed(HostBatches(DATA, 7, KEY, batches)))
    same(resident.trace["energy"][:, :5], loaded.trace["energy"][:, :5], 1e-4)
    same(resident.trace["thermostat"][:, :5], loaded.trace["thermostat"][:, :5], 1e-4)


def test_grain_and_chunks(monkeypatch):
    """Each chain's own pipeline, in one chunk or in many."""
    whole = run(streamed(pipeline))
    monkeypatch.setattr(plan, "MAX_FEED_BYTES", 1)
    pieces = run(streamed(pipeline))
    for name in whole.trace:
        # Another size of chunk is another program, which may round a sum another way.
        assert np.allclose(whole.trace[name], pieces.trace[name], rtol=1e-5), name
    assert not np.array_equal(whole.trace["energy"][0], whole.trace["energy"][1])


def test_chains_may_share_one_loader():
    batches = [jax.tree.map(lambda x, i=i: x[10 * i : 10 * i + 10], DATA) for i in range(5)]
    shared = run(streamed(batches))
    alone = run(streamed(lambda chain: batches))
    same(shared.trace["energy"][:, :5], alone.trace["energy"][:, :5], 1e-4)
    assert shared.thermostats == []
    assert "R-hat" in str(shared.summary())


@pytest.mark.parametrize("kind", ["grain", slow("host"), slow("list")])
def test_a_run_goes_on_where_the_loader_was(kind, tmp_path):
    """By its iterator's state, or by going through the batches that were used."""
    loaders = {
        "grain": pipeline,
        "host": HostBatches(DATA, 7, KEY, "epochs"),
        "list": [jax.tree.map(lambda x, i=i: x[7 * i : 7 * i + 7], DATA) for i in range(7)],
    }
    run(streamed(loaders[kind]), 100, store=tmp_path / "run")
    longer = tacthmc.resume(tmp_path / "run", num_steps=200)
    whole = run(streamed(loaders[kind]))
    for name in whole.trace:
        assert np.array_equal(longer.trace[name], whole.trace[name]), name


class Killed(BaseException):
    """Ends a run at once, as a kill would: nothing is committed on the way out."""


@pytest.mark.parametrize("kind", [slow("grain"), "host"])
def test_what_was_fetched_ahead_is_fetched_again(kind, tmp_path, monkeypatch):
    """The place in a checkpoint is that of the steps made, not of the batches made ready."""
    loader = {"grain": pipeline, "host": HostBatches(DATA, 7, KEY)}[kind]
    monkeypatch.setattr(plan, "MAX_FEED_BYTES", 1)

    def kill(snapshot):
        if snapshot.step >= 120:
            raise Killed

    store = tacthmc.Store(tmp_path / "run", checkpoint_steps=40)
    with pytest.raises(Killed):
        run(streamed(loader), store=store, callbacks=[kill])
    assert 0 < tacthmc.load(tmp_path / "run").num_steps < 160
    resumed = tacthmc.resume(tmp_path / "run")
    whole = run(streamed(loader))
    for name in whole.trace:
        assert np.array_equal(resumed.trace[name], whole.trace[name]), name


def test_a_loader_that_fails_loses_nothing(tmp_path):
    class Failing(HostBatches):
        def __call__(self, chain):
            for number, batch in enumerate(super().__call__(chain)):
                if number == 305:
                    raise OSError("the network drive is gone")
                yield batch

    store = tacthmc.Store(tmp_path / "run", checkpoint_seconds=None)
    with pytest.raises(OSError, match="network drive"):
        run(streamed(Failing(DATA, 7, KEY)), 1_000, store=store)
    saved = tacthmc.load(tmp_path / "run")
    assert 0 < saved.num_steps <= 300
    whole = run(streamed(HostBatches(DATA, 7, KEY)), 400)
    rows = saved.trace["energy"].shape[1]
    assert np.array_equal(saved.trace["energy"], whole.trace["energy"][:, :rows])


def test_memory_mapped_files_stay_files(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((100_000, 2), np.float32) + 1.0)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    potential = tacthmc.streamed(
        log_prior,
        lambda w, x: -0.5 * jnp.sum((x - w) ** 2),
        HostBatches(mapped, 8, KEY),
        100_000,
    )
    path = tmp_path / "run"
    tacthmc.sample(KEY, tacthmc.sgld(1e-7), potential, jnp.zeros(2), 200, store=path)
    assert (path / "program.pkl").stat().st_size < 50_000
    assert tacthmc.resume(path, num_steps=400).num_steps == 400


def test_loaders_that_cannot_be_used():
    def batches(*sizes):
        return [jax.tree.map(lambda x, n=n: x[:n], DATA) for n in sizes]

    with pytest.raises(ValueError, match="all batches must be alike"):
        run(streamed(batches(8, 8, 2)))
    with pytest.raises(ValueError, match="cannot be started again"):
        run(streamed(iter(batches(8, 8))))
    with pytest.raises(ValueError, match="the loader has no batches"):
        run(streamed([]))
    with pytest.raises(ValueError, match="share their leading length"):
        run(streamed([{"x": np.zeros((3, 2)), "y": np.zeros(4)}]))
    with pytest.raises(ValueError, match="share their leading length"):
        HostBatches({"x": np.zeros((3, 2)), "y": np.zeros(4)}, 2, KEY)
    with pytest.raises(TypeError, match="loader"):
        streamed(3)
    with pytest.raises(ValueError, match="no full-data energy"):
        streamed(batches(8)).energy(jnp.zeros(2))
    with pytest.raises(ValueError, match="draws no batches of its own"):
        streamed(batches(8)).batch(KEY, jnp.zeros(2))
    with pytest.raises(ValueError, match="mini-batch's energy would give wrong weights"):
        run(streamed(batches(8)), keep=tacthmc.Keep(temperatures="all"))
    with pytest.raises(ValueError, match="only 50 examples"):
        HostBatches(DATA, 51, KEY)
