"""Reading a folder runs nothing from it and leaves it, whatever lies in it; resuming asks first."""

import json
import os
import pickle
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from tacthmc.run import _measured
from tacthmc.store import DamageWarning, _pickles
from tacthmc.store._checksums import CHECKSUM
from tacthmc.store._settings import write_config
from tests import stored_run

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(1)
GAUSSIAN = tacthmc.potential(lambda x: 0.5 * jnp.sum(x**2))
EVENTS = ("pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn")

_seen: list[str] | None = None


def _hook(event, arguments):
    if _seen is not None and event in EVENTS:
        _seen.append(f"{event} {arguments}")


sys.addaudithook(_hook)


@pytest.fixture
def executed():
    """What Python has executed in a test that could be code of a folder."""
    global _seen
    _seen = []
    yield _seen
    _seen = None


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("trust") / "run"
    run = stored_run.begin(path, num_steps=2_000)
    run.summary()  # what takes the potential is in the folder from now on
    return run, path


@pytest.fixture
def copy(stored, tmp_path, monkeypatch):
    """A copy of the folder, in a process that has not written it."""
    monkeypatch.setattr(_pickles, "_written", set())
    return shutil.copytree(stored[1], tmp_path / "copy")


class Evil:
    """A pickle that leaves a file when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def resealed(folder, config=None):
    """Make the checksums fit the files again, as somebody who plants one can do."""
    content = json.loads((folder / "config.json").read_text()) if config is None else config
    settings = {k: v for k, v in content.items() if k not in ("files", CHECKSUM)}
    write_config(folder, settings)


def read_everything(path):
    """All that reading can do."""
    run = tacthmc.load(path)
    found = [run.draws, run.stats, dict(run.trace), run.state, run.samplers, run.to_arviz()]
    found += [str(run.summary()), run.thermostats, run.free_energy().value, run.by_mode()]
    found += [run.expectation(lambda p: p["b"]), run.config, run.model_states, repr(run)]
    tacthmc.write_report(run, path / "report.html")
    return run, found


def test_reading_unpickles_nothing(stored, copy, executed):
    run, found = read_everything(copy)
    assert not executed
    memory, _ = stored
    assert str(memory.summary()) == str(run.summary())
    assert np.array_equal(found[0]["b"], memory.draws["b"])
    assert run.sampler == memory.sampler
    jax.tree.map(np.testing.assert_array_equal, run.state, memory.state)
    with pytest.raises(tacthmc.StoreError, match=r"reading a folder runs no code.*trust=True"):
        run.potential  # noqa: B018
    assert not run.program_is_known
    trusted = tacthmc.load(copy, trust=True)
    assert np.array_equal(trusted.potential.data, stored_run.POTENTIAL.data)
    assert executed


def test_the_report_says_the_same(stored, copy, tmp_path):
    memory, _ = stored
    texts = []
    for name, run in (("a", memory), ("b", tacthmc.load(copy))):
        file = tacthmc.write_report(run, tmp_path / f"{name}.html", title="one")
        texts.append(re.sub(r"Made by [^<]*", "", file.read_text()))
    assert texts[0] == texts[1]


def test_pickles_under_every_name(copy, tmp_path, executed):
    """None of them is read: neither in place of the program nor beside any file."""
    mark = tmp_path / "executed"
    evil = pickle.dumps(Evil(mark))
    names = {p.relative_to(copy).with_suffix("") for p in copy.rglob("*")} | {Path(".")}
    # The readers of arrays take every file for a chunk, or for metadata.
    taken = {"draws.zarr", "array_metadatas"}
    for name in (n for n in names if not taken & set(n.parts)):
        for suffix in (".pkl", ".pickle", ".npy", ".npz", ".msgpack"):
            file = copy / f"{name}{suffix}" if str(name) != "." else copy / f"shapes{suffix}"
            if file.suffix == ".pkl" or not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(evil)
    assert (copy / "program.pkl").read_bytes() == evil
    resealed(copy)
    read_everything(copy)
    with pytest.raises(tacthmc.StoreError, match=r"is a pickle.*trust=True.*--trust"):
        tacthmc.resume(copy, num_steps=3_000)
    assert not executed
    assert not mark.exists()
    tacthmc.load(copy, trust=True)
    with pytest.raises(tacthmc.StoreError, match="cannot be read"):
        tacthmc.load(copy, trust=True).potential.data  # noqa: B018
    assert mark.exists()  # so this test would have seen it


def test_other_files_in_place_of_json(copy, tmp_path, executed):
    mark = tmp_path / "executed"
    for name in ("shapes.json", "sampler.json", "posterior.json", "measured.json", "config.json"):
        good = (copy / name).read_bytes()
        for bad in (pickle.dumps(Evil(mark)), b"[" * 100_000, b"3", b'{"steps": 2000}', b"\xff"):
            (copy / name).write_bytes(bad)
            if name == "config.json":
                (copy / "copies" / name).write_bytes(bad)
            else:
                resealed(copy)
            if name not in ("posterior.json", "measured.json"):
                with pytest.raises(tacthmc.StoreError, match=name):
                    tacthmc.load(copy).sampler  # noqa: B018
            elif name == "measured.json":
                with pytest.raises(tacthmc.StoreError, match=name):
                    tacthmc.load(copy).summary()
            else:
                with pytest.raises(tacthmc.StoreError, match=name):
                    tacthmc.resume(copy, num_steps=3_000, trust=True)
        (copy / name).write_bytes(good)
        if name != "config.json":
            resealed(copy)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["..", "../../outside", "/etc/passwd", "zarr.json", "a/../../b", ""]
)
@pytest.mark.parametrize("where", ["name", "group"])
def test_names_that_lead_outside(copy, name, where):
    config = json.loads((copy / "config.json").read_text())
    config["arrays"][3][where] = name
    resealed(copy, config)
    for function in (tacthmc.load, tacthmc.resume):
        with pytest.raises(tacthmc.StoreError, match="names an array"):
            function(copy)


def test_links(copy, tmp_path):
    """A link anywhere in a folder is refused, for reading and writing, before it is followed."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("before")
    for place in ("draws.zarr/posterior/b/c/0/0/0", "checkpoints", "config.json", "report.html"):
        entry = copy / place
        aside = tmp_path / "aside"
        if entry.exists():
            entry.rename(aside)
        entry.symlink_to(secret if aside.is_dir() else secret / "file")
        for function in (tacthmc.load, tacthmc.resume):
            with pytest.raises(tacthmc.StoreError, match="is a link"):
                function(copy)
        entry.unlink()
        if aside.exists():
            aside.rename(entry)
    (copy / "tacthmc.lock").unlink()
    (copy / "tacthmc.lock").symlink_to(secret / "file")
    with pytest.raises(tacthmc.StoreError, match="is a link"):
        tacthmc.resume(copy)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "beginning").touch()
    (fresh / "draws.zarr").symlink_to(secret)
    with pytest.raises(tacthmc.StoreError, match="is a link"):
        stored_run.begin(fresh, num_steps=800)
    assert [f.name for f in secret.iterdir()] == ["file"]
    assert (secret / "file").read_text() == "before"
    (copy / "tacthmc.lock").unlink()
    os.mkfifo(copy / "pipe")
    with pytest.raises(tacthmc.StoreError, match="neither a file nor a folder"):
        tacthmc.load(copy)


