"""Children to kill, and what has to be the same afterwards."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from tacthmc.store._folder import Folder


def run_child(path, kill="", cache=None, seconds=None):
    """Run the child; it ends by itself, or is killed after so many seconds: code and errors."""
    env = dict(os.environ)
    if cache is not None:
        env["JAX_COMPILATION_CACHE_DIR"] = str(cache)
        env["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.child", str(path), kill],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
        env=env,
    )
    try:
        _, errors = process.communicate(timeout=120 if seconds is None else seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert seconds is not None, errors
    return process.returncode, errors


def child(path, kill="", cache=None):
    """Run the child to the place where it kills itself, or to its end; returns its messages."""
    code, errors = run_child(path, kill, cache)
    assert code == (-signal.SIGKILL if kill else 0), errors
    return errors


def computed_again(errors):
    """The step a resumed run went on from, and the steps it says it computes again."""
    found = re.search(r"goes on from step (\d+) of \d+; (\d+) steps are computed again", errors)
    assert found, errors
    return int(found[1]), int(found[2])


def contents(path):
    """Every array of a store, whole, by name; not the timings."""
    folder = Folder.open(path)
    status = folder.status
    arrays = {"counts": np.array(status["counts"]), "rows": np.array(status["rows"])}
    for name, spec in folder.specs.items():
        if spec.group == "timing":
            continue
        shape = json.loads((folder.root / name / "zarr.json").read_text())["shape"]
        arrays[f"{name} shape"] = np.array(shape)
        if spec.grows == "draw" and spec.num_chains:
            for chain, count in enumerate(status["counts"]):
                arrays[f"{name}[{chain}]"] = folder.read(name, np.s_[chain, :count])
        elif spec.num_chains or spec.group in ("posterior", "observed_data"):
            draws = min(status["counts"])
            if spec.grows == "draw":
                arrays[name] = folder.read(name, np.s_[:draws])
                continue
            where = np.s_[:, : status["rows"]] if spec.grows else ...
            arrays[name] = folder.read(name, where)
    return arrays


def same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].tobytes() == right[name].tobytes(), name
