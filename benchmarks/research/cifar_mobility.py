"""The motion of ξ on the paper's CNN on CIFAR-10, and the predictions of tempered chains.

    python -m benchmarks cifar_mobility --data FOLDER [--hottest 2] [--xi-step-size 1e-5]
    python -m benchmarks cifar_mobility --data FOLDER [--hottest 2] --sweep 20

Chains start from SGNHT's after ``--burn`` epochs, one per seed. SGNHT goes on, and ``tact``, which
tempers the likelihood, for the same number of gradients. Its ξ moves by itself or, with
``--sweep``, follows a schedule. Nothing is chosen by the test set: each setting that is given runs
and is reported. The rows ``pooled`` have the prediction averaged over all seeds of a setting, for
what modes that one chain does not reach would add.
"""

import json
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import tacthmc
from benchmarks import record
from benchmarks.images import add_data, limited, loaded, posterior, scores_of
from tacthmc import predict
from tacthmc.dynamics import (
    AdaptiveBiasingForce,
    ContinuousTempering,
    Coordinates,
    ScheduledTempering,
    ShapedCoupling,
)
from tacthmc.paper import data
from tacthmc.paper import networks as models
from tacthmc.potentials import loss_table

BATCH = 64
FIRST_SEED = 100
BIAS_WINDOW = 20_000.0
"""Steps; older energies are wrong ones while the chain still falls."""
QUICK = {"epochs": 8, "burn": 2, "seeds": 2, "compute": "float32", "limit": 256}


class Group(NamedTuple):
    """Chains of one method, run as one program."""

    name: str
    potential: Any
    samplers: list[Any]
    settings: list[dict[str, Any]]
    window: int | None = None
    """The window of the relaxation test."""


