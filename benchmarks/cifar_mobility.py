"""ξ on a real posterior: the paper's CNN on CIFAR-10, and what tempering gives its predictions.

    python -m benchmarks.cifar_mobility OUT.json --data FOLDER [--hottest 2] [--xi-step-size 1e-5]
    python -m benchmarks.cifar_mobility OUT.json --data FOLDER [--hottest 2] --sweep 20

Chains start from SGNHT's after ``--burn`` epochs, one a seed. SGNHT goes on, and ``tact``, which
tempers the likelihood, for the same number of gradients; its ξ moves by itself or, with
``--sweep``, is led. Nothing is chosen by the test set: each setting that is given runs and is
reported. The rows ``pooled`` have the prediction averaged over all seeds of a setting: what is
still to be had from places that one chain does not reach.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np

import tacthmc
from tacthmc import predict
from tacthmc.dynamics import AdaptiveBiasingForce, ShapedCoupling, Sweep
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.potentials import loss_table

BATCH, DECAY = 64, 1e-3


def images(folder: Path, limit: int | None) -> data.ImageSet:
    """CIFAR-10 from a folder, normalized; a part of it for a trial."""
    whole = data.load("cifar10", folder=folder)
    if limit is not None:
        whole = data.ImageSet(
            whole.name,
            whole.train_images[:limit],
            whole.train_labels[:limit],
            whole.test_images[:limit],
            whole.test_labels[:limit],
            whole.classes,
            whole.source,
        )
    return whole


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--burn", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-3, help="on the mean loss")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--hottest", type=float, nargs="+", default=[2.0])
    parser.add_argument("--xi-step-size", type=float, nargs="+", default=[1e-5])
    parser.add_argument("--sweep", type=float, nargs="+", default=[], help="epochs of a period")
    parser.add_argument("--rest", type=float, default=0.5, help="share of a period at rest")
    parser.add_argument("--window", type=float, default=0.5, help="epochs of a relaxation test's")
    parser.add_argument("--centre", action="store_true", help="θ widens with ξ")
    parser.add_argument("--table", action="store_true", help="keep each example's last loss")
    parser.add_argument("--skip-sgnht", action="store_true")
    parser.add_argument("--skip-tact", action="store_true")
    parser.add_argument("--marks", type=int, nargs="*", default=[], help="epochs, scores at each")
    parser.add_argument("--compute", default="tf32")
    parser.add_argument("--limit", type=int, default=None)
    args = parser.parse_args()
    begun = time.perf_counter()
    found = images(args.data, args.limit)
    model = models.cnn(compute=args.compute)
    fitting = data.shaped(data.normalized(found), model)
    num_data = found.num_train
    epoch = num_data // BATCH
    clean = tacthmc.posterior(
        models.gaussian_prior(precision=2 * DECAY * num_data),
        models.categorical(model),
        fitting.train,
        BATCH,
        batched=True,
    )
    eta, keep = args.rate / num_data, epoch
    cold = tacthmc.sgnht(eta, noise=args.noise, keep_every=keep)
    seeds = range(args.seeds)
    inits = [model.init(jax.random.key(100 + s)) for s in seeds]
    starts = jax.tree.map(lambda *x: jax.numpy.stack(x), *inits)
    burnt = tacthmc.sample(
        jax.random.key(0),
        cold,
        clean,
        starts,
        args.burn * epoch,
        args.seeds,
        num_warmup=args.burn * epoch - 1,
        init_per_chain=True,
        keep="nothing",
    )
    print("burnt in", round(time.perf_counter() - begun, 1), "s", flush=True)
    file: dict[str, Any] = {
        "about": {
            "command": " ".join(["python -m benchmarks.cifar_mobility", *sys.argv[1:]]),
            "device": str(getattr(jax.devices()[0], "device_kind", jax.devices()[0])),
            "versions": {"python": platform.python_version(), "jax": jax.__version__},
            "epochs": args.epochs,
            "burn": args.burn,
            "examples": num_data,
        },
        "rows": [],
    }
    groups: list[tuple[str, Any, list[Any], list[dict[str, Any]]]] = []
    if not args.skip_sgnht:
        about = [{"seed": s} for s in seeds]
        groups.append(("sgnht", clean, [cold] * args.seeds, about))
    tempered = tacthmc.temper_likelihood(loss_table(clean) if args.table else clean)
    samplers, about = [], []
    for hottest, motion, seed in product(args.hottest, args.sweep or args.xi_step_size, seeds):
        samplers.append(
            tacthmc.tact(
                eta,
                noise=args.noise,
                # What ξ feels is the mini-batches' noise at all temperatures: λ falls evenly.
                coupling=ShapedCoupling([1.0, hottest], [1.0, 1.0]),
                centre="mean" if args.centre else None,
                keep_every=keep,
                **(_led(motion, args, epoch) if args.sweep else _free(motion)),
            )
        )
        moves = {"sweep_epochs": motion} if args.sweep else {"xi_step_size": motion}
        about.append({"hottest": hottest, **moves, "seed": seed})
    if not args.skip_tact:
        groups.append(("tact", tempered, samplers, about))
    after = args.epochs - args.burn
    for name, potential, samplers, about in groups:
        begun = time.perf_counter()
        chosen = np.array([row["seed"] for row in about])
        where = jax.tree.map(lambda x, c=chosen: x[c], burnt.state.position)
        live = predict.Predictive(model, fitting.test[0], per_chain=True)
        marks = Marks(live, name, about, found, [mark * epoch for mark in args.marks], epoch)
        marks.save = lambda rows: write(args.out, file, rows)
        run = tacthmc.sample(
            jax.random.key(1),
            samplers,
            potential,
            where,
            after * epoch,
            num_warmup=0,
            init_per_chain=True,
            keep="nothing",
            callbacks=[live, marks],
        )
        seconds = time.perf_counter() - begun
        chains = live.chains
        for chain, row in enumerate(about):
            row = {"method": name, **row, **summary(run, chain, chains.get(chain), found)}
            row |= after_rest(run, chain, row, args.rest) if "sweep_epochs" in row else {}
            row["seconds"] = round(seconds / len(about), 1)
            file["rows"].append(row)
            print(json.dumps(row), flush=True)
        file["rows"] += marks.rows + pooled(name, about, chains, found)
        write(args.out, file, [])


def write(out: Path, file: dict[str, Any], more: list[dict[str, Any]]) -> None:
    """What there is, and rows on the way: a run that is ended early leaves them."""
    out.write_text(json.dumps({**file, "rows": file["rows"] + more}, indent=1))


def _free(xi_step_size: float) -> dict[str, Any]:
    """ξ by itself."""
    # Old energies are wrong ones while the chain still falls.
    bias = AdaptiveBiasingForce(200, window=20_000.0)
    return {"xi_step_size": xi_step_size, "xi_noise": 0.1, "bias": bias}


def _led(epochs: float, args: argparse.Namespace, epoch: int) -> dict[str, Any]:
    """ξ up and down once in so many epochs, a part of them at rest."""
    sweep = Sweep(round(epochs * epoch), args.rest)
    return {
        "sweep": sweep,
        "relaxed": tacthmc.dynamics.Relaxed(max(16, round(args.window * epoch))),
    }


def pooled(
    name: str, about: list[dict[str, Any]], chains: dict[int, Any], found: data.ImageSet
) -> list[dict[str, Any]]:
    """The prediction averaged over all draws of all seeds, for each setting."""
    settings = [{k: v for k, v in row.items() if k != "seed"} for row in about]
    rows = []
    for setting in [s for i, s in enumerate(settings) if s not in settings[:i]]:
        mine = [chains[i] for i, s in enumerate(settings) if s == setting and i in chains]
        if mine:
            every = predict.pooled(mine)
            scores = {k: float(v) for k, v in every.scores(found.test_labels)._asdict().items()}
            rows.append({"method": f"{name}, pooled", **setting, "draws": every.weight} | scores)
    return rows


class Marks:
    """The scores on the way: whether one chain gets with time to where several are together."""

    def __init__(
        self,
        live: predict.Predictive,
        name: str,
        about: list[dict[str, Any]],
        found: data.ImageSet,
        steps: list[int],
        epoch: int,
    ):
        """At the first chunk's end from each of ``steps`` on."""
        self._live, self._name, self._about, self._found = live, name, about, found
        self._steps, self._epoch = sorted(steps), epoch
        self.rows: list[dict[str, Any]] = []
        self.save: Callable[[list[dict[str, Any]]], None] = lambda rows: None

    def __call__(self, snapshot: tacthmc.run.Snapshot) -> None:
        """Look whether it is time."""
        if not self._steps or snapshot.step < self._steps[0]:
            return
        self._steps = [step for step in self._steps if step > snapshot.step]
        at = {"after_epochs": round(snapshot.step / self._epoch, 1)}
        chains, labels = self._live.chains, self._found.test_labels
        for chain, row in enumerate(self._about):
            if chain in chains:
                scores = chains[chain].scores(labels)
                row = {"method": self._name, **row, **at, "draws": chains[chain].weight}
                self.rows.append(row | {k: float(v) for k, v in scores._asdict().items()})
        for row in pooled(self._name, self._about, chains, self._found):
            self.rows.append(row | at)
        self.save(self.rows)


