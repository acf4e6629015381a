"""Chain-steps per second on the 1-D mixture, where everything but the gradient counts most."""

from collections.abc import Sequence

from benchmarks.speed import plain
from benchmarks.speed.case import Case, shown
from benchmarks.speed.clock import Ready, by_turns, made_ready, ratio
from benchmarks.speed.contestants import Config, blackjax, ours, posteriors
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.report import Table

PAIRS = (
    ("tact", "BlackJAX sgnht"),
    ("sgnht", "BlackJAX sgnht"),
    ("sghmc", "BlackJAX sghmc"),
    ("sgld", "BlackJAX sgld"),
    ("tact", "posteriors sgnht"),
    ("sgnht", "posteriors sgnht"),
)
QUICK = Config(seconds=0.5, blackjax_steps=50_000, heats=2, repeats=3)


def measure(config: Config, say: Say) -> Numbers:
    """Heats among the ways of each peer, then the fastest of each against ours by turns."""
    heats: dict[str, Numbers] = {}
    fastest: dict[str, Ready] = {}
    results: dict[str, Numbers] = {}
    for peer, ways in (blackjax(config) | posteriors(config)).items():
        say(f"{peer}: {len(ways)} ways to write the loop")
        ready, absent = made_ready(ways, say)
        heats[peer] = {**by_turns(ready, config.heats, say), **absent}
        raced = {
            name: heat["rate"]["median"] for name, heat in heats[peer].items() if "rate" in heat
        }
        if raced:
            fastest[peer] = ready[max(raced, key=lambda name: raced[name])]
        else:
            # All are absent for the same reason.
            results[peer] = next(iter(heats[peer].values()))
    mine, absent = made_ready(ours(config), say)
    results |= absent
    say(f"ours and the fastest of each peer, {config.repeats} rounds by turns")
    results |= by_turns(_alternating(mine, fastest), config.repeats, say)
    return {
        "unit": "chain-steps per second",
        "configure_cpu": plain.configured(),
        "results": results,
        "ratios": [ratio(results, *pair) for pair in PAIRS],
        "heats": heats,
        "alone": without_configure_cpu(results, plain.in_a_child(config, say)),
    }


def without_configure_cpu(results: Numbers, alone: Numbers) -> Numbers:
    """What the other process measured, with ratios of ours to its fastest loops of BlackJAX."""
    if "failed" in alone:
        return {**alone, "ratios": []}
    peers = plain.fastest(alone["heats"])
    rows = []
    for mine, peer in PAIRS:
        both = results[mine], alone["ours"][mine]
        if peer in peers and all("rate" in one for one in both):
            here, there = (one["rate"]["median"] / peers[peer] for one in both)
            rows.append({"ours": mine, "peer": peer, "ratio": here, "ratio_without": there})
    return {**alone, "ratios": rows}


def _alternating(ours: dict[str, Ready], peers: dict[str, Ready]) -> dict[str, Ready]:
    """Ours and theirs alternately, so that both are spread over a whole round."""
    both: dict[str, Ready] = {}
    for number in range(max(len(ours), len(peers))):
        for side in (ours, peers):
            both |= dict(list(side.items())[number : number + 1])
    return both


def tables(numbers: Numbers) -> Sequence[tuple[str, Table]]:
    """Rates, ratios, and the heats."""
    rows = []
    for name, result in numbers["results"].items():
        compiled = result.get("compile_seconds")
        rows.append((name, *shown(result), "" if compiled is None else f"{compiled:.1f}"))
    both = ", both with tacthmc.configure_cpu" if numbers["configure_cpu"] else ""
    rates = Table(("", "chain-steps/s", "range", "compiled in s"), tuple(rows))
    heats = [
        (f"{peer}: {name}", *shown(result))
        for peer, heat in numbers["heats"].items()
        for name, result in heat.items()
    ]
    return [
        ("mixture: 1-D, noisy gradients", rates),
        (f"mixture: ours over theirs{both}", ratio_table(numbers["ratios"])),
        (
            "mixture: ours over BlackJAX in a process of its own, without tacthmc.configure_cpu",
            _alone_table(numbers["alone"]["ratios"]),
        ),
        (
            "mixture: the ways to write a peer's loop",
            Table(("", "chain-steps/s", "range"), tuple(heats)),
        ),
    ]


def _alone_table(pairs: Sequence[Numbers]) -> Table:
    rows = [
        (pair["ours"], pair["peer"], f"{pair['ratio']:.2f}", f"{pair['ratio_without']:.2f}")
        for pair in pairs
    ]
    return Table(("ours", "theirs", "times as fast: ours with it", "ours without it"), tuple(rows))


def ratio_table(pairs: Sequence[Numbers]) -> Table:
    """Ratios of rates, with their range over the rounds."""
    rows = []
    for pair in pairs:
        cells = ("–", pair.get("skipped", ""))
        if "ratio" in pair:
            rounds = pair["by_round"]
            cells = (f"{pair['ratio']:.2f}", f"{rounds['min']:.2f} – {rounds['max']:.2f}")
        rows.append((pair["ours"], pair["peer"], *cells))
    return Table(("ours", "theirs", "times as fast", "by round"), tuple(rows))


CASE = Case(
    name="mixture",
    about="Chain-steps per second on three Gaussians in one dimension with noisy gradients",
    quick=QUICK,
    full=Config(),
    measure=measure,
    tables=tables,
)
