"""A run on disk: what is in it, and what happens when something is wrong with it."""

import json
import os
import re
import shutil
import subprocess
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.potentials import HostBatches
from tacthmc.store._checksums import sealed
from tacthmc.store._lock import Lock
from tests import stored_run
from tests.stored_run import assert_identical, contents

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A finished run, its folder, and the same run in memory."""
    path = tmp_path_factory.mktemp("stored") / "run"
    return stored_run.begin(path), path, stored_run.begin()


@pytest.fixture
def copy(stored, tmp_path):
    """A copy of the folder that may be damaged."""
    return shutil.copytree(stored[1], tmp_path / "copy")


def test_load_gives_the_same_run(stored):
    run, path, memory = stored
    loaded = tacthmc.load(path)
    for other in (run, loaded):
        assert other.num_steps == memory.num_steps
        assert np.array_equal(other.counts, memory.counts)
        assert other.counts.min() < other.counts.max()  # or the rectangle would be no question
        for a, b in zip(other.all_draws, memory.all_draws, strict=True):
            assert all(np.array_equal(a[n], b[n]) for n in b)
        assert set(other.stats) == set(memory.stats) >= {"lambda", "thermostat", "energy"}
        assert all(np.array_equal(other.stats[n], memory.stats[n]) for n in memory.stats)
        assert all(np.array_equal(other.trace[n], memory.trace[n]) for n in memory.trace)
        assert other.summary().parameters == memory.summary().parameters
        assert np.array_equal(other.free_energy().value, memory.free_energy().value)
    assert not loaded.interrupted
    assert loaded.path == path
    config = json.loads((path / "config.json").read_text())
    assert config["versions"]["jax"] == jax.__version__
    assert config["key"] == [0, 3]


def test_xarray_and_arviz_open_it_lazily(stored):
    import xarray

    run, path, memory = stored
    tree = xarray.open_datatree(path / "draws.zarr", engine="zarr")
    lazy = tree["posterior"]["w"]
    assert not lazy.variable._in_memory
    assert lazy.dims == ("chain", "draw", "w_dim_0")
    assert np.array_equal(lazy, memory.draws["w"])
    assert np.array_equal(tree["posterior"]["draw"], np.arange(memory.num_draws))
    assert np.array_equal(tree["trace"]["xi"], memory.trace["xi"])
    assert np.array_equal(tree["observed_data"]["data"], run.potential.data)
    table = memory.state.tempering.bias
    assert np.array_equal(tree["bias"]["visits"], table.visits)
    exported, in_memory = run.to_arviz(), memory.to_arviz()
    for group in ("posterior", "sample_stats", "observed_data"):
        for name in in_memory[group]:
            assert np.array_equal(exported[group][name], in_memory[group][name]), name


def test_a_reader_sees_whole_rectangles_while_the_run_goes_on(tmp_path, monkeypatch):
    import xarray

    from tacthmc.run import _driver as driver

    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.01)
    path, seen = tmp_path / "run", []

    def look(snapshot):
        tree = xarray.open_datatree(path / "draws.zarr", engine="zarr")
        draws = tree["posterior"]["b"].values
        assert np.all(np.isfinite(draws))
        assert np.all(tree["trace"]["step"].values[:, 1:] > 0)
        loaded = tacthmc.load(path)
        assert loaded.num_draws == draws.shape[1]
        assert loaded.interrupted
        seen.append(draws.shape[1])

    stored_run.begin(path, num_steps=4_000, callbacks=[look])
    assert max(seen) > min(seen)


def test_pictures(stored):
    import matplotlib.pyplot as plt

    _, path, _ = stored
    loaded = tacthmc.load(path)
    assert len(loaded.plot_xi().lines) == 2
    assert [ax.get_xlabel() for ax in loaded.plot_draws(count=2)] == ["b[0]", "b[1]"]
    assert loaded.plot_free_energy().get_xlabel() == "ξ"
    plt.close("all")


def test_longer(copy, capfd):
    """A finished run made longer is the run that was long from the start."""
    longer = tacthmc.resume(copy, num_steps=10_000)
    assert "goes on from step 8000 of 10000; 0 steps" in capfd.readouterr().err
    whole = stored_run.begin(num_steps=10_000)
    assert longer.num_steps == whole.num_steps == 10_000
    for a, b in zip(longer.all_draws, whole.all_draws, strict=True):
        assert all(np.array_equal(a[n], b[n]) for n in b)
    assert tacthmc.resume(copy).num_steps == 10_000
    with pytest.raises(ValueError, match="longer, not shorter"):
        tacthmc.resume(copy, num_steps=5_000)


def test_a_folder_that_holds_a_run_is_left_alone(stored):
    _, path, _ = stored
    before = contents(path)
    with pytest.raises(tacthmc.StoreError, match=r"already holds a run.*resume"):
        stored_run.begin(path)
    assert_identical(contents(path), before)


def test_two_processes(stored, copy):
    holder = Lock(copy)
    with pytest.raises(tacthmc.StoreError, match=f"in use by process {os.getpid()}"):
        tacthmc.resume(copy)
    tacthmc.load(copy)  # reading is free
    holder.release()
    tacthmc.resume(copy)


def test_another_format(copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(sealed({**config, "format": 99})))
    for function in (tacthmc.load, tacthmc.resume):
        with pytest.raises(tacthmc.StoreError, match="has format 99, this version"):
            function(copy)
    # Runs from before there were checksums are not taken for damaged ones.
    (copy / "config.json").write_text(json.dumps({"format": 3}))
    with pytest.raises(tacthmc.StoreError, match="has format 3, this version"):
        tacthmc.load(copy)


def refused(path, why):
    """It cannot go on, and says why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(tacthmc.StoreError, match=why):
            tacthmc.resume(path, num_steps=9_000)


