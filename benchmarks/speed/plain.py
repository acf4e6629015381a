"""BlackJAX as its users have it: in a process of its own, without our setting of XLA.

``python -m benchmarks.speed.plain`` is that process; it prints one JSON object.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

import jax.numpy as jnp

from benchmarks.speed import blackjax_loops
from benchmarks.speed.clock import by_turns, made_ready
from tacthmc.compiler._cpu_flags import OPTION
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.targets import three_gaussians

NAMES = ("sgnht", "sghmc", "sgld")


@dataclass(frozen=True)
class Sizes:
    """What the child measures."""

    chains: int
    steps: int
    keep_every: int
    heats: int
    seed: int
    force_noise: float


def in_a_child(sizes: Sizes, say: Say) -> Numbers:
    """The heats among BlackJAX's loops in a fresh process, by sampler; or why there are none."""
    flags = os.environ.get("XLA_FLAGS", "").split()
    plain = " ".join(flag for flag in flags if OPTION not in flag)
    environment = {**os.environ, "TACTHMC_XLA_FLAGS": "0", "XLA_FLAGS": plain}
    say("BlackJAX as its users have it: a process without our setting of XLA")
    command = [sys.executable, "-m", "benchmarks.speed.plain", json.dumps(asdict(sizes))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or ["no word"]}
    return json.loads(done.stdout.splitlines()[-1])


def heats(sizes: Sizes) -> Numbers:
    """Every way to write each sampler's loop, by turns."""
    found: Numbers = {}
    for name in NAMES:
        ways = blackjax_loops.contestants(
            name,
            three_gaussians(),
            jnp.array([-4.0]),
            force_noise=sizes.force_noise,
            chains=sizes.chains,
            steps=sizes.steps,
            keep_every=sizes.keep_every,
            seed=sizes.seed,
        )
        ready, absent = made_ready(ways, lambda text: None)
        found[f"BlackJAX {name}"] = {**by_turns(ready, sizes.heats, lambda text: None), **absent}
    return found


def fastest(heats: Numbers) -> dict[str, float]:
    """The median rate of each sampler's fastest way."""
    rates = {
        name: [way["rate"]["median"] for way in ways.values() if "rate" in way]
        for name, ways in heats.items()
        if isinstance(ways, dict)
    }
    return {name: max(found) for name, found in rates.items() if found}


if __name__ == "__main__":
    print(json.dumps(heats(Sizes(**json.loads(sys.argv[1])))))