def test_metadata_for_other_readers(copy, tmp_path, executed):
    """A Zarr array of pickled objects, in any place, is refused before Zarr sees it."""
    array = copy / "draws.zarr" / "posterior" / "b"
    old = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": None}
    old |= {"fill_value": 0, "order": "C", "filters": [{"id": "pickle"}]}
    for place, content in (
        (array / ".zarray", old),
        (array.parent / ".zgroup", {"zarr_format": 2}),
    ):
        place.write_text(json.dumps(content))
        with pytest.raises(tacthmc.StoreError, match="not what this library writes"):
            tacthmc.load(copy).to_arviz()
        place.unlink()
    for file in (array / "zarr.json", copy / "draws.zarr" / "zarr.json"):
        good = file.read_text()
        for before, after in (("crc32c", "numcodecs.pickle"), ('"float32"', '"object"')):
            assert before in good
            file.write_text(good.replace(before, after))
            damaged = file.parent != array  # the root has a checksum
            with (
                pytest.warns(DamageWarning) if damaged else nullcontext(),
                pytest.raises(tacthmc.StoreError, match=r"not what this library writes|is damaged"),
            ):
                tacthmc.load(copy).to_arviz()
        file.write_text(good)
    tacthmc.load(copy).to_arviz()
    assert not executed


