"""Measure what is missing and write the record: ``python -m tests.calibration``.

``make test-slow`` measures the same rows, as tests. This uses as many processes as it is told.
"""

import argparse
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed


def work(name: str, simulations: int | None) -> str:
    """Measure one case; returns what there is to say."""
    from tests.calibration.cases import CASES, measured
    from tests.calibration.rows import row_of

    case = next(case for case in CASES if case.name == name)
    try:
        row = row_of(case) if simulations is None else measured(case, simulations)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    widths = " ".join(f"{check['width'][0]:.3f}" for check in row["checks"])
    said = "; ".join(row["faults"]) or "as expected"
    return f"{row['draws']} draws, widths {widths}, {row['cpu_seconds']:.0f} s: {said}"


def alone() -> None:
    """Leave the other cores to the other processes."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import tacthmc

    tacthmc.configure_cpu()


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
    if not args.only and args.simulations is None:
        write_record()


if __name__ == "__main__":
    main()
