"""The tables of ``research/speed.md``, from the records of speed, GPU and equivalence."""

from collections.abc import Callable

from benchmarks.record import read
from benchmarks.speed.overhead import STEPS
from tacthmc.report import Table

NETWORKS = ("mlp", "cnn", "lstm")
COUNTS = (1, 8, 32, 128)
PRECISION = {"mlp": "tf32", "cnn": "tf32", "lstm": "bfloat16"}
EPOCH_STEPS = {"mlp": 112_800 / 128, "cnn": 50_000 / 64, "lstm": 60_000 / 64}
PARAMETERS = {"mlp": 83_247, "cnn": 106_278, "lstm": 89_290}
MOVED = 24
"""Bytes that a step has to move for each parameter: parameter, momentum and gradient, once in and
once out."""
# Multiplications and additions of a chain-step: three products forward and backward, less the
# first layer's gradient of the images.
GFLOP = {"mlp": 0.044, "cnn": 0.38, "lstm": 0.81}


def mixture() -> Table:
    """Rates and ratios in one dimension, with and without ``tacthmc.configure_cpu``."""
    case = read("bench.json")["cases"]["mixture"]
    rates = {k: v["rate"]["median"] / 1e6 for k, v in case["results"].items() if "rate" in v}
    alone = {(r["ours"], r["peer"]): r for r in case["alone"]["ratios"]}
    rows = []
    for pair in case["ratios"]:
        if "ratio" not in pair:
            continue
        own = alone.get((pair["ours"], pair["peer"]), {})
        apart = (own.get(k) for k in ("ratio", "ratio_without"))
        rows.append(
            (
                f"`{pair['ours']}`",
                f"{rates[pair['ours']]:.1f}",
                pair["peer"],
                *("–" if found is None else f"{found:.2f}" for found in apart),
                f"{pair['ratio']:.2f}",
            )
        )
    heads = (
        "",
        "M chain-steps/s",
        "against",
        "times as fast: `configure_cpu` for ours alone",
        "for neither",
        "for both",
    )
    return Table(heads, tuple(rows))


def networks() -> Table:
    """Milliseconds per chain-step on the CPU."""
    case = read("bench.json")["cases"]["networks"]
    rows = []
    for pair in case["ratios"]:
        ours, peer = (case["results"][pair[k]]["milliseconds"]["median"] for k in ("ours", "peer"))
        low, high = pair["by_round"]["min"], pair["by_round"]["max"]
        rows.append(
            (
                pair["ours"].removeprefix("tact "),
                f"{ours:.2f}",
                f"{peer:.2f}",
                f"{pair['ratio']:.2f}",
                f"{low:.2f} – {high:.2f}",
            )
        )
    heads = ("network × chains", "`tact`, ms", "PyTorch, ms", "times as fast", "by round")
    return Table(heads, tuple(rows))


def overhead() -> Table:
    """A step over its bare necessities."""
    case = read("bench.json")["cases"]["overhead"]
    rows = []
    for found in case["overheads"]:
        name = f"{found['network']} × {found['chains']}"
        parts = [
            case["results"][f"{part}, {name}"]["milliseconds"]["median"]
            for part in (STEPS, "bare loop", "gradient alone", "normals alone")
        ]
        ratios = [found[kind]["ratio"] for kind in ("steps", "run")]
        rows.append((name, *(f"{p:.2f}" for p in parts), *(f"{r:.2f}" for r in ratios)))
    heads = (
        "network × chains",
        "a step of `tact`, ms",
        "bare loop",
        "gradient",
        "normals",
        "step/bare",
        "run/bare",
    )
    return Table(heads, tuple(rows))


