"""Damage to a stored run: found, told, and repaired. The whole is `python -m benchmarks damage`."""

import json
import random
import stat

import numpy as np
import pytest
from typer.testing import CliRunner

import tacthmc
from tacthmc.cli._app import app
from tacthmc.store import DamageWarning, StoreError, _arrays, find_damage, repair
from tacthmc.store._checksums import ChecksumError, FileSum, digest, sealed, unsealed
from tests.damaged_run import Reference, kind_of

pytestmark = pytest.mark.usefixtures("quick_compilation")

AIMED = (
    ("config.json", "flip"),
    ("program.pkl", "flip"),
    ("shapes.json", "truncate"),
    ("draws.zarr/zarr.json", "flip"),
    ("draws.zarr/trace/xi/c/N/N", "flip"),
    ("draws.zarr/sample_stats/energy/c/N/N", "remove"),
    ("draws.zarr/posterior/w/c/N/N/N", "flip"),
    ("checkpoints/N/notes/metadata", "flip"),
    ("checkpoints/N/state/d/N", "remove"),
)


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """So few rows in a chunk that a short run has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_arrays, "MAX_CHUNK_ROWS", 16)
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return Reference(tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize(
    ("kind", "how"),
    # Every third one, so that all three ways of damage are among them; the others are slow.
    [pytest.param(*aim, marks=[pytest.mark.slow] if i % 3 else []) for i, aim in enumerate(AIMED)],
    ids=[f"{kind}-{how}" for kind, how in AIMED],
)
def test_damage_is_found_told_and_repaired(reference, tmp_path, kind, how):
    choose = random.Random(kind)
    name = choose.choice([name for name in reference.files if kind_of(name) == kind])
    reference.check(tmp_path, name, how, seed=0)


@pytest.fixture
def copy(reference, tmp_path):
    """Makes a copy with one damaged file."""

    def make(name, how="flip"):
        reference.damaged(tmp_path / "run", name, how, random.Random(0))
        return tmp_path / "run"

    return make


def test_one_bad_byte_in_a_statistic_does_not_keep_a_run_from_going_on(reference, copy):
    last = max(f for f in reference.files if kind_of(f) == "draws.zarr/trace/energy/c/N/N")
    path = copy(last)
    with pytest.warns(DamageWarning, match=r"trace/energy: rows \d+ to \d+.*stand as NaN"):
        run = tacthmc.resume(path)
    for draws, right in zip(run.all_draws, reference.after["draws"], strict=True):
        assert np.array_equal(draws["b"], right["b"])
    energy = run.trace["energy"]
    assert 0 < np.isnan(energy).sum() < energy.size / 2
    assert (path / "damaged" / last).exists()


def test_draws_around_the_damage_are_saved_and_the_run_goes_on(reference, copy):
    path = copy("draws.zarr/posterior/b/c/0/0/0")
    with pytest.raises(StoreError, match="posterior/b"):
        tacthmc.load(path).draws  # noqa: B018
    damage = repair(path)
    assert [each for each in damage.lost if "posterior/b: rows 0 to 15" in each]
    saved = tacthmc.load(damage.path)
    before = reference.before["draws"]
    for chain, draws in enumerate(saved.all_draws):
        assert 0 < len(draws["b"]) == len(before[chain]["b"]) - 16
        assert np.array_equal(draws["b"], before[chain]["b"][16:])
    assert "the folder was repaired, and lost posterior/b: rows 0 to 15" in str(saved.summary())
    assert not find_damage(damage.path).found
    with pytest.raises(StoreError, match="exists already"):
        repair(path)


def test_nothing_to_repair(reference, tmp_path):
    path = reference.path
    assert str(find_damage(path)) == f"{path}: nothing is damaged"
    assert not repair(path, tmp_path / "out").found
    assert not (tmp_path / "out").exists()


def test_a_run_that_goes_on_is_not_repaired(reference, copy):
    from tacthmc.store._lock import Lock

    path = copy("shapes.json")
    lock = Lock(path)
    for look in (repair, find_damage):
        with pytest.raises(StoreError, match="in use by process"):
            look(path)
    lock.release()


def test_the_command(reference, copy, tmp_path):
    path, run = copy("config.json"), CliRunner().invoke
    shown = run(app, ["repair", str(path), "--check"])
    assert (shown.exit_code, "config.json: damaged, restored" in shown.output) == (1, True)
    out = tmp_path / "saved"
    assert run(app, ["repair", str(path), "--out", str(out)]).exit_code == 0
    assert run(app, ["repair", str(out), "--check"]).exit_code == 0
    refused = run(app, ["repair", str(path), "--check", "--out", str(out)])
    assert (refused.exit_code, "writes nothing" in refused.output) == (2, True)


def test_files_with_code_are_private(reference):
    for name in ("program.pkl", "copies/program.pkl"):
        assert stat.S_IMODE((reference.path / name).stat().st_mode) == 0o600


def test_checksums(tmp_path):
    content = {"steps": 3, "nested": {"2": [1.5, None]}, "text": "ξ"}
    assert unsealed(json.loads(json.dumps(sealed(content)))) == content
    for changed in ({**sealed(content), "steps": 4}, content, [], None):
        with pytest.raises(ChecksumError):
            unsealed(changed)
    assert digest({1: (2,)}) == digest({"1": [2]})
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    known = FileSum.of(file)
    known.check(file)
    for damaged in (b"abd", b"ab", b""):
        file.write_bytes(damaged)
        with pytest.raises(ChecksumError, match="is damaged"):
            known.check(file)
    file.unlink()
    with pytest.raises(ChecksumError, match="cannot be read"):
        known.check(file)
