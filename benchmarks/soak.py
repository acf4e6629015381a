"""Kill a stored run 50 times at random moments; it has to end as if nothing had happened.

    python -m benchmarks.soak [--kills 50] [--seed 0]

Kills fall at random times, while rows are being written, before they are shown, and while a
checkpoint is being written. Writes ``soak.json`` beside this file.
"""

import argparse
import json
import platform
import random
import tempfile
import time
from pathlib import Path

import jax

from tests import child as problem
from tests.killing import computed_again, contents, run_child, same


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    choose, begun = random.Random(options.seed), time.perf_counter()
    kills, runs, again, by_kind = 0, 0, [], {}
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        cache = place / "cache"
        run_child(place / "reference", cache=cache)
        reference = contents(place / "reference")
        path = place / "0"
        while kills < options.kills or path.exists():
            kind = choose.choice(["time", "time", "flush", "publish", "checkpoint"])
            kill, seconds = f"{kind}:{choose.randint(1, 4)}", None
            if kind == "time":
                kill, seconds = "", choose.uniform(0.5, 7.0)
            if kills >= options.kills:
                kill, seconds = "", None
            sealed = (path / "config.json").exists()
            code, errors = run_child(path, kill, cache, seconds)
            if sealed:
                step, steps_again = computed_again(errors) if "goes on" in errors else (0, 0)
                again.append(steps_again)
                assert steps_again <= problem.CHECKPOINT_STEPS, (step, steps_again)
            if code:
                assert code == -9, errors
                kills += 1
                by_kind[kind] = by_kind.get(kind, 0) + 1
                print(f"kill {kills} ({kind}): {again[-1:]} steps computed again", flush=True)
                continue
            same(contents(path), reference)
            runs += 1
            path = place / str(runs)
    result = {
        "command": "make soak",
        "kills": kills,
        "kills_by_kind": by_kind,
        "runs_ended_and_byte_identical": runs,
        "checkpoint_steps": problem.CHECKPOINT_STEPS,
        "most_steps_computed_again": max(again),
        "seconds": round(time.perf_counter() - begun),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "seed": options.seed,
    }
    Path(__file__).with_name("soak.json").write_text(json.dumps(result, indent=1) + "\n")
    print(result)


if __name__ == "__main__":
    main()