def arguments(parser: ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--burn", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-3, help="on the mean loss")
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--hottest", type=float, nargs="+", default=[2.0])
    parser.add_argument("--xi-step-size", type=float, nargs="+", default=[1e-5])
    parser.add_argument("--sweep", type=float, nargs="+", default=[], help="epochs of a period")
    parser.add_argument("--rest", type=float, default=0.5, help="share of a period at rest")
    parser.add_argument("--window", type=float, default=0.5, help="of a relaxation test, in epochs")
    parser.add_argument("--center", action="store_true", help="θ widens with ξ")
    parser.add_argument("--table", action="store_true", help="keep each example's last loss")
    parser.add_argument("--skip-sgnht", action="store_true")
    parser.add_argument("--skip-tact", action="store_true")
    parser.add_argument("--marks", type=int, nargs="*", default=[], help="epochs, scores at each")
    parser.add_argument("--compute", default="tf32", help="the precision of products")
    parser.add_argument("--limit", type=int, help="the first images only, for a trial")


def main(args: Namespace) -> None:
    found = limited(loaded("cifar10", args), args.limit)
    model = models.cnn(compute=args.compute)
    fitting = data.shaped(data.normalized(found), model)
    epoch = found.num_train // BATCH
    clean = posterior(model, fitting.train, BATCH)
    burnt = burnt_in(args, model, clean, cold(args, found.num_train), epoch)
    facts = {"epochs": args.epochs, "burn": args.burn, "examples": found.num_train}
    file: dict[str, Any] = {"about": record.about(args, **facts), "rows": []}
    for group in groups(args, clean, found.num_train, epoch):
        begun = time.perf_counter()
        live = predict.Predictive(model, fitting.test[0], per_chain=True)
        marks = Marks(live, group, found, [mark * epoch for mark in args.marks], epoch)
        marks.save = lambda rows: write(args, file, rows)
        seeds = np.array([row["seed"] for row in group.settings])
        run = tacthmc.sample(
            jax.random.key(1),
            group.samplers,
            group.potential,
            tacthmc.PerChain(jax.tree.map(lambda x, c=seeds: x[c], burnt)),
            (args.epochs - args.burn) * epoch,
            keep=tacthmc.Keep(every=epoch, after=0, relaxation_window=group.window, forget=True),
            callbacks=[live, marks],
        )
        seconds = round((time.perf_counter() - begun) / len(group.settings), 1)
        chains = chains_of(live)
        for chain, setting in enumerate(group.settings):
            row = {"method": group.name, **setting, **summary(run, chain, chains, found)}
            row |= after_rest(run, chain, row, args.rest) if "sweep_epochs" in row else {}
            file["rows"].append(row | {"seconds": seconds})
            print(json.dumps(file["rows"][-1], default=float), flush=True)
        file["rows"] += marks.rows + pooled(group, chains, found)
        write(args, file, [])


def write(args: Namespace, file: dict[str, Any], more: list[dict[str, Any]]) -> None:
    """Write all rows, and ``more`` that a run has left so far."""
    record.write(args.out, {**file, "rows": file["rows"] + more})


def cold(args: Namespace, num_data: int) -> Any:
    """SGNHT at the step size and noise of all methods."""
    return tacthmc.sgnht(args.rate / num_data, noise=args.noise)


def burnt_in(args: Namespace, model: Any, potential: Any, sampler: Any, epoch: int) -> Any:
    """Where SGNHT's chains are after the burn-in."""
    begun, steps = time.perf_counter(), args.burn * epoch
    inits = [model.init(jax.random.key(FIRST_SEED + seed)) for seed in range(args.seeds)]
    starts = jax.tree.map(lambda *x: jnp.stack(x), *inits)
    run = tacthmc.sample(
        jax.random.key(0),
        sampler,
        potential,
        tacthmc.PerChain(starts),
        steps,
        args.seeds,
        keep=tacthmc.Keep(every=epoch, after=steps - 1, forget=True),
    )
    print("burnt in", round(time.perf_counter() - begun, 1), "s", flush=True)
    return run.state.position


def groups(args: Namespace, clean: Any, num_data: int, epoch: int) -> list[Group]:
    """SGNHT's chains and those of ``tact``."""
    made, seeds = [], range(args.seeds)
    if not args.skip_sgnht:
        samplers = [cold(args, num_data)] * args.seeds
        made.append(Group("sgnht", clean, samplers, [{"seed": seed} for seed in seeds]))
    if args.skip_tact:
        return made
    samplers, settings = [], []
    for hottest, motion, seed in product(args.hottest, args.sweep or args.xi_step_size, seeds):
        # What ξ feels is the mini-batches' noise at all temperatures: λ falls evenly.
        coupling = ShapedCoupling([1.0, hottest], [1.0, 1.0])
        samplers.append(
            tacthmc.tact(
                args.rate / num_data,
                noise=args.noise,
                tempering=(_scheduled if args.sweep else _free)(coupling, motion, args, epoch),
                coordinates=Coordinates(center="mean" if args.center else None),
            )
        )
        moves = {"sweep_epochs": motion} if args.sweep else {"xi_step_size": motion}
        settings.append({"hottest": hottest, **moves, "seed": seed})
    tempered = tacthmc.temper_likelihood(loss_table(clean) if args.table else clean)
    window = max(16, round(args.window * epoch)) if args.sweep else None
    made.append(Group("tact", tempered, samplers, settings, window))
    return made


def _free(coupling: Any, xi_step_size: float, args: Namespace, epoch: int) -> ContinuousTempering:
    """A ξ that moves by itself."""
    bias = AdaptiveBiasingForce(200, window=BIAS_WINDOW)
    return ContinuousTempering(coupling, bias, step_size=xi_step_size, noise=0.1)


def _scheduled(coupling: Any, epochs: float, args: Namespace, epoch: int) -> ScheduledTempering:
    """A ξ that goes up and down once in ``epochs``, and rests for a part of them."""
    return ScheduledTempering(round(epochs * epoch), args.rest, coupling=coupling)


def chains_of(live: predict.Predictive) -> dict[int, predict.Prediction]:
    """Each chain's prediction; none before the first draw."""
    try:
        return live.chains
    except ValueError:
        return {}


def pooled(
    group: Group, chains: dict[int, predict.Prediction], found: data.ImageSet
) -> list[dict[str, Any]]:
    """The prediction averaged over all draws of all seeds, for each setting."""
    settings = [{k: v for k, v in row.items() if k != "seed"} for row in group.settings]
    rows = []
    for setting in [s for i, s in enumerate(settings) if s not in settings[:i]]:
        mine = [chains[i] for i, s in enumerate(settings) if s == setting and i in chains]
        if mine:
            scores = scores_of(predict.pooled(mine), found.test_labels)
            rows.append({"method": f"{group.name}, pooled", **setting} | scores)
    return rows


class Marks:
    """Scores during a run: whether one chain gets with time to where several are together."""

    def __init__(
        self,
        live: predict.Predictive,
        group: Group,
        found: data.ImageSet,
        steps: list[int],
        epoch: int,
    ):
        """Note the scores at the first chunk's end from each of ``steps`` on."""
        self._live, self._group, self._found = live, group, found
        self._steps, self._epoch = sorted(steps), epoch
        self.rows: list[dict[str, Any]] = []
        self.save: Callable[[list[dict[str, Any]]], None] = lambda rows: None

    def __call__(self, snapshot: tacthmc.run.Snapshot) -> None:
        """Note the scores where a mark was passed."""
        if not self._steps or snapshot.step < self._steps[0]:
            return
        self._steps = [step for step in self._steps if step > snapshot.step]
        at = {"after_epochs": round(snapshot.step / self._epoch, 1)}
        chains, labels = chains_of(self._live), self._found.test_labels
        for chain, setting in enumerate(self._group.settings):
            if chain in chains:
                row = {"method": self._group.name, **setting, **at}
                self.rows.append(row | scores_of(chains[chain], labels))
        self.rows += [row | at for row in pooled(self._group, chains, self._found)]
        self.save(self.rows)


def after_rest(run: Any, chain: int, row: dict[str, Any], rest: float) -> dict[str, Any]:
    """The energy in the second half of each rest, the plateau's if heat is forgotten by then."""
    energy = np.asarray(run.trace["energy"][chain], float)
    phase = np.arange(1, len(energy) + 1) % row["sweep_epochs"] / (rest * row["sweep_epochs"])
    cooled = energy[(phase >= 0.5) & (phase < 1)]
    if not cooled.size:
        return {}
    return {"rested_energy": cooled.mean(), "rested_error": cooled.std() / np.sqrt(cooled.size)}


def summary(
    run: Any, chain: int, chains: dict[int, predict.Prediction], found: data.ImageSet
) -> dict[str, Any]:
    """Where ξ was, what the energy was on the plateau in the second half, and the scores."""
    rows = len(run.trace["energy"][chain])
    late = np.arange(rows) >= rows // 2
    energy = np.asarray(run.trace["energy"][chain], float)
    here: dict[str, Any] = {"failures": [str(f) for f in run.failures if f.chain == chain]}
    if "xi" in run.trace:
        temperature = np.asarray(run.trace["temperature"][chain], float)
        here["round_trips"] = int(run.round_trips[chain])
        here["plateau_share"] = float(run.plateau_share[chain])
        if "xi_kinetic_temperature" in run.trace:  # a ξ on a schedule has none
            here["xi_temperature"] = float(np.mean(run.trace["xi_kinetic_temperature"][chain]))
            energies = np.asarray(run.trace["xi_energy"][chain], float)
            here["felt_sd"] = float(np.std(np.diff(energies)) / np.sqrt(2))
        here["hottest_seen"] = float(temperature.max())
        late = late & (temperature == 1)
    kept = energy[late]
    here["plateau_energy"] = float(kept.mean()) if kept.size else None
    here["its_error"] = float(kept.std() / np.sqrt(kept.size)) if kept.size > 1 else None
    return here | scores_of(chains.get(chain), found.test_labels)
