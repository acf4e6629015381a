"""Chain-steps a second on the 1-D mixture, where all that is not the gradient is felt most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax.numpy as jnp

import tacthmc
from benchmarks.speed import blackjax_loops, plain, posteriors_loops
from benchmarks.speed.case import Case, shown
from benchmarks.speed.clock import Contestant, Completion, by_turns, made_ready, ratio
from benchmarks.speed.ours import Driven
from tacthmc.compiler._cpu_flags import DEFAULT, OPTION, small_loop_bytes
from tacthmc.dynamics._sampler import Sampler
from tacthmc.paper.figures.study import Numbers, Say
from tacthmc.potentials._base import Potential
from tacthmc.report import Table

STEP_SIZE, FORCE_NOISE, ENERGY_NOISE = 1e-2, 3.0, 1.0
OURS: dict[str, Callable[..., Sampler]] = {
    "tact": tacthmc.tact,
    "sgnht": tacthmc.sgnht,
    "sghmc": tacthmc.sghmc,
    "sgld": tacthmc.sgld,
}
PAIRS = (
    ("tact", "BlackJAX sgnht"),
    ("sgnht", "BlackJAX sgnht"),
    ("sghmc", "BlackJAX sghmc"),
    ("sgld", "BlackJAX sgld"),
    ("tact", "posteriors sgnht"),
    ("sgnht", "posteriors sgnht"),
)


@dataclass(frozen=True)
class Config:
    """Sizes; a lap of ours and of PyTorch takes about ``seconds``, one of BlackJAX ``steps``."""

    chains: int = 8
    seconds: float = 2.0
    blackjax_steps: int = 400_000
    keep_every: int = 50
    heats: int = 3
    """Rounds between the ways to write a peer's loop, before the fastest meets ours."""
    repeats: int = 5
    seed: int = 0


QUICK = Config(seconds=0.5, blackjax_steps=50_000, heats=2, repeats=3)


def measure(config: Config, say: Say) -> Numbers:
    """Heats among the ways of each peer, then the fastest of each against ours by turns."""
    target = tacthmc.targets.three_gaussians()
    start = jnp.array([-4.0])
    noisy = tacthmc.noisy(tacthmc.potential(target), force=FORCE_NOISE, energy=ENERGY_NOISE)
    heats: dict[str, Numbers] = {}
    fastest: dict[str, Completion] = {}
    results: dict[str, Numbers] = {}
    for peer, ways in _peers(config, target, start).items():
        say(f"{peer}: {len(ways)} ways to write the loop")
        ready, absent = made_ready(ways, say)
        heats[peer] = {**by_turns(ready, config.heats, say), **absent}
        raced = {
            name: heat["rate"]["median"] for name, heat in heats[peer].items() if "rate" in heat
        }
        if raced:
            fastest[peer] = ready[max(raced, key=lambda name: raced[name])]
        else:
            # All for the same reason: one is enough.
            results[peer] = next(iter(heats[peer].values()))
    ours, absent = made_ready(_ours(config, noisy, start), say)
    results |= absent
    say(f"ours and the fastest of each peer, {config.repeats} rounds by turns")
    results |= by_turns(_alternating(ours, fastest), config.repeats, say)
    pairs = [ratio(results, *pair) for pair in PAIRS]
    sizes = plain.Sizes(
        config.chains,
        config.blackjax_steps,
        config.keep_every,
        config.heats,
        config.seed,
        FORCE_NOISE,
    )
    alone = plain.in_a_child(sizes, say)
    return {
        "alone": {"heats": alone, "ratios": _ratios_alone(results, alone)},
        "unit": "chain-steps per second",
        "xla": {OPTION: small_loop_bytes(), "default": DEFAULT},
        "results": results,
        "ratios": pairs,
        "heats": heats,
    }


def _ratios_alone(results: Numbers, alone: Numbers) -> list[Numbers]:
    """Ours over the fastest loop of a peer in a process of its own."""
    peers = plain.fastest(alone)
    return [
        {"ours": ours, "peer": peer, "ratio": results[ours]["rate"]["median"] / peers[peer]}
        for ours, peer in PAIRS
        if peer in peers and "rate" in results[ours]
    ]


def _ours(config: Config, noisy: Potential, start: jnp.ndarray) -> list[Contestant]:
    def contestant(name: str, make: Callable[..., Sampler]) -> Contestant:
        sampler = make(STEP_SIZE, keep_every=config.keep_every)
        driven = Driven(sampler, noisy, start, config.chains, config.seed)
        return Contestant(name, lambda: driven.ready(config.seconds))

    return [contestant(name, make) for name, make in OURS.items()]


def _peers(
    config: Config, target: tacthmc.targets.GaussianMixture, start: jnp.ndarray
) -> dict[str, list[Contestant]]:
    peers = {
        f"BlackJAX {name}": blackjax_loops.contestants(
            name,
            target,
            start,
            force_noise=FORCE_NOISE,
            chains=config.chains,
            steps=config.blackjax_steps,
            keep_every=config.keep_every,
            seed=config.seed,
        )
        for name in ("sgnht", "sghmc", "sgld")
    }
    peers["posteriors sgnht"] = posteriors_loops.contestants(
        target,
        force_noise=FORCE_NOISE,
        chains=config.chains,
        seconds=config.seconds / 2,
        keep_every=config.keep_every,
        seed=config.seed,
    )
    return peers


def _alternating(
    ours: dict[str, Completion], peers: dict[str, Completion]
) -> dict[str, Completion]:
    """Ours and theirs by turns, so that neither has the machine's better half of a round."""
    both: dict[str, Completion] = {}
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
    changed = numbers["xla"][OPTION] != numbers["xla"]["default"]
    told = "; BlackJAX with our setting of XLA, without which it is slower" if changed else ""
    rates = Table(("", "chain-steps/s", "range", "compiled in s"), tuple(rows))
    heats = [
        (f"{peer}: {name}", *shown(result))
        for peer, heat in numbers["heats"].items()
        for name, result in heat.items()
    ]
    return [
        ("mixture: 1-D, noisy gradients", rates),
        (f"mixture: ours over theirs{told}", ratio_table(numbers["ratios"])),
        (
            "mixture: ours over BlackJAX in a process of its own, as its users have it",
            Table(
                ("ours", "theirs", "times as fast"),
                tuple(
                    (pair["ours"], pair["peer"], f"{pair['ratio']:.2f}")
                    for pair in numbers["alone"]["ratios"]
                ),
            ),
        ),
        (
            "mixture: the ways to write a peer's loop",
            Table(("", "chain-steps/s", "range"), tuple(heats)),
        ),
    ]


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
