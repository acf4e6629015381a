r"""One thermostat for a network, or one for each tensor: the paper's CNN on CIFAR-10.

    python -m benchmarks cifar_thermostats --data FOLDER --seeds 3 4 -- \
        "tensor 0.005 0.16 0" "tensor 0.005 0.16 0 T = 1.5, 20 of 100"

Each setting is a thermostat (scalar, tensor, diagonal), η per datum, c, the power of the noise
that masses have, and a schedule of ``cifar_schedules`` (its SGNHT where none is named). Every
chain starts from fresh weights; draws and scores are those of that benchmark. Notes beside the
record have the probabilities of the test images' true labels.
"""

import json
from argparse import ArgumentParser, Namespace
from typing import Any

from benchmarks import record
from benchmarks.research.cifar_chains import QUICK as CHAINS
from benchmarks.research.cifar_chains import Bench, add_chains, save_notes
from benchmarks.research.cifar_judge import LONG_WAITS, WAITS, judged
from benchmarks.research.cifar_trips import ALL, Trips

QUICK = CHAINS | {"seeds": [3]}


def setting(text: str) -> Trips:
    """The chain that a setting describes.

    >>> setting("tensor 0.005 0.16 0 T = 1.5, 20 of 100").hottest
    1.5
    """
    thermostat, rate, noise, masses, *schedule = text.split(" ", 4)
    return ALL[schedule[0] if schedule else "sgnht"]._replace(
        thermostat=thermostat, rate=float(rate), noise=float(noise), masses=float(masses)
    )


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("settings", nargs="+")
    add_chains(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4])


def main(args: Namespace) -> None:
    settings = {text: setting(text) for text in args.settings}
    bench = Bench(args)
    rows: list[dict[str, Any]] = []
    about = record.about(args, examples=bench.num_data)
    file: dict[str, Any] = {"about": about, "seconds": {}, "plans": {}, "rows": rows}
    # One program for each kind of thermostat: their states differ in shape.
    for kind in dict.fromkeys(one.thermostat for one in settings.values()):
        names = [text for text, one in settings.items() if one.thermostat == kind]
        plan = [(name, seed) for seed in args.seeds for name in names]
        found = bench.run([(settings[name], seed) for name, seed in plan], args.epochs)
        rows += judged(found, plan, args.burn, (*WAITS, *LONG_WAITS[1:]), settings)
        file["plans"][kind], file["seconds"][kind] = plan, found["seconds"]
        record.write(args.out, file)
        save_notes(args.out.with_name(f"{args.out.stem}-{kind}"), found)
    for row in rows:
        print(json.dumps(row), flush=True)
