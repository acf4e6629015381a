"""The mixture's loops without ``tacthmc.configure_cpu``, in a process of their own.

BlackJAX's users have their loops like that, and so do ours who do not call ``configure_cpu``.
``python -m benchmarks.speed.plain`` is that process; it prints one JSON object.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict

from benchmarks.speed.clock import by_turns, made_ready
from benchmarks.speed.contestants import Config, blackjax, ours
from tacthmc.paper.figures.study import Numbers, Say

SETTINGS = ("xla_backend_extra_options", "xla_cpu_prefer_vector_width")
"""What ``tacthmc.configure_cpu`` sets."""


def configured() -> bool:
    """Whether this process computes with those settings."""
    return any(name in os.environ.get("XLA_FLAGS", "") for name in SETTINGS)


def in_a_child(config: Config, say: Say) -> Numbers:
    """Ours, and the heats among BlackJAX's loops, in a fresh process; or why there are none."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    plain = " ".join(flag for flag in flags if not any(name in flag for name in SETTINGS))
    say("the same without tacthmc.configure_cpu, in a process of its own")
    command = [sys.executable, "-m", "benchmarks.speed.plain", json.dumps(asdict(config))]
    environment = {**os.environ, "XLA_FLAGS": plain}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def measured(config: Config) -> Numbers:
    """Ours by turns, and every way to write each of BlackJAX's loops by turns."""

    def quiet(text: str) -> None:
        pass

    ready, absent = made_ready(ours(config), quiet)
    found: Numbers = {"ours": by_turns(ready, config.repeats, quiet) | absent, "heats": {}}
    for peer, ways in blackjax(config).items():
        ready, absent = made_ready(ways, quiet)
        found["heats"][peer] = {**by_turns(ready, config.heats, quiet), **absent}
    return found


def fastest(heats: Numbers) -> dict[str, float]:
    """The median rate of each peer's fastest way."""
    rates = {
        name: [way["rate"]["median"] for way in ways.values() if "rate" in way]
        for name, ways in heats.items()
    }
    return {name: max(found) for name, found in rates.items() if found}


if __name__ == "__main__":
    assert not configured()
    print(json.dumps(measured(Config(**json.loads(sys.argv[1])))))
