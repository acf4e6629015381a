"""What the driver costs: a run with store, checkpoints and progress against the bare scan.

    python benchmarks/overhead.py [--steps 4000] [--rounds 6] [--chains 1]

A 784-100-47 network on batches of 128, a draw every 50 steps where ξ is on the plateau, all of
them stored, a checkpoint every 10 s. Both are compiled before they are timed, and take turns.
Writes ``overhead.json`` beside this file.
"""

import argparse
import contextlib
import io
import itertools
import json
import platform
import tempfile
import threading
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from tacthmc.compiler._random import chain_keys, start_keys, step_keys
from tacthmc.samplers import tact_per_datum

NUM_DATA, WIDTHS, BATCH, KEEP_EVERY = 20_000, (784, 100, 47), 128, 50


def network():
    rng = np.random.default_rng(0)
    data = (
        jnp.asarray(rng.normal(size=(NUM_DATA, WIDTHS[0])), jnp.float32),
        jnp.asarray(rng.integers(0, WIDTHS[-1], NUM_DATA)),
    )
    init = [
        {"w": jnp.asarray(rng.normal(size=s) / np.sqrt(s[0]), jnp.float32), "b": jnp.zeros(s[1])}
        for s in itertools.pairwise(WIDTHS)
    ]

    def log_prior(layers):
        return -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(layers))

    def log_likelihood(layers, batch):
        x, y = batch
        hidden = jax.nn.relu(x @ layers[0]["w"] + layers[0]["b"])
        logits = hidden @ layers[1]["w"] + layers[1]["b"]
        return jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]

    return tacthmc.posterior(log_prior, log_likelihood, data, BATCH, batched=True), init


@eqx.filter_jit
def bare(sampler, potential, key, init, chains, steps):
    """The same steps in one plain scan: no statistics, nothing kept."""

    def chain(number):
        start, stream = chain_keys(key, number)
        state_key, data_key = start_keys(start)

        def one(carry, k):
            state, data = carry
            noise_key, batch_key = step_keys(stream, k)
            data, selection = potential.select(data, batch_key, state.position)
            state, _ = sampler.step(noise_key, state, potential, potential.fetch(selection))
            return (state, data), None

        start = (sampler.init(state_key, init), potential.init_data(data_key))
        return jax.lax.scan(one, start, jnp.arange(steps))[0][0].position

    return jax.vmap(chain)(jnp.arange(chains))


class Memory:
    """The resident memory of this process, once a second."""

    def __init__(self):
        self.mebibytes, self._stop = [], threading.Event()

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _watch(self):
        while not self._stop.wait(1.0):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.mebibytes.append(round(pages * 4096 / 2**20))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--out", default=Path(__file__).with_name("overhead.json"), type=Path)
    options = parser.parse_args()
    potential, init = network()
    sampler = tact_per_datum(1e-3, NUM_DATA, keep_every=KEEP_EVERY)
    key, rounds = jax.random.key(0), []

    def driven(steps, folder):
        with contextlib.redirect_stderr(io.StringIO()):
            return tacthmc.sample(
                key,
                sampler,
                potential,
                init,
                steps,
                options.chains,
                num_warmup=0,
                store=folder,
                checkpoint_seconds=10.0,
                progress=True,
            )

    with tempfile.TemporaryDirectory() as place:
        driven(100, Path(place) / "warm")
        jax.block_until_ready(bare(sampler, potential, key, init, options.chains, options.steps))
        with Memory() as memory:
            for number in range(options.rounds):
                begun, worked = time.perf_counter(), time.process_time()
                last = bare(sampler, potential, key, init, options.chains, options.steps)
                jax.block_until_ready(last)
                middle, half = time.perf_counter(), time.process_time()
                run = driven(options.steps, Path(place) / str(number))
                rounds.append(
                    {
                        "bare_cpu_seconds": round(half - worked, 2),
                        "run_cpu_seconds": round(time.process_time() - half, 2),
                        "run_seconds_without_start": round(run.seconds, 2),
                        "bare_seconds": round(middle - begun, 2),
                        "run_seconds": round(time.perf_counter() - middle, 2),
                        "draws": run.counts.tolist(),
                    }
                )
                print(rounds[-1], flush=True)
                assert np.allclose(run.state.position[1]["b"], last[1]["b"], atol=1e-1)
    ratios = [r["run_seconds"] / r["bare_seconds"] for r in rounds]
    times = [sum(r[kind] for r in rounds) for kind in ("run_seconds", "bare_seconds")]
    work = [sum(r[kind] for r in rounds) for kind in ("run_cpu_seconds", "bare_cpu_seconds")]
    result = {
        "command": "python benchmarks/overhead.py",
        "steps": options.steps,
        "chains": options.chains,
        "checkpoint_seconds": 10.0,
        "rounds": rounds,
        "overhead_of_total_time": round(times[0] / times[1] - 1, 4),
        "overhead_of_cpu_time": round(work[0] / work[1] - 1, 4),
        "overhead_of_ratios_median": round(float(np.median(ratios)) - 1, 4),
        "overhead_by_round": [round(ratio - 1, 4) for ratio in ratios],
        "resident_memory_mib_by_second": memory.mebibytes,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": f"{jax.devices()[0].device_kind}, {__import__('os').cpu_count()} cores",
        "seed": 0,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"overhead {100 * result['overhead_of_ratios_median']:.1f}%")


if __name__ == "__main__":
    main()
