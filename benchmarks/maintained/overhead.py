"""What the driver costs: a run with store, checkpoints and progress against the bare scan.

    python -m benchmarks overhead [--steps 4000] [--rounds 6] [--chains 1]

A 784-100-47 network on batches of 128, a draw every 50 steps where ξ is on the plateau, all of
them stored, a checkpoint every 10 s. Both are compiled before they are timed, and take turns.
"""

import contextlib
import io
import itertools
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks import record

# Not public: the bare scan takes the steps of the run, with the same random numbers.
from tacthmc.compiler._random import chain_keys, start_keys, step_keys
from tacthmc.samplers import per_datum

NUM_DATA, WIDTHS, BATCH, EVERY = 20_000, (784, 100, 47), 128, 50
CHECKPOINT_SECONDS = 10.0
QUICK = {"steps": 100, "rounds": 1}


def network() -> tuple[Any, Any]:
    """The posterior, and where chains start."""
    rng = np.random.default_rng(0)
    data = (
        jnp.asarray(rng.normal(size=(NUM_DATA, WIDTHS[0])), jnp.float32),
        jnp.asarray(rng.integers(0, WIDTHS[-1], NUM_DATA)),
    )
    init = [
        {"w": jnp.asarray(rng.normal(size=s) / np.sqrt(s[0]), jnp.float32), "b": jnp.zeros(s[1])}
        for s in itertools.pairwise(WIDTHS)
    ]

    def log_prior(layers: Any) -> Any:
        return -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(layers))

    def log_likelihood(layers: Any, batch: Any) -> Any:
        x, y = batch
        hidden = jax.nn.relu(x @ layers[0]["w"] + layers[0]["b"])
        logits = hidden @ layers[1]["w"] + layers[1]["b"]
        return jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]

    return tacthmc.posterior(log_prior, log_likelihood, data, BATCH, batched=True), init


@eqx.filter_jit
def bare(sampler: Any, potential: Any, key: Any, init: Any, chains: int, steps: int) -> Any:
    """The same steps in one plain scan: no statistics, nothing kept."""
    batches = potential.batches

    def chain(number: Any) -> Any:
        start, stream = chain_keys(key, number)
        state_key, data_key = start_keys(start)

        def one(carry: Any, k: Any) -> tuple[Any, None]:
            state, data = carry
            noise_key, batch_key = step_keys(stream, k)
            data, selection = batches.select(data, batch_key, state.position)
            state, _ = sampler.step(noise_key, state, potential, batches.fetch(selection))
            return (state, data), None

        start = (sampler.init(state_key, init), batches.init(data_key))
        return jax.lax.scan(one, start, jnp.arange(steps))[0][0].position

    return jax.vmap(chain)(jnp.arange(chains))


class Memory:
    """The resident memory of this process, once a second, in MiB."""

    def __init__(self) -> None:
        self.mebibytes: list[int] = []
        self._stop = threading.Event()

    def __enter__(self) -> "Memory":
        """Watch it from a thread."""
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.mebibytes.append(round(pages * 4096 / 2**20))


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--chains", type=int, default=1)


def main(args: Namespace) -> None:
    potential, init = network()
    sampler, key = tacthmc.tact(per_datum(1e-3, NUM_DATA)), jax.random.key(0)

    def scanned() -> Any:
        last = bare(sampler, potential, key, init, args.chains, args.steps)
        return jax.block_until_ready(last)

    def driven(steps: int, folder: Path) -> tacthmc.Run:
        with contextlib.redirect_stderr(io.StringIO()):
            return tacthmc.sample(
                key,
                sampler,
                potential,
                init,
                steps,
                args.chains,
                keep=tacthmc.Keep(every=EVERY, after=0),
                store=tacthmc.Store(folder, checkpoint_seconds=CHECKPOINT_SECONDS),
                progress=True,
            )

    rounds = []
    with tempfile.TemporaryDirectory() as place:
        driven(100, Path(place) / "warm")
        scanned()
        with Memory() as memory:
            for number in range(args.rounds):
                rounds.append(
                    one_round(scanned, lambda n=number: driven(args.steps, Path(place) / str(n)))
                )
                print(rounds[-1], flush=True)
    facts = {"steps": args.steps, "chains": args.chains, "seed": 0}
    result = record.about(args, checkpoint_seconds=CHECKPOINT_SECONDS, **facts) | summary(rounds)
    result["resident_memory_mib_by_second"] = memory.mebibytes
    record.write(args.out, result)
    print(f"overhead {100 * result['overhead_of_ratios_median']:.1f}%")


def one_round(scanned: Any, driven: Any) -> dict[str, Any]:
    """The bare scan, then the run, which has to end at the same place."""
    begun, worked = time.perf_counter(), time.process_time()
    last = scanned()
    middle, half = time.perf_counter(), time.process_time()
    run = driven()
    ended, done = time.perf_counter(), time.process_time()
    assert np.allclose(run.state.position[1]["b"], last[1]["b"], atol=1e-1)
    return {
        "bare_cpu_seconds": round(half - worked, 2),
        "run_cpu_seconds": round(done - half, 2),
        "run_seconds_without_start": round(run.seconds, 2),
        "bare_seconds": round(middle - begun, 2),
        "run_seconds": round(ended - middle, 2),
        "draws": run.counts.tolist(),
    }


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The run's time over the scan's, less one: of the sums, and by round."""
    ratios = [r["run_seconds"] / r["bare_seconds"] for r in rounds]

    def over(kind: str) -> float:
        run, bare = (sum(r[f"{who}_{kind}"] for r in rounds) for who in ("run", "bare"))
        return round(run / bare - 1, 4)

    return {
        "rounds": rounds,
        "overhead_of_total_time": over("seconds"),
        "overhead_of_cpu_time": over("cpu_seconds"),
        "overhead_of_ratios_median": round(float(np.median(ratios)) - 1, 4),
        "overhead_by_round": [round(ratio - 1, 4) for ratio in ratios],
    }
