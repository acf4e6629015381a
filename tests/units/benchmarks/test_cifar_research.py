"""The research on the CNN: schedules, blocks that stand still, and what notes are judged by."""

import json
from argparse import Namespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tacthmc
from benchmarks.research import cifar_blocks, cifar_places
from benchmarks.research.cifar_blocks import SETTINGS, Numbered, Standing
from benchmarks.research.cifar_chains import BLOCK
from benchmarks.research.cifar_judge import best, judged, kept_epochs, log_loss
from benchmarks.research.cifar_trips import ALL, KNOTS, Along, Trips
from tacthmc.paper.networks import cnn


@pytest.mark.parametrize("name", ALL)
def test_lambda_goes_to_the_hottest_and_back(name):
    trips, epochs = ALL[name], 3000
    lam = trips.lam(epochs)
    assert lam.shape == (epochs * KNOTS + 1,)
    age = trips.age(epochs)
    if not trips.ends:
        assert np.all(np.isinf(age))
        assert np.all(lam == trips.always)
        return
    assert lam.min() == pytest.approx(1 / trips.hottest, rel=0.02)
    begins = [end - trips.chilled - trips.heated for end in trips.ends]
    for end in trips.ends:
        assert age[end - 1] == -1
        if end not in begins:
            assert age[end : end + 3].tolist() == [0, 1, 2]
    # At rest λ is what it is outside of trips.
    resting = np.repeat(age >= 0, KNOTS)
    assert np.all(lam[:-1][resting] == trips.always)


def test_trips_that_are_lost_in_the_table_are_told():
    with pytest.raises(AssertionError, match="were lost"):
        Trips(2.0, (10,), heated=0.1).lam(20)


def test_xi_follows_the_table():
    trips, epoch = Trips(2.0, (10,), 4), 8
    schedule = Along(trips.lam(20), epoch)
    for step in (0, 49, 60, 64, 70, 79, 100):
        lam = schedule.coupling.value_and_slope(schedule.at(step)[0])[0]
        expected = np.interp(step / epoch, np.arange(20 * KNOTS + 1) / KNOTS, trips.lam(20))
        assert float(lam) == pytest.approx(expected, abs=1e-5)
    xi, speed = schedule.at(60, 0.25)
    later = schedule.at(60, 0.75)[0]
    assert float(later - xi) == pytest.approx(0.5 * float(speed), rel=1e-3)


def test_whole_blocks_are_kept_after_a_wait():
    trips = Trips(2.0, (60,), 20)
    assert kept_epochs(trips, 0, 0, 120).tolist() == [True] * 40 + [False] * 20 + [True] * 60
    assert kept_epochs(trips, 20, 0, 120)[60:].tolist() == [False] * 20 + [True] * 40
    assert kept_epochs(trips, 0, 30, 120)[:40].tolist() == [False] * 40


def test_notes_are_judged_by_halves():
    notes = np.full((2, 4), 0.5)
    notes[:, 1::2] = 0.25
    kept = np.ones(2 * BLOCK, bool)
    assert log_loss(notes, kept, slice(0, None, 2)) == pytest.approx(np.log(2))
    schedules = {"sgnht": Trips(), "hot": Trips(2.0, (BLOCK,), BLOCK)}
    found = {"notes": np.stack([notes, notes]), "energy": np.ones((2, 2 * BLOCK))}
    rows = judged(found, [("sgnht", 0), ("hot", 0)], 0, (0, 2 * BLOCK), schedules)
    assert [(r["schedule"], r["wait"], r["draws"]) for r in rows] == [
        ("sgnht", 0, 2 * BLOCK),
        ("hot", 0, BLOCK),
    ]
    assert rows[0]["second half"] == pytest.approx(np.log(4))


def test_the_best_schedule_is_named_once_with_its_best_wait():
    names = [name for name, trips in ALL.items() if trips.ends][:2]
    losses = [(names[0], 0, 0.5), (names[0], 20, 0.3), (names[1], 0, 0.4), ("sgnht", 0, 0.1)]
    rows = [{"schedule": n, "wait": w, "first half": loss} for n, w, loss in losses]
    assert best(rows, 5) == [(names[0], 20), (names[1], 0)]


EPOCH = 6


@pytest.fixture(scope="module")
def standing():
    """Positions at every step of a chain whose layer ``out`` alone moves on a trip, and after."""
    trips = Trips(4.0, (12,), 4, rise=0.25, held=1.0)
    integrator = Standing({"conv1": 0.0, "out": 1.0}, 0.0, 2.0 * EPOCH)
    sampler = tacthmc.tact(
        0.01, tempering=Numbered(trips, 20, EPOCH), thermostat=tacthmc.dynamics.TensorThermostat()
    )
    sampler = jax.tree.map(lambda x: x, sampler)
    object.__setattr__(sampler, "integrator", integrator)
    target = tacthmc.potential(lambda p: 0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p)))
    start = {"conv1.bias": jnp.ones(3), "out.weight": jnp.ones((2, 100))}
    keep = tacthmc.Keep(every=1, after=0, temperatures="all")
    program = tacthmc.Program(sampler, target, keep, room=20 * EPOCH)
    chains = program.start(jax.random.key(0), start)
    chains, chunk = program.advance(chains, 20 * EPOCH)
    return {name: np.asarray(x[0]) for name, x in chunk.kept.position.items()}


