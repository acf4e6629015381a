"""``tacthmc reproduce table1 --quick`` as a user calls it, on real images."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tacthmc.cli._app import app
from tacthmc.paper.data.catalog import ENTRIES

pytestmark = pytest.mark.usefixtures("quick_compilation")

IMAGES = Path(__file__).parent / "images"
EPOCHS = 20


# What is TACT-HMC's alone, made images show as well.
@pytest.fixture(scope="module", params=["adam", pytest.param("tact", marks=pytest.mark.slow)])
def method(request):
    return request.param


@pytest.fixture(scope="module")
def folder(method, tmp_path_factory):
    out = tmp_path_factory.mktemp("quick")
    words = ["reproduce", "table1", "--quick", "--task", "rnn", "--data", str(IMAGES)]
    words += ["--method", method]
    with pytest.MonkeyPatch.context() as patch:
        # All 70,000 are wanted otherwise.
        few = replace(ENTRIES["fashion_mnist"], num_train=480, num_test=160)
        patch.setitem(ENTRIES, "fashion_mnist", few)
        result = CliRunner().invoke(
            app, [*words, "--epochs", str(EPOCHS), "--out", str(out)], catch_exceptions=False
        )
    assert result.exit_code == 0, result.output
    return out


def test_every_cell_is_there(folder, method):
    records = json.loads((folder / "results.json").read_text())
    found = {(r["method"], r["noise"], r["seed"]): r for r in records}
    assert sorted(found) == [(method, noise, 0) for noise in (0.0, 0.2)]
    for record in records:
        assert record["table"] == "A"
        assert record["task"] == "rnn"
        assert record["epochs"] == record["epochs_done"] == EPOCHS
        assert record["data"] == "fashion_mnist, 480 + 160 images"
        assert "--quick" in record["command"]
        assert 0 <= record["accuracy"] <= 1
        assert 0 < record["log_loss"] < 4
        assert 0 <= record["ece"] <= 1
    if method == "adam":
        # 140 steps are few, but something is learned: one in ten would be chance.
        assert found["adam", 0.0, 0]["accuracy"] > 0.3
    else:
        assert {r["note"] for r in records} == {"no round trip: SGNHT"}


def test_tables_and_pictures_are_written(folder, method):
    text = (folder / "table1.md").read_text()
    title, accuracy = {"adam": ("Adam", "88.84"), "tact": ("TACT-HMC", "90.84")}[method]
    assert f"| {title} (adapted) |" in text
    assert "tacthmc reproduce table1" in text
    assert accuracy in text
    assert accuracy in (folder / "table1.tex").read_text()
    for name in ("curves-rnn", "reliability-rnn"):
        for kind in ("png", "pdf"):
            assert (folder / f"{name}.{kind}").stat().st_size > 5_000
