"""The networks on one GPU.

    python -m benchmarks gpu chip steps torch evaluation --out gpu.json

Parts: ``chip`` (the rates of the chip itself), ``steps`` (microseconds per chain-step),
``torch`` (one chain in PyTorch, eager and compiled), ``evaluation`` (the test set's share of a
run), ``equivalence`` (traces of functionals of the posterior at each precision, which
``python -m benchmarks equivalence`` judges). Results are added to the file, part by part.
"""

import platform
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks import record
from benchmarks.speed.clock import Skipped
from benchmarks.speed.steps import Steps
from benchmarks.speed.torch_networks import arranged, module
from benchmarks.speed.torch_tact import TorchTact, load_torch
from tacthmc.paper import networks as models
from tacthmc.predict import averaged

PARTS = ("chip", "steps", "torch", "evaluation", "equivalence")

# Image shape, classes, batch size, training and test examples of the paper's task.
TASKS: dict[str, tuple[tuple[int, ...], int, int, int, int]] = {
    "mlp": ((28, 28), 47, 128, 112_800, 18_800),
    "cnn": ((32, 32, 3), 10, 64, 50_000, 10_000),
    "lstm": ((28, 28), 10, 64, 60_000, 10_000),
}
CHOSEN = {"mlp": "tf32", "cnn": "tf32", "lstm": "bfloat16"}
"""The precision of each network's products."""
COUNTS = (1, 8, 32, 128)
"""Chains in a program."""
PRECISION = 1000.0
"""Of the prior, where precisions of products are compared."""
STEP_SIZES = {"mlp": 5.0e-5, "cnn": 4.0e-5, "lstm": 8.8e-5}
"""A tenth of one over the largest curvature at a first position."""
BURN, DRAWS = 40, 80
"""Intervals that are not traced, and those that are."""
QUICK = {"networks": ["mlp"], "counts": [1, 2], "traced": 2, "size": 512}


def network(name: str, compute: str) -> Any:
    """A network of the paper's, with products at that precision."""
    if name != "cnn":
        return getattr(models, name)(compute=compute)
    # In float32 the fused kernels have no tensor cores to use, and XLA's products are faster.
    return models.cnn(compute=compute, convolution="phases" if compute == "float32" else "fused")


def posterior(name: str, model: Any, size: int, rng: np.random.Generator, precision: float) -> Any:
    """A network's posterior on random images, with a Gaussian prior of that precision."""
    shape, classes, batch, _, _ = TASKS[name]
    images = rng.integers(0, 256, (size, *shape), dtype=np.uint8)
    labels = rng.integers(0, classes, size, dtype=np.int32)
    prior = models.gaussian_prior(precision=precision)
    return tacthmc.posterior(
        prior, models.categorical(model), (images, labels), batch, batched=True
    )


def steps_of(
    sampler: Any, potential: Any, model: Any, chains: int, seed: int = 0, room: int = 4
) -> Steps:
    """The steps of chains that start from fresh weights."""
    keys = jax.random.split(jax.random.key(seed + 1), chains)
    return Steps(sampler, potential, jax.vmap(model.init)(keys), seed, room=room)


def timed(function: Any, repeats: int = 3) -> float:
    """The median time of its calls."""
    laps = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        laps.append(time.perf_counter() - begun)
    return float(np.median(laps))


def step_microseconds(name: str, compute: str, chains: int) -> dict[str, float]:
    """A step of all chains, and of one."""
    model = network(name, compute)
    potential = posterior(name, model, 10_000, np.random.default_rng(0), 1.0)
    begun = time.perf_counter()
    runner = steps_of(tacthmc.tact(1e-6, noise=0.1), potential, model, chains)
    runner.run(0)
    compiled = time.perf_counter() - begun
    runner.run(1)
    step = timed(lambda: runner.run(runner.room)) / (runner.room * runner.every)
    return {"step": 1e6 * step, "chain_step": 1e6 * step / chains, "compile_seconds": compiled}


def steps(names: list[str], all_counts: list[int]) -> dict[str, Any]:
    """Each network with each number of chains; one that fails is recorded as such."""
    found: dict[str, Any] = {}
    plan = [
        (name, compute, chains)
        for name in names
        for compute, counts in ((CHOSEN[name], all_counts), ("float32", all_counts[-1:]))
        for chains in counts
    ]
    for name, compute, chains in plan:
        try:
            result = step_microseconds(name, compute, chains)
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
        found[f"{name} {compute} {chains}"] = result
        print(name, compute, chains, result, flush=True)
    return found


def chip(size: int) -> dict[str, Any]:
    """Products of square matrices, and a sum that only moves bytes."""
    found: dict[str, Any] = {}
    x = jax.random.normal(jax.random.key(0), (size, size))
    kinds = {
        "float32": (x, jax.lax.Precision.HIGHEST),
        "tf32": (x, jax.lax.Precision.DEFAULT),
        "bfloat16": (x.astype(jnp.bfloat16), jax.lax.Precision.DEFAULT),
    }
    for name, (a, precision) in kinds.items():
        product = jax.jit(
            lambda a, p=precision: jnp.matmul(a, a, precision=p, preferred_element_type=jnp.float32)
        )
        jax.block_until_ready(product(a))
        took = timed(lambda p=product, a=a: jax.block_until_ready([p(a) for _ in range(5)])) / 5
        found[f"{name} TFLOP/s"] = 2 * size**3 / took / 1e12
    big = jnp.zeros((8 * size**2,), jnp.float32)
    add = jax.jit(lambda x: x + 1)
    jax.block_until_ready(add(big))
    took = timed(lambda: jax.block_until_ready(add(big)))
    found["bandwidth TB/s"] = 2 * big.nbytes / took / 1e12
    print(found, flush=True)
    return found