def _damage(folder, how):
    """Damage the largest file of a checkpoint's state."""
    files = [f for f in (folder / "state").rglob("*") if f.is_file()]
    file = max(files, key=lambda f: f.stat().st_size)
    content = bytearray(file.read_bytes())
    if how == "truncate":
        content = content[: len(content) // 2]
    else:
        content[len(content) // 2] ^= 16
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("how", ["truncate", "flip"])
def test_a_damaged_checkpoint(stored, tmp_path, how):
    """The newest sound one is used, and the run ends up the same; without one, a message."""
    path = tmp_path / "run"
    stop = [lambda snapshot: snapshot.step >= 4_000]
    stored_run.begin(path, callbacks=stop)
    steps = sorted((int(f.name) for f in (path / "checkpoints").iterdir()), reverse=True)
    assert len(steps) == 3
    _damage(path / "checkpoints" / str(steps[0]), how)
    with pytest.warns(UserWarning, match=f"checkpoint at step {steps[0]}"):
        run = tacthmc.resume(path)
    assert run.num_steps == stored_run.NUM_STEPS
    assert_identical(contents(path), contents(stored[1]))
    for folder in (path / "checkpoints").iterdir():
        _damage(folder, how)
    before = contents(path)
    refused(path, r"no sound checkpoint.*tacthmc.load")
    assert_identical(contents(path), before)


def test_a_damaged_last_checkpoint_is_replaced(copy):
    """Once: the steps after the one before it are computed again, and then it is there."""
    _damage(copy / "checkpoints" / "8000", "flip")
    with pytest.warns(UserWarning, match="checkpoint at step 8000"):
        tacthmc.resume(copy)
    assert (copy / "damaged" / "checkpoints" / "8000").is_dir()
    assert int(tacthmc.load(copy).state.step[0]) == 8_000
    tacthmc.resume(copy)


@pytest.mark.parametrize("how", ["truncate", "flip", "remove"])
def test_a_damaged_chunk(copy, how):
    """It is named, what is not damaged can be read, and nothing is written after it."""
    file = copy / "draws.zarr" / "posterior" / "b" / "c" / "0" / "0" / "0"
    content = bytearray(file.read_bytes())
    if how == "remove":
        file.unlink()
    elif how == "flip":
        content[100] ^= 1
        file.write_bytes(bytes(content))
    else:
        file.write_bytes(bytes(content[:1000]))
    loaded = tacthmc.load(copy)
    with pytest.raises(tacthmc.StoreError, match=re.escape("posterior/b")):
        loaded.draws  # noqa: B018
    assert loaded.draws_of(1, (0,)).shape == (2, loaded.num_draws)
    refused(copy, r"no sound checkpoint.*posterior/b")


def test_a_read_only_place():
    with pytest.raises(tacthmc.StoreError, match="making the run's folder failed"):
        stored_run.begin("/proc/tacthmc-run")


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(tacthmc.StoreError, match="must name a folder"):
        stored_run.begin(tmp_path / "run")


def test_a_folder_with_other_things_in_it(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(tacthmc.StoreError, match=r"not empty \(there is 'thesis.tex'"):
        stored_run.begin(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["thesis.tex"]


def test_folders_of_the_same_names_are_not_taken_for_a_run(tmp_path, copy):
    """Neither other checkpoints nor a run without its config are taken away."""
    (tmp_path / "mine" / "checkpoints").mkdir(parents=True)
    (copy / "config.json").unlink()
    for folder in (tmp_path / "mine", copy):
        before = sorted(f.name for f in folder.iterdir())
        with pytest.raises(tacthmc.StoreError, match="not empty"):
            stored_run.begin(folder)
        assert sorted(f.name for f in folder.iterdir()) == before


def test_killed_before_it_had_begun(stored, copy):
    """Without its config a folder holds no run: a new one begins there, not a mixture of two."""
    (copy / "config.json").rename(copy / "beginning")
    run = stored_run.begin(copy, num_steps=800)
    assert run.num_steps == 800
    assert tacthmc.load(copy).num_steps == 800
    steps = sorted(int(f.name) for f in (copy / "checkpoints").iterdir())
    assert steps == [0, 400, 800]


def test_a_full_disk(tmp_path, stored):
    """The run ends with a message; with room again it goes on as if nothing had been."""
    small = tmp_path / "small"
    small.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=900k", "tmpfs", small], capture_output=True
    )
    if mount.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        with pytest.raises(tacthmc.StoreError, match=r"the disk is full"):
            stored_run.begin(small / "run")
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        run = tacthmc.resume(small / "run")
        assert run.num_steps == stored_run.NUM_STEPS
        assert_identical(contents(small / "run"), contents(stored[1]))
    finally:
        subprocess.run(["umount", small], check=True)


def test_without_tensorstore(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(tacthmc.StoreError, match="pip install"):
        stored_run.begin(tmp_path / "run")
    assert stored_run.begin(num_steps=800).num_steps == 800


def test_functions_that_cannot_be_pickled(tmp_path):
    path = tmp_path / "run"
    lock = __import__("threading").Lock()

    def energy(x):
        with lock:
            return 0.5 * jnp.sum(x**2)

    target, sampler = tacthmc.potential(energy), tacthmc.sgnht(0.1)
    with pytest.warns(
        tacthmc.store.NotPortableWarning, match=r"resume\(folder, sampler=…, potential=…"
    ):
        run = tacthmc.sample(jax.random.key(0), sampler, target, jnp.zeros(2), 500, store=path)
    assert run.draws.shape == (1, 9, 2)
    with pytest.raises(tacthmc.StoreError, match="pass the sampler= and potential="):
        tacthmc.resume(path, num_steps=1_000)
    # Draws can be read all the same.
    loaded = tacthmc.load(path)
    assert np.array_equal(loaded.draws, run.draws)
    assert "R-hat" in str(loaded.summary())
    with pytest.raises(tacthmc.StoreError, match="pass the sampler= and potential="):
        loaded.potential  # noqa: B018
    assert loaded.sampler == run.sampler

    def more(sampler):
        return tacthmc.resume(path, num_steps=1_000, sampler=sampler, potential=target)

    with pytest.raises(ValueError, match="sampler or potential differ"):
        more(tacthmc.tact(0.1))
    assert more(sampler).num_draws == 19
    assert more(sampler).sampler is not None


def test_a_folder_without_the_program(tmp_path):
    """It has draws and checkpoints; the program is given again to go on."""
    path = tmp_path / "run"
    stored_run.begin(tacthmc.Store(path, with_program=False), num_steps=800)
    assert not (path / "program.pkl").exists()
    assert "data" not in {f.name for f in (path / "draws.zarr" / "observed_data").glob("*")}
    with pytest.raises(tacthmc.StoreError, match="pass the sampler= and potential="):
        tacthmc.resume(path, num_steps=1_600)
    given = {"sampler": stored_run.SAMPLER, "potential": stored_run.POTENTIAL}
    longer = tacthmc.resume(path, num_steps=1_600, **given)
    assert np.array_equal(longer.trace["energy"], stored_run.begin(num_steps=1_600).trace["energy"])


def test_double_precision_comes_back_as_it_was(tmp_path):
    """Also in a process that computes in single precision, also with a loader's own thread."""
    data = np.random.default_rng(0).normal(size=(40, 2))
    key = jax.random.key(0)

    def run(steps, path=None):
        potential = tacthmc.streamed(
            lambda w: -0.5 * jnp.sum(w**2),
            lambda w, x: -0.5 * jnp.sum((x - w) ** 2),
            HostBatches(data, 8, key),
            40,
        )
        sampler, keep = tacthmc.sgnht(1e-3), tacthmc.Keep(every=10, after=0)
        return tacthmc.sample(key, sampler, potential, jnp.zeros(2), steps, keep=keep, store=path)

    with jax.enable_x64(True):
        run(200, tmp_path / "run")
        whole = run(400)
    longer = tacthmc.resume(tmp_path / "run", num_steps=400)
    assert longer.draws.dtype == np.float64
    assert np.array_equal(longer.draws, whole.draws)
    assert tacthmc.load(tmp_path / "run").state.position.dtype == np.float64


def test_no_two_arrays_have_one_name(tmp_path):
    start = {"a.b": jnp.zeros(2), "a": {"b": jnp.ones(2)}, "c/d": jnp.ones(1), "draw": jnp.ones(1)}
    target = tacthmc.potential(lambda p: sum(jnp.sum(x**2) for x in jax.tree.leaves(p)))
    run = tacthmc.sample(
        jax.random.key(0), tacthmc.sgld(0.01), target, start, 200, store=tmp_path / "run"
    )
    loaded = tacthmc.load(tmp_path / "run")
    assert len(loaded.named_draws()) == 4
    assert np.array_equal(loaded.draws["a"]["b"], run.draws["a"]["b"])
    assert not np.array_equal(loaded.draws["a"]["b"], loaded.draws["a.b"])


def test_refused_before_anything_is_made(tmp_path):
    """Arguments of the wrong kind, each by name."""
    for options, why in (
        ({"callbacks": print}, "callbacks"),
        ({"callbacks": [3]}, "callbacks"),
        ({"progress": "no"}, "progress"),
        ({"mesh": "x"}, "mesh"),
        ({"store": 3}, "store"),
    ):
        with pytest.raises(TypeError, match=why):
            stored_run.begin(options.pop("store", tmp_path / "run"), **options)
    with pytest.raises(ValueError, match=r"at least twice Keep\.every, 100"):
        tacthmc.sample(
            jax.random.key(0),
            tacthmc.sgld(0.1),
            tacthmc.potential(lambda x: x**2),
            jnp.zeros(()),
            100,
            store=tacthmc.Store(tmp_path / "run", checkpoint_steps=60),
        )
    assert not list(tmp_path.iterdir())


def test_checkpoints_off_the_grid(tmp_path):
    """However a run went on before, no more than the interval asked for is lost."""
    path, seen = tmp_path / "run", []
    stored_run.begin(path, num_steps=2_000, callbacks=[lambda s: s.step >= 460])
    begun = tacthmc.load(path).num_steps

    def look(snapshot):
        newest = max(int(f.name) for f in (path / "checkpoints").iterdir() if f.name.isdigit())
        seen.append(int((path / "reached").read_text().split()[0]) - newest)

    tacthmc.resume(path, num_steps=4_000, callbacks=[look])
    assert begun % 400 or begun < 2_000
    assert max(seen) <= stored_run.CHECKPOINT_STEPS