def test_resuming_asks_for_trust(copy):
    with pytest.raises(tacthmc.StoreError, match=r"unpickling can run any code.*trust=True"):
        tacthmc.resume(copy, num_steps=3_000)
    whole = stored_run.begin(num_steps=3_000)
    again = shutil.copytree(copy, copy.with_name("again"))
    # The sampler is in the folder as JSON, so that the potential is enough.
    for run in (
        tacthmc.resume(copy, num_steps=3_000, trust=True),
        tacthmc.resume(again, num_steps=3_000, potential=stored_run.POTENTIAL),
    ):
        assert np.array_equal(run.trace["energy"], whole.trace["energy"])
        assert all(np.array_equal(run.draws[n], whole.draws[n]) for n in whole.draws)


def test_what_this_process_wrote_needs_no_trust(stored, tmp_path):
    copy = shutil.copytree(stored[1], tmp_path / "copy")
    assert tacthmc.resume(copy, num_steps=2_020).num_steps == 2_020


def test_another_version_of_python(copy, executed):
    config = json.loads((copy / "config.json").read_text())
    config["versions"]["python"] = "3.10.2"
    resealed(copy, config)
    with pytest.raises(tacthmc.StoreError, match=r"pickled by Python 3\.10.*potential="):
        tacthmc.resume(copy, num_steps=3_000, trust=True)
    read_everything(copy)
    assert not executed
    with pytest.warns(tacthmc.run.OtherVersionWarning, match=r"python 3\.10\.2"):
        tacthmc.resume(copy, num_steps=3_000, potential=stored_run.POTENTIAL)


def test_files_are_private(stored):
    _, path = stored
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "program.pkl").stat().st_mode & 0o777 == 0o600


def test_parameters_of_any_name(tmp_path):
    names = ["zarr.json", "..", ".", "", "/etc/passwd", "a\\b", "a\0b", "chain", "chain_", "c"]
    names += ["x" * 300, "__a", ".zarray", "日本", "<script>", "\ud800", "CON:"]
    start = {name: jnp.full((2,), float(i)) for i, name in enumerate(names)}
    target = tacthmc.potential(lambda p: sum(jnp.sum(x**2) for x in jax.tree.leaves(p)))
    path = tmp_path / "in" / "run"
    run = tacthmc.sample(KEY, tacthmc.sgld(0.01), target, start, 200, store=path)
    loaded = tacthmc.load(path)
    assert all(np.array_equal(loaded.draws[name], run.draws[name]) for name in names)
    exported = loaded.to_arviz()["posterior"]
    assert len([v for v in exported.data_vars if v not in ("chain", "draw")]) == len(names)
    assert [f.name for f in tmp_path.iterdir()] == ["in"]
    assert [f.name for f in (tmp_path / "in").iterdir()] == ["run"]


class Params(NamedTuple):
    mean: jax.Array
    log_scale: jax.Array


class Net(eqx.Module):
    params: Params
    activation: object = eqx.field(static=True)

    def energy(self):
        return 0.5 * jnp.sum(self.params.mean**2) + jnp.sum(self.activation(self.params.log_scale))


