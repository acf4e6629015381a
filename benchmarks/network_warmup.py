"""A network without numbers set by hand: what a warm-up chooses, and what its frame is worth.

    python -m benchmarks.network_warmup OUT.json --data FOLDER [--seeds 3] [--first 0] [--epochs 60]
    python -m benchmarks.network_warmup OUT.json --data FOLDER --name cifar10 --compute tf32

The MLP 784-100-10 on Fashion-MNIST, 79,510 parameters, batches of 128; or the paper's CNN on
CIFAR-10, 106,278 parameters, batches of 64. ``tact()`` has no numbers.
SGNHT goes with the numbers that were found by hand elsewhere (η = 5·10⁻³ per datum, c = 0.05), with
those of the warm-up but θ's own coordinates, and with those of the warm-up in its frame. All start
where the warm-up's first chain ended, run as many epochs, and average predictions on the test
images over one draw an epoch after a third of them. Nothing is chosen by the test images.
"""

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tacthmc
from tacthmc import predict
from tacthmc.paper import data
from tacthmc.paper import networks as models

DECAY = 1e-3
RATE, NOISE = 5e-3, 0.05


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--name", default="fashion_mnist")
    parser.add_argument("--compute", default="float32")
    parser.add_argument("--methods", nargs="+", help="those that are run; all by default")
    args = parser.parse_args()
    found = data.load(args.name, folder=args.data, download=False)
    is_cnn = found.name == "cifar10"
    model: Any = (
        models.cnn(compute=args.compute)
        if is_cnn
        else models.mlp(784, 100, len(found.classes), compute=args.compute)
    )
    batch = 64 if is_cnn else 128
    fitting = data.shaped(data.normalized(found), model)
    num_data = found.num_train
    posterior = tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * num_data),
        models.categorical(model),
        fitting.train,
        batch,
        batched=True,
    )
    epoch = num_data // batch
    file: dict[str, Any] = {
        "about": {
            "command": " ".join(["python -m benchmarks.network_warmup", *sys.argv[1:]]),
            "device": f"{jax.default_backend()}, {jax.local_device_count()} device(s)",
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
        },
        "rows": [],
    }
    for seed in range(args.first, args.first + args.seeds):
        key = jax.random.key(seed)
        begun = time.perf_counter()
        sampler = tacthmc.tune(
            key, tacthmc.tact(keep_every=epoch), posterior, model.init(jax.random.fold_in(key, 1))
        )
        assert sampler.tuning is not None
        seconds = time.perf_counter() - begun
        start = jax.tree.map(lambda x: x[0], sampler.tuning.start)
        chosen = {
            "seconds": round(seconds, 1),
            "gradients": sampler.tuning.gradients,
            "choices": sampler.tuning.record(),
        }
        file["rows"].append({"method": "warm-up", "seed": seed} | chosen)
        eta, c = float(sampler.step_size), float(sampler.injected)
        rivals = {
            "sgnht, by hand": tacthmc.sgnht(RATE / num_data, noise=NOISE, keep_every=epoch),
            "sgnht, warm-up's numbers, no frame": tacthmc.sgnht(
                eta, noise=c, thermostat=sampler.thermostat, keep_every=epoch
            ),
            "sgnht, warm-up's numbers and frame": tacthmc.sgnht(
                eta,
                noise=c,
                thermostat=sampler.thermostat,
                frame=sampler.frame,
                keep_every=epoch,
            ),
            "tact()": sampler,
        }
        for name in args.methods or rivals:
            one = rivals[name]
            row = {"method": name, "seed": seed}
            row |= measured(one, posterior, start, args.epochs, epoch, model, fitting, found, seed)
            file["rows"].append(row)
            print(json.dumps(row), flush=True)
            args.out.write_text(json.dumps(file, indent=1) + "\n")


def measured(
    sampler: Any,
    posterior: Any,
    start: Any,
    epochs: int,
    epoch: int,
    model: Any,
    fitting: Any,
    found: data.ImageSet,
    seed: int,
) -> dict[str, Any]:
    """One chain's scores, the energy at unit temperature in its later half, and what it took."""
    begun = time.perf_counter()
    live = predict.Predictive(model, fitting.test[0])
    run = tacthmc.sample(
        jax.random.key(100 + seed),
        sampler,
        posterior,
        start,
        epochs * epoch,
        num_warmup=epochs // 3 * epoch,
        keep="nothing",
        callbacks=[live],
        progress=False,
    )
    energy = np.asarray(run.trace["energy"][0], float)
    late = np.arange(len(energy)) >= len(energy) // 2
    if "temperature" in run.trace:
        late &= np.asarray(run.trace["temperature"][0]) == 1
    scores = live.prediction.scores(found.test_labels)._asdict()
    return {
        "energy": float(energy[late].mean()),
        # Of blocks, since energies follow one another.
        "its_error": float(np.std([x.mean() for x in np.array_split(energy[late], 8)]) / 7**0.5),
        "draws": live.prediction.weight,
        "seconds": round(time.perf_counter() - begun, 1),
    } | {name: float(value) for name, value in scores.items()}


if __name__ == "__main__":
    main()
