"""Measure what is missing and write the record: ``python -m tests.calibration``.

``make test-slow`` measures the same rows, as tests. This uses as many processes as it is told.
"""

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.calibration.worker import alone, work


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.calibration", description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default="", help="only cases with this in their name")
    parser.add_argument("--try", type=int, dest="simulations", help="so few, and no record")
    args = parser.parse_args()
    from tests.calibration.cases import CASES
    from tests.calibration.rows import write_record

    names = [case.name for case in CASES if args.only in case.name]
    # The longest first, so that no process is left alone with one at the end.
    names.sort(key=lambda name: ("mixture" not in name, "tact" not in name))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.processes, spawn, alone) as pool:
        waiting = {pool.submit(work, name, args.simulations): name for name in names}
        for done in as_completed(waiting):
            print(f"{waiting[done]}: {done.result()}", flush=True)
    if args.simulations is None:
        write_record()


if __name__ == "__main__":
    main()