def test_containers_of_the_user(tmp_path, monkeypatch):
    """They come back as stand-ins of the same names, and as themselves with an example."""
    target = tacthmc.potential(lambda net: net.energy())
    net = Net(Params(jnp.ones(2), jnp.zeros(())), jnp.square)
    path, sampler = tmp_path / "run", tacthmc.sgnht(0.05)
    run = tacthmc.sample(KEY, sampler, target, net, 1_000, store=path)
    text = str(run.summary())
    monkeypatch.setattr(_pickles, "_written", set())
    loaded = tacthmc.load(path)
    assert np.array_equal(loaded.draws.params.mean, run.draws.params.mean)
    assert type(loaded.draws).__name__ == "Net"
    assert loaded.draws.params._fields == ("mean", "log_scale")
    assert str(loaded.summary()) == text
    assert loaded.state.position.params.mean.shape == (1, 2)
    same = tacthmc.load(path, like=net)
    assert type(same.draws) is Net
    assert float(same.expectation(lambda n: n.energy())) == float(
        run.expectation(lambda n: n.energy())
    )
    assert type(tacthmc.load(path, trust=True).draws) is Net
    with pytest.raises(ValueError, match=r"like must be a position.*\(2,\)"):
        tacthmc.load(path, like=jnp.zeros(3)).draws  # noqa: B018
    with pytest.raises(tacthmc.StoreError, match="trust=True"):
        tacthmc.resume(path, num_steps=2_000, potential=target)
    whole = tacthmc.sample(KEY, sampler, target, net, 2_000, keep=tacthmc.Keep(after=100))
    longer = tacthmc.resume(path, num_steps=2_000, potential=target, like=net)
    assert type(longer.draws) is Net
    assert np.array_equal(longer.draws.params.mean, whole.draws.params.mean)


class Counting:
    """A loader whose iterator has a state that JSON does not have."""

    class Place:
        def __init__(self, taken):
            self.taken = taken

    def __init__(self, data, plain):
        self.data, self.plain = data, plain

    def __iter__(self):
        self.taken = 0
        return self

    def __next__(self):
        self.taken += 1
        return self.data[(self.taken % 5) * 8 : (self.taken % 5 + 1) * 8]

    def get_state(self):
        return ("taken", {1: self.taken}) if self.plain else Counting.Place(self.taken)

    def set_state(self, state):
        self.taken = state[1][1] if self.plain else state.taken


@pytest.mark.parametrize("plain", [True, False])
def test_states_of_loaders(tmp_path, monkeypatch, plain, executed):
    data = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)

    def potential():
        return tacthmc.streamed(
            lambda w: -0.5 * jnp.sum(w**2),
            lambda w, x: -0.5 * jnp.sum((x - w) ** 2),
            Counting(data, plain),
            40,
        )

    sampler, path, keep = tacthmc.sgnht(1e-3), tmp_path / "run", tacthmc.Keep(every=10, after=0)
    tacthmc.sample(KEY, sampler, potential(), jnp.zeros(2), 200, keep=keep, store=path)
    monkeypatch.setattr(_pickles, "_written", set())
    given = {"num_steps": 400, "sampler": sampler, "potential": potential()}
    if not plain:
        with pytest.raises(tacthmc.StoreError, match=r"state of the loader is a pickle.*trust"):
            tacthmc.resume(path, **given)
    assert not executed
    longer = tacthmc.resume(path, **given, trust=not plain)
    whole = tacthmc.sample(KEY, sampler, potential(), jnp.zeros(2), 400, keep=keep)
    assert np.array_equal(longer.draws, whole.draws)


def test_runs_of_before(copy):
    config = json.loads((copy / "config.json").read_text())
    del config[CHECKSUM]
    (copy / "config.json").write_text(json.dumps({**config, "format": 3}))
    with pytest.raises(tacthmc.StoreError, match=r"has format 3, this version.*reads format 4"):
        tacthmc.load(copy)


def test_what_was_not_measured_is_said(stored, copy):
    """Laws that need the potential are in the folder, and if they are lost the summary says so."""
    assert "z_theta" in str(tacthmc.load(copy).summary())
    (copy / _measured.FILE).unlink()
    text = str(tacthmc.load(copy).summary())
    assert "z_theta" not in text
    assert re.search("not checked: .*thermostats against theory", text)
    assert "z_theta" in str(tacthmc.load(copy, potential=stored_run.POTENTIAL).summary())
    assert not (copy / _measured.FILE).exists()  # reading writes nothing