def after_rest(run: Any, chain: int, row: dict[str, Any], rest: float) -> dict[str, Any]:
    """The energy in the second half of each rest, the plateau's where heat is forgotten by then."""
    energy = np.asarray(run.trace["energy"][chain], float)
    phase = np.arange(1, len(energy) + 1) % row["sweep_epochs"] / (rest * row["sweep_epochs"])
    cooled = energy[(phase >= 0.5) & (phase < 1)]
    if not cooled.size:
        return {}
    return {"rested_energy": cooled.mean(), "rested_error": cooled.std() / np.sqrt(cooled.size)}


def summary(run: Any, chain: int, prediction: Any, found: data.ImageSet) -> dict[str, Any]:
    """Where ξ was, what the energy was on the plateau in the second half, and the scores."""
    rows = len(run.trace["energy"][chain])
    late = np.arange(rows) >= rows // 2
    energy = np.asarray(run.trace["energy"][chain], float)
    here: dict[str, Any] = {"failures": [str(f) for f in run.failures if f.chain == chain]}
    if "xi" in run.trace:
        temperature = np.asarray(run.trace["temperature"][chain], float)
        here["round_trips"] = int(run.round_trips[chain])
        here["plateau_share"] = float(run.plateau_share[chain])
        if "xi_kinetic_temperature" in run.trace:  # not of a ξ that is led
            here["xi_temperature"] = float(np.mean(run.trace["xi_kinetic_temperature"][chain]))
            here["felt_sd"] = float(np.std(np.diff(run.trace["felt_energy"][chain])) / np.sqrt(2))
        here["hottest_seen"] = float(temperature.max())
        late = late & (temperature == 1)
    kept = energy[late]
    here["plateau_energy"] = float(kept.mean()) if kept.size else None
    here["its_error"] = float(kept.std() / np.sqrt(kept.size)) if kept.size > 1 else None
    if prediction is not None:
        scores = prediction.scores(found.test_labels)
        here |= {"draws": prediction.weight} | {k: float(v) for k, v in scores._asdict().items()}
    return here


if __name__ == "__main__":
    main()