def gpu() -> Table:
    """Microseconds per chain-step on the GPU."""
    found = read("gpu.json")
    rows = []
    for name in NETWORKS:
        kind = PRECISION[name]
        times = [found["steps"][f"{name} {kind} {c}"]["chain_step"] for c in COUNTS]
        full = found["steps"][f"{name} float32 128"]["chain_step"]
        share = GFLOP[name] / times[-1] * 1e3 / found["chip"][f"{kind} TFLOP/s"]
        moved = MOVED * PARAMETERS[name] / times[-1] / 1e6 / found["chip"]["bandwidth TB/s"]
        torch = [found["torch"][f"{name} {way}"]["step"] for way in ("eager", "compiled")]
        rows.append(
            (
                name,
                kind,
                *(f"{t:.1f}" for t in times),
                f"{full:.1f}",
                f"{100 * share:.0f}%",
                f"{100 * moved:.0f}%",
                *(f"{t:,.0f}" for t in torch),
            )
        )
    heads = (
        "",
        "products",
        "1 chain",
        "8",
        "32",
        "128",
        "128, float32",
        "of the matrix rate",
        "of the bandwidth",
        "PyTorch eager, 1 chain",
        "compiled",
    )
    return Table(heads, tuple(rows))


def evaluation() -> Table:
    """The test set's share of a run."""
    found, most = read("gpu.json")["evaluation"], COUNTS[-1]
    rows = [
        (
            name,
            f"{1e3 * found[f'{name} {most}']['seconds']:.0f}",
            f"{found[f'{name} {most}']['epoch_seconds']:.2f}",
            *(f"{100 * found[f'{name} {count}']['share']:.1f}%" for count in COUNTS),
        )
        for name in NETWORKS
    ]
    shares = (f"share, {count} chain{'s' if count > 1 else ''}" for count in COUNTS)
    return Table(("", f"test set, ms, {most} chains", "an epoch's steps, s", *shares), tuple(rows))


def estimate() -> Table:
    """Fifteen runs of 1,000 epochs for each task."""
    steps = read("gpu.json")["steps"]
    minutes = {
        name: [
            15
            * 1000
            * EPOCH_STEPS[name]
            * steps[f"{name} {PRECISION[name]} {c}"]["chain_step"]
            / 6e7
            for c in COUNTS
        ]
        for name in NETWORKS
    }
    minutes["all 45 runs"] = [sum(m[i] for m in minutes.values()) for i in range(len(COUNTS))]
    rows = tuple((name, *(f"{m:.1f}" for m in found)) for name, found in minutes.items())
    return Table(
        ("minutes for 15 runs", *(f"{c} chain{'s' if c > 1 else ''} a program" for c in COUNTS)),
        rows,
    )


def equivalence() -> Table:
    """Lower precision against float32."""
    found = read("equivalence.json")
    rows = []
    for name in NETWORKS:
        r = found[name]
        low, high = r["sd_ratios"]
        rows.append(
            (
                name,
                r["compute"],
                f"{r['least_ess']:,.0f}",
                f"{r['largest_shift']:.3f} ± {r['shift_error']:.3f}",
                f"{low:.3f} – {high:.3f}",
                "yes" if r["equivalent"] else "no",
            )
        )
    heads = ("", "products", "least ESS", "largest shift, sd", "sd ratios", "equivalent")
    return Table(heads, tuple(rows))


def growth() -> Table:
    """How the time of a step grows, from the first size to the last."""
    case = read("bench.json")["cases"]["growth"]
    rows = []
    for name in ("dimension", "chains", "kept"):
        known = [p for p in case[name]["points"] if "step_seconds" in p]
        first, last = known[0], known[-1]
        rows.append(
            (
                name,
                f"{first['size']:,.10g} to {last['size']:,.10g}",
                f"{1e6 * first['step_seconds']:.3g} to {1e6 * last['step_seconds']:.3g}",
                f"{case[name]['slope']:.2f}",
            )
        )
    return Table(("against", "from, to", "µs a step, all chains", "slope"), tuple(rows))


TABLES: dict[str, Callable[[], Table]] = {
    "speed-mixture": mixture,
    "speed-networks": networks,
    "speed-overhead": overhead,
    "speed-gpu": gpu,
    "speed-evaluation": evaluation,
    "speed-estimate": estimate,
    "speed-equivalence": equivalence,
    "speed-growth": growth,
}
