"""What a process of ``python -m tests.calibration`` does. JAX is imported after its settings."""

import os


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