def torch() -> dict[str, Any]:
    """Microseconds per step of Algorithm 1 with one chain in PyTorch."""
    try:
        pytorch = load_torch()
    except Skipped as error:
        print(f"torch: skipped, {error}")
        return {"skipped": str(error)}
    pytorch.set_default_device("cuda")
    pytorch.set_float32_matmul_precision("high")
    rng, found = np.random.default_rng(0), {}
    for name, (shape, classes, batch, _, _) in TASKS.items():
        images = arranged(rng.integers(0, 256, (10_000, *shape), dtype=np.uint8))
        labels = rng.integers(0, classes, 10_000, dtype=np.int64)
        data = (pytorch.tensor(images), pytorch.tensor(labels))
        for kind in ("eager", "compiled"):
            try:
                network = module(pytorch, name)
                network = pytorch.compile(network) if kind == "compiled" else network
                chain = TorchTact(pytorch, network, data, batch, precision=1.0, step_size=1e-6)
                for _ in range(20):
                    chain.step()
                pytorch.cuda.synchronize()
                took = timed(lambda c=chain: [c.step() for _ in range(200)]) / 200
                found[f"{name} {kind}"] = {"step": 1e6 * took}
            except Exception as error:
                found[f"{name} {kind}"] = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            print(name, kind, found[f"{name} {kind}"], flush=True)
    found["version"] = pytorch.__version__
    return found


def evaluation(names: list[str], counts: list[int], steps: dict[str, Any]) -> dict[str, Any]:
    """The test set under every chain's parameters, once an epoch, over the epoch's steps."""
    found: dict[str, Any] = {}
    for name in names:
        shape, _, batch, train, test = TASKS[name]
        compute = CHOSEN[name]
        model = network(name, compute)
        images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (test, *shape), np.uint8))
        for chains in counts:
            draws = jax.vmap(model.init)(jax.random.split(jax.random.key(0), chains))

            def evaluate(model: Any = model, draws: Any = draws, images: Any = images) -> None:
                jax.block_until_ready(averaged(model, draws, images))

            evaluate()
            took = timed(evaluate)
            epoch = train / batch * steps[f"{name} {compute} {chains}"]["step"] / 1e6
            one = {"seconds": took, "epoch_seconds": epoch, "share": took / (took + epoch)}
            found[f"{name} {chains}"] = one
            print(name, chains, one, flush=True)
    return found


def functionals_of(model: Any, potential: Any, held_out: np.ndarray) -> Any:
    """Eight predicted probabilities, Σθ², and the mean log likelihood of the data."""

    def of_one(params: Any) -> Any:
        first = jax.nn.softmax(model.logits(params, jnp.asarray(held_out)), axis=-1)[:8, 0]
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        likelihood = jnp.mean(potential.log_likelihood(params, potential.data))
        return jnp.concatenate([first, jnp.stack([squares, likelihood])])

    return jax.jit(jax.vmap(of_one))


def equivalence(folder: Path, names: list[str], computes: list[str], count: int) -> dict[str, Any]:
    """Functionals along the chains on 500 images, at float32 and at the precision chosen."""
    facts: dict[str, Any] = {}
    for name in names:
        for compute in computes or ("float32", CHOSEN[name]):
            model, rng = network(name, compute), np.random.default_rng(1)
            potential = posterior(name, model, 500, rng, PRECISION)
            held_out = rng.integers(0, 256, (16, *TASKS[name][0]), dtype=np.uint8)
            begun = time.perf_counter()
            eta = STEP_SIZES[name]
            # Critical damping of the prior's own directions: the slowest.
            sampler = tacthmc.sgnht(eta, noise=2 * (eta * PRECISION) ** 0.5)
            seed = 0 if compute == "float32" else 7
            runner = steps_of(sampler, potential, model, count, seed, room=1)
            functionals = functionals_of(model, potential, held_out)
            rows = []
            for number in range(BURN + DRAWS):
                runner.run(1)
                if number >= BURN:
                    rows.append(np.asarray(functionals(runner.chains.each.state.position)))
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{name}-{compute}.npy", np.stack(rows, axis=1))
            facts[f"{name} {compute}"] = {"seconds": time.perf_counter() - begun, "step_size": eta}
            print(name, compute, facts[f"{name} {compute}"], rows[-1].mean(axis=0), flush=True)
    return facts


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--networks", nargs="+", default=list(TASKS), help="for all but torch")
    parser.add_argument("--computes", nargs="+", default=[], help="for equivalence")
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS), help="chains")
    parser.add_argument("--traced", type=int, default=256, help="chains of equivalence")
    parser.add_argument("--size", type=int, default=8192, help="of the chip's matrices")


def main(args: Namespace) -> None:
    results = record.opened(args.out) or {}
    for part in args.parts:
        if part == "steps":
            results.setdefault(part, {}).update(steps(args.networks, args.counts))
        elif part == "evaluation":
            found = evaluation(args.networks, args.counts, results["steps"])
            results.setdefault(part, {}).update(found)
        elif part == "equivalence":
            traced = args.networks, args.computes, args.traced
            results[part] = equivalence(args.out.parent, *traced)
        else:
            results[part] = chip(args.size) if part == "chip" else torch()
        results["machine"] = {
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "python": platform.python_version(),
        }
        some = args.networks != list(TASKS) and part not in ("chip", "torch")
        named = f"{part}, {' '.join(args.networks)}" if some else part
        results.setdefault("commands", {})[named] = args.command
        results["seed"] = 0
        record.write(args.out, results)
