"""The networks on one GPU: ``python -m benchmarks.gpu PART ... --out FILE``.

Parts: ``chip`` (the rates of the chip itself), ``steps`` (microseconds per chain-step),
``torch`` (one chain in PyTorch, eager and compiled), ``evaluation`` (the test set's share of a
run), ``equivalence`` (traces of functionals of the posterior at each precision, judged by
``python -m benchmarks.equivalence``). Results are added to the file, part by part.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks.speed.steps import Steps
from tacthmc.paper import networks as models
from tacthmc.predict import averaged

# Image shape, classes, batch size, training and test examples of the paper's task.
TASKS: dict[str, tuple[tuple[int, ...], int, int, int, int]] = {
    "mlp": ((28, 28), 47, 128, 112_800, 18_800),
    "cnn": ((32, 32, 3), 10, 64, 50_000, 10_000),
    "lstm": ((28, 28), 10, 64, 60_000, 10_000),
}
CHOSEN = {"mlp": "tf32", "cnn": "tf32", "lstm": "bfloat16"}


def network(name: str, compute: str) -> Any:
    if name != "cnn":
        return getattr(models, name)(compute=compute)
    # In float32 the fused kernels have no tensor cores to use, and XLA's products are faster.
    return models.cnn(compute=compute, convolution="phases" if compute == "float32" else "fused")


def posterior(name: str, model: Any, size: int, rng: np.random.Generator, precision: float) -> Any:
    shape, classes, batch, _, _ = TASKS[name]
    images = rng.integers(0, 256, (size, *shape), dtype=np.uint8)
    labels = rng.integers(0, classes, size, dtype=np.int32)
    prior = models.gaussian_prior(precision=precision)
    return tacthmc.posterior(
        prior, models.categorical(model), (images, labels), batch, batched=True
    )


def steps_of(sampler: Any, potential: Any, model: Any, chains: int, seed: int = 0) -> Steps:
    keys = jax.random.split(jax.random.key(seed + 1), chains)
    return Steps(sampler, potential, jax.vmap(model.init)(keys), seed)


def timed(function: Any, repeats: int = 3) -> float:
    laps = []
    for _ in range(repeats):
        begun = time.perf_counter()
        function()
        laps.append(time.perf_counter() - begun)
    return float(np.median(laps))


def step_microseconds(name: str, compute: str, chains: int) -> dict[str, float]:
    model = network(name, compute)
    potential = posterior(name, model, 10_000, np.random.default_rng(0), 1.0)
    begun = time.perf_counter()
    runner = steps_of(tacthmc.tact(1e-6, noise=0.1), potential, model, chains)
    runner.run(0, 4)
    compiled = time.perf_counter() - begun
    runner.run(1, 4)
    step = timed(lambda: runner.run(4, 4)) / (4 * runner.keep_every)
    return {"step": 1e6 * step, "chain_step": 1e6 * step / chains, "compile_seconds": compiled}


def steps(names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    plan = [
        (name, compute, chains)
        for name in names
        for compute, counts in ((CHOSEN[name], (1, 8, 32, 128)), ("float32", (128,)))
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


def chip() -> dict[str, Any]:
    found: dict[str, Any] = {}
    size = 8192
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
    big = jnp.zeros((1 << 29,), jnp.float32)
    add = jax.jit(lambda x: x + 1)
    jax.block_until_ready(add(big))
    took = timed(lambda: jax.block_until_ready(add(big)))
    found["bandwidth TB/s"] = 2 * big.nbytes / took / 1e12
    print(found, flush=True)
    return found


def torch() -> dict[str, Any]:
    import torch as pytorch

    from benchmarks.speed.torch_networks import arranged, module
    from benchmarks.speed.torch_tact import TorchTact

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


def evaluation(names: list[str], steps: dict[str, Any]) -> dict[str, Any]:
    """The test set under every chain's parameters, once an epoch, over the epoch's steps."""
    found: dict[str, Any] = {}
    for name in names:
        shape, _, batch, train, test = TASKS[name]
        compute = CHOSEN[name]
        model = network(name, compute)
        images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (test, *shape), np.uint8))
        for chains in (1, 8, 32, 128):
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


def equivalence(folder: Path, names: list[str], computes: list[str]) -> dict[str, Any]:
    """Functionals along 256 chains on 500 images, at float32 and at the precision chosen."""
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
            runner = steps_of(sampler, potential, model, 256, seed)

            functionals = functionals_of(model, potential, held_out)
            rows = []
            for number in range(BURN + DRAWS):
                runner.run(1, 1)
                if number >= BURN:
                    rows.append(np.asarray(functionals(runner.chains.state.position)))
            np.save(folder / f"{name}-{compute}.npy", np.stack(rows, axis=1))
            facts[f"{name} {compute}"] = {"seconds": time.perf_counter() - begun, "step_size": eta}
            print(name, compute, facts[f"{name} {compute}"], rows[-1].mean(axis=0), flush=True)
    return facts


PRECISION = 1000.0
# A tenth of one over the largest curvature at a first position (tacthmc.curvature).
STEP_SIZES = {"mlp": 5.0e-5, "cnn": 4.0e-5, "lstm": 8.8e-5}
BURN, DRAWS = 40, 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", default=list(TASKS), help="for all but torch")
    parser.add_argument("--computes", nargs="+", default=[], help="for equivalence")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    for part in options.parts:
        if part == "steps":
            results.setdefault(part, {}).update(steps(options.networks))
        elif part == "evaluation":
            found = evaluation(options.networks, results["steps"])
            results.setdefault(part, {}).update(found)
        elif part == "equivalence":
            results[part] = equivalence(options.out.parent, options.networks, options.computes)
        else:
            results[part] = {"chip": chip, "torch": torch}[part]()
        results["machine"] = {
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "python": platform.python_version(),
        }
        some = options.networks != list(TASKS) and part not in ("chip", "torch")
        words = ["python -m benchmarks.gpu", part] + ["--networks", *options.networks] * some
        called = f"{part}, {' '.join(options.networks)}" if some else part
        results.setdefault("commands", {})[called] = " ".join(words)
        results["seed"] = 0
        options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
