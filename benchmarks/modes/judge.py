"""What a sampler returned, and what is said of it: estimates, stated errors, modes, temperature."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.modes.targets import Target, Truth
from tacthmc.diagnostics import autocorrelation
from tacthmc.potentials import Potential

MANY_CHAINS = 32
"""The number of chains from which their spread gives the standard error."""
MAX_STATED_DRAWS = 20_000
"""The largest number of draws of a chain from which its autocorrelation is computed."""
MIN_PROBES, MAX_PROBES, MAX_EXAMPLES = 32, 1_024, 20_000_000
"""The number of draws whose exact derivatives give the temperature, and of examples for all."""
MAX_EXACT_DIMENSION = 64
"""The largest dimension in which ΔU is the sum of all second derivatives."""


class Sample(NamedTuple):
    """The draws of one repeat, and what they cost."""

    chains: list[np.ndarray]
    """The draws of each chain, (draw, coordinate). A restart begins another chain."""
    gradients: float
    """Everything that was spent, in gradients of the target."""
    weights: np.ndarray | None = None
    """Weights of the draws of one population."""
    is_population: bool = False
    """Whether draws are particles, which do not have to cross."""
    warned: bool | None = None
    """Whether the sampler itself said that something was wrong; None if it cannot."""
    note: str = ""
    """What it said, or why it failed."""
    log_z: float | None = None


def judged(target: Target, sample: Sample) -> dict[str, Any]:
    """One repeat as a record has it."""
    truth = target.truth
    chains = [chain for chain in sample.chains if len(chain)]
    if not chains or not all(np.isfinite(chain).all() for chain in chains):
        # It counts as if the whole run had stayed at its start.
        stayed = truth.features(np.asarray(target.start)[None, :])
        return _row(sample, stayed.mean(axis=0)) | {"failed": True}
    features = [truth.features(chain).astype(float) for chain in chains]
    if sample.weights is not None:
        estimate = sample.weights @ np.concatenate(features) / sample.weights.sum()
    else:
        estimate = np.concatenate(features).mean(axis=0)
    row = _row(sample, estimate)
    row["temperature"] = temperature(target, np.concatenate(chains), sample.weights)
    if not sample.is_population:
        row["stated"] = standard_errors(features).tolist()
        row["coverage"] = coverage(truth, features) if truth.has_modes else None
    return row


def _row(sample: Sample, estimate: np.ndarray) -> dict[str, Any]:
    return {
        "estimate": estimate.tolist(),
        "gradients": float(sample.gradients),
        "warned": sample.warned,
        "note": sample.note,
        "log_z": sample.log_z,
    }


def standard_errors(features: list[np.ndarray]) -> np.ndarray:
    """The standard error of the mean over all draws, as the chains themselves give it.

    With few chains it comes from the autocorrelation about the mean of all chains, by Geyer's
    initial sequence; with many chains, from their spread.

    >>> rng = np.random.default_rng(0)
    >>> chains = [rng.normal(size=(2_500, 1)) for _ in range(4)]
    >>> bool(abs(standard_errors(chains)[0] - 0.01) < 0.001)
    True
    """
    if len(features) >= MANY_CHAINS:
        each = np.array([chain.mean(axis=0) for chain in features])
        share = np.array([len(chain) for chain in features], float)
        share /= share.sum()
        away = (each - share @ each) ** 2
        return np.sqrt((share**2) @ away * len(each) / (len(each) - 1))
    count = min(len(chain) for chain in features)
    every = max(1, count // MAX_STATED_DRAWS)
    values = np.stack([chain[:count:every] for chain in features])
    total = sum(len(chain) for chain in features) / (len(features) * count)
    columns = range(values.shape[2])
    return np.array([_error_of_mean(values[:, :, j]) / np.sqrt(total) for j in columns])


def _error_of_mean(values: np.ndarray) -> float:
    """The standard error of the mean of a (chain, draw) array; zero if all values are equal."""
    chains, count = values.shape
    if values.min() == values.max() or count < 4:
        return float(values.std())
    rho = autocorrelation(values, count - 1)
    pairs = rho[: 2 * (count // 2)].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: ends[0]] if len(ends) else pairs)
    # Pairs begin with ρ(0) = 1, so 2·Σ − 1 is the autocorrelation time.
    time = max(2 * pairs.sum() - 1, 1.0)
    effective = max(chains * count / time, 1.0)
    return float(values.std() / np.sqrt(effective))


def coverage(truth: Truth, features: list[np.ndarray]) -> float:
    """How many modes one chain visits: 0 for one mode, 1 for all modes in their shares.

    It is (m − 1)/(M − 1) with m = 1/Σp̂² of a chain's shares and M that of the true shares, as a
    mean over chains.

    >>> from benchmarks.modes.targets.definition import modes
    >>> truth = modes(lambda x: (x[:, 0] > 0).astype(int), [0.5, 0.5])
    >>> stuck, moving = np.ones((10, 1)), np.tile([[1.0], [-1.0]], (5, 1))
    >>> coverage(truth, [truth.features(stuck), truth.features(moving)])
    0.5
    """
    shares = np.array([chain.mean(axis=0) for chain in features])

    def effective(p: np.ndarray) -> np.ndarray:
        if truth.kind == "modes":
            return 1 / np.sum(p**2, axis=-1) - 1
        return np.mean(1 / (p**2 + (1 - p) ** 2) - 1, axis=-1)

    lengths = [len(chain) for chain in features]
    seen = np.minimum(effective(shares) / effective(truth.mean), 1.0)
    return float(np.average(seen, weights=lengths))


@eqx.filter_jit
def _squares_and_curvatures(potential: Potential, draws: Any) -> Any:
    """|∇U|² and ΔU at each draw; the latter by one random direction in high dimension."""
    dimension = draws.shape[1]
    slope = jax.grad(potential.energy)
    few = dimension <= MAX_EXACT_DIMENSION
    signs = jnp.sign(jax.random.normal(jax.random.key(0), draws.shape, draws.dtype))

    def along(x: Any, direction: Any) -> Any:
        return jnp.vdot(direction, jax.jvp(slope, (x,), (direction,))[1])

    def one(pair: Any) -> Any:
        x, direction = pair
        if few:
            each = jax.vmap(along, (None, 0))(x, jnp.eye(dimension, dtype=x.dtype))
            return jnp.sum(slope(x) ** 2), jnp.sum(each)
        return jnp.sum(slope(x) ** 2), along(x, direction)

    return jax.lax.map(one, (draws, signs), batch_size=32)


def temperature(target: Target, draws: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The configurational temperature ⟨|∇U|²⟩/⟨ΔU⟩ with exact derivatives; 1 is right.

    It says whether draws are hotter than the target inside of modes, which weights of modes alone
    do not show. By parts, ∫|∇U|²·exp(−U) = ∫ΔU·exp(−U) for any U.
    """
    weights = np.full(len(draws), 1 / len(draws)) if weights is None else weights / weights.sum()
    count = int(np.clip(MAX_EXAMPLES / target.num_data, MIN_PROBES, MAX_PROBES))
    levels = (np.arange(count) + 0.5) / count
    where = np.minimum(np.searchsorted(np.cumsum(weights), levels), len(draws) - 1)
    # Noise that was added has no part in it: the energy is that of all data, without noise.
    potential = target.potential if target.exact is None else target.exact
    probes = jnp.asarray(draws[where], target.start.dtype)
    squares, curvatures = _squares_and_curvatures(potential, probes)
    return float(np.mean(np.asarray(squares, float)) / np.mean(np.asarray(curvatures, float)))