def test_the_rest_stands_still_on_a_trip_and_for_a_while_after(standing):
    moved = {
        k: np.any(np.diff(x, axis=0) != 0, axis=tuple(range(1, x.ndim)))
        for k, x in standing.items()
    }
    assert moved["out.weight"].all()
    # The trip is from epoch 8 to 12; the rest stands for two more epochs.
    inside = slice(8 * EPOCH + 1, 14 * EPOCH - 1)
    assert not moved["conv1.bias"][inside].any()
    assert moved["conv1.bias"][: 8 * EPOCH - 1].all()
    assert moved["conv1.bias"][14 * EPOCH + 1 :].all()


def test_settings_of_blocks_are_of_the_cnn():
    layers = {name.split(".")[0] for name in cnn().leaves}
    assert set(cifar_blocks.LEAVES) == layers
    for setting in SETTINGS.values():
        assert len(setting.ends) <= cifar_blocks.MAX_TRIPS
        assert set(cifar_blocks.BLOCKS[setting.block]) <= layers


def test_neighbors_gain_where_they_differ():
    rng, count = np.random.default_rng(0), 1000 // BLOCK
    same = np.full((2, count, 50), 0.5, np.float16)
    other = same.copy()
    cut = cifar_blocks.STRETCHES[1]
    # Each stretch is sure of one half of the images and wrong on the other.
    left = rng.permutation(50)[:25]
    other[:, : cut[0] // BLOCK, left] = 0.9
    other[:, cut[0] // BLOCK :, left] = 0.1
    found = cifar_blocks.neighbors(
        np.concatenate([same, other]), [("same", 0), ("same", 1), ("other", 0), ("other", 1)]
    )
    assert found["same"] == pytest.approx(
        {"one": np.log(2), "gain": 0, "gain_two_chains": 0}, abs=1e-3
    )
    assert found["other"]["gain"] > 0.1


@pytest.fixture
def places(tmp_path):
    """A record of schedules with notes beside it: five chains of SGNHT, of several ages."""
    rng, count, images = np.random.default_rng(1), 1000 // BLOCK, 40
    out = tmp_path / "s.json"
    file = {"tried": [{"schedule": "sgnht"}] * 2, "best": [["T = 2, 40 of 200", 0]], "note": 1 / 3}
    out.write_text(json.dumps(file))
    for part, chains in (("tried", 2), ("again", 6)):
        notes = rng.uniform(0.3, 0.7, (chains, count, images)).astype(np.float16)
        np.save(out.with_name(f"s-{part}.notes.npy"), notes)
    return out


def test_places_are_added_to_the_record(places, capsys):
    with pytest.raises(KeyError, match="T = 2"):
        # A schedule that was among the best was tried.
        cifar_places.main(Namespace(files=[places], setting=None))
    file = json.loads(places.read_text())
    file["tried"].append({"schedule": "T = 2, 40 of 200"})
    places.write_text(json.dumps(file))
    cifar_places.main(Namespace(files=[places], setting=None))
    found = json.loads(places.read_text())
    assert found["note"] == 1 / 3
    fresh = found["places"]["fresh"]
    assert [row["chains"] for row in fresh] == [1, 2, 3, 4]
    assert all(0.5 < row["log_loss"] < 1 for row in fresh)
    assert set(found["places"]["two_stretches"]) == {"sgnht", "T = 2, 40 of 200"}
    assert json.loads(capsys.readouterr().out) == found["places"]


def test_places_of_one_setting_come_from_several_files(tmp_path, capsys):
    rng, files = np.random.default_rng(1), []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.json"
        plan = [["tensor 0.02 0.5 0", 3], ["scalar 0.02 0.5 0", 3], ["tensor 0.02 0.5 0", 4]]
        path.write_text(json.dumps({"plans": {"tensor": plan}}))
        np.save(tmp_path / f"{name}-tensor.notes.npy", rng.uniform(0.3, 0.7, (3, 50, 10)))
        files.append(path)
    cifar_places.main(Namespace(files=files, setting="tensor 0.02 0.5 0"))
    found = json.loads(files[0].read_text())["places"]["tensor 0.02 0.5 0"]
    assert len(found["fresh"]) == 4
    assert len(found["by_age"]) == 50
    assert "places" not in json.loads(files[1].read_text())
