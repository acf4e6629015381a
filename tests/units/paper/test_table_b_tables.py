"""Table B's tables and records, from records that are made up or published."""

import json
from pathlib import Path

import pytest

from tacthmc.paper.table1 import reproduce
from tacthmc.paper.table1.protocol import Protocol
from tacthmc.paper.table1.report import against, reached
from tacthmc.paper.table1.summary import entries
from tacthmc.paper.table1.table_b import command_b
from tacthmc.paper.table1.tables import markdown
from tacthmc.paper.table1.tables_b import entries_b, latex_b, markdown_b

ROOT = Path(__file__).parents[3]


def made(method, seed, accuracy, **other):
    record = {
        "table": "B", "stage": "final", "task": "cnn", "data": "cifar10", "method": method,
        "noise": 0.2, "chains": 1, "epochs": 300, "compute": "tf32", "config": "tuned",
        "seed": seed, "accuracy": accuracy, "log_loss": 1 - accuracy, "ece": 0.05,
        "round_trips": None, "settings": {"given": {"learning_rate": 0.001}}, "finished": True,
        "epochs_done": 300, "note": "", "diverged_at_step": None, "paper_accuracy": None,
        "command": "tacthmc reproduce table1 --table B", "group": method,
    }  # fmt: skip
    return record | other


def test_the_table_has_mean_and_deviation_over_seeds():
    trips = {"round_trips": 0, "note": "no round trip: SGNHT"}
    tact = [made("tact", s, x, **trips) for s, x in enumerate((0.70, 0.72, 0.74))]
    adam = [made("adam", s, x) for s, x in enumerate((0.60, 0.61, 0.62))]
    sgnht = [made("sgnht", s, x) for s, x in enumerate((0.69, 0.71, 0.73))]
    found = entries_b([*tact, *adam, *sgnht, {**tact[0], "finished": False, "accuracy": 0.1}])
    assert [entry.method for entry in found] == ["adam", "sgnht", "tact"]
    text = markdown_b(found)
    assert "| 1 × 300 | 20% | TACT-HMC | 3 | 72.00 ± 2.00 | 0.2800 ± 0.0200 |" in text
    assert "0, 0, 0 | learning_rate 0.001 | no round trip: SGNHT |" in text
    assert "tacthmc reproduce table1 --table B\n" in text
    assert "| 1 × 300 | 20% | – | no difference (SGNHT) | no difference (SGNHT) |" in text
    assert against(found[2], found[0], "accuracy") == "better"
    assert against(found[0], found[2], "log_loss") == "worse"
    (alone,) = entries_b([made("tact", 0, 0.7, paper_accuracy=0.7)])
    assert against(alone, found[0], "accuracy") == "ahead, one seed"
    assert against(alone, found[1], "log_loss") == "behind, one seed"
    assert reached(alone) == "70.00: reached"
    assert against(alone, alone, "ece") == "level, one seed"
    (rest,) = entries_b([made("tact", 0, 0.6, paper_accuracy=0.7, finished=False)])
    assert reached(rest) == "70.00: not reached so far"
    (other,) = entries_b([made("tact", 0, 0.8, paper_accuracy=0.7, task="mlp", data="emnist47")])
    assert reached(other) == "70.00 on other data"
    tex = latex_b(found)
    assert "72.00$\\,\\pm\\,$2.00 (no round trip: SGNHT) & 0.2800$\\,\\pm\\,$0.0200" in tex
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 1


def test_values_that_are_equal_and_not_the_same(tmp_path):
    some = [made("tact", 0, 0.7, draws=1), made("tact", 1, True, draws=1.0)]
    some = [r | {"stage": "search"} for r in some]
    reproduce.write_records(tmp_path, some)
    again = [json.dumps(r, sort_keys=True) for r in reproduce.read_records(tmp_path)]
    assert again == [json.dumps(r, sort_keys=True) for r in some]


@pytest.mark.parametrize("name", ["table1", "table-b"])
def test_published_results_are_small_and_make_the_published_tables(name):
    folder = ROOT / "results" / name
    for path in folder.glob("*.json"):
        assert path.stat().st_size < 2**20
    records = reproduce.read_records(folder)
    text = markdown(entries(records)) if name == "table1" else markdown_b(entries_b(records))
    assert (folder / f"{name}.md").read_text(encoding="utf-8") == text


def test_the_command_in_the_records_says_what_is_unusual():
    protocol = Protocol.of(400, seeds=(0,), noises=(0.2,))
    assert command_b([], ["adam"], protocol).endswith(
        "--table B --method adam --noise 0.2 --seeds 0 --epochs 400 --compute float32"
    )
