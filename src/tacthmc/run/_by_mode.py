"""The draws of a run mode by mode: shares, means and evidence."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tacthmc._positions import flatten, leaf_names, scalar_dtype, unflatten
from tacthmc.diagnostics._bridge import LogMass, log_mass
from tacthmc.diagnostics._mixing import MIN_DRAWS, mean_ess
from tacthmc.diagnostics._modes import find_modes
from tacthmc.dynamics import Langevin, Modes
from tacthmc.potentials import Potential

if TYPE_CHECKING:
    from tacthmc.run._result import Run

MAX_EVIDENCE_DRAWS = 256
"""The largest number of draws of each kind from which the evidence of a mode is estimated."""
DRAW_WORTH = 0.5
"""The number of independent draws that one of up to 256 draws of a mode counts for."""
EVIDENCE_KEY = 2**31 + 3
"""The number that is folded into the key of the run for draws of Gaussians."""
MAX_FOLDED_DISTANCE = 1.0
"""The largest Mahalanobis distance between folded centers of one mode."""
MIN_FOLDED_SCALE = 1e-5
"""The smallest standard deviation of a folded mode relative to its largest one."""
MAX_FOUND_SCALARS = 4
"""The number of scalars in which modes are found if the sampler has no list of modes."""


class ModeSummary(NamedTuple):
    """One mode of a run."""

    share: float
    """The share of the draws."""
    error: float
    """The standard error of the share."""
    mean: Any
    """The mean of the draws in it, as a position; NaN without draws."""
    sd: Any
    """Their standard deviations."""
    entries: int
    """How often chains entered it between kept draws."""
    expected: float | None
    """The share that the warm-up estimated, if it had a list of modes."""
    log_evidence: LogMass | None
    """log ∫exp(−U) over the mode, if it was computed."""


class ByMode(NamedTuple):
    """All modes of a run, and the mode of each draw. ``str`` gives a table."""

    modes: list[ModeSummary]
    labels: Int[np.ndarray, "chains draws"]

    @property
    def log_evidence(self) -> LogMass | None:
        """log ∫exp(−U) over all modes of the list."""
        each = [mode.log_evidence for mode in self.modes]
        known = [one for one in each if one is not None]
        return _sum_of_masses(known) if known else None

    def __str__(self) -> str:
        lines = []
        for number, mode in enumerate(self.modes):
            text = f"mode {number}: share {mode.share:.4f} ± {mode.error:.4f}"
            if mode.expected is not None:
                text += f" ({mode.expected:.4f} by the warm-up)"
            text += f", entered {mode.entries:,} times"
            if mode.log_evidence is not None:
                text += (
                    f", log evidence {mode.log_evidence.value:.3f} ± {mode.log_evidence.error:.3f}"
                )
            shown = zip(
                leaf_names(mode.mean),
                jax.tree.leaves(mode.mean),
                jax.tree.leaves(mode.sd),
                strict=True,
            )
            for name, mean, sd in shown:
                text += f"\n  {name}: mean {_few(mean)}, sd {_few(sd)}"
            lines.append(text)
        return "\n".join(lines)


def _sum_of_masses(masses: list[LogMass]) -> LogMass:
    """The logarithm of the sum of independent masses; an unknown one makes the error infinite."""
    total = float(np.logaddexp.reduce([one.value for one in masses]))
    if not all(np.isfinite(one.error) for one in masses):
        return LogMass(total, np.inf)
    parts = [np.exp(one.value - total) * one.error for one in masses]
    return LogMass(total, float(np.sqrt(np.sum(np.square(parts)))))


def _few(values: Any) -> str:
    """The first few values of an array."""
    flat = np.ravel(values)
    return f"[{', '.join(f'{x:.4g}' for x in flat[:4])}{', …' if len(flat) > 4 else ''}]"


def known_modes(run: "Run") -> Modes | None:
    """The list of modes between which the run jumped, or that its warm-up found."""
    if not run.sampler_is_known:
        return None
    if not isinstance(run.sampler, Langevin) or run.sampler.jumps is None:
        return getattr(run.tuning, "modes", None)
    first = run.sampler.jumps
    # With a sampler for each chain, each may number its modes in its own way.
    others = (one.jumps for one in run.samplers if isinstance(one, Langevin))
    return first.modes if all(eqx.tree_equal(first, other) for other in others) else None


def expected_shares(run: "Run", modes: Modes) -> Float[np.ndarray, " k"]:
    """The shares that the warm-up estimated, or those of the given list.

    The weights with which a tuned sampler jumps are more even than these.
    """
    found = getattr(run.tuning, "modes", None)
    if found is None or not np.array_equal(found.centers, modes.centers):
        found = modes
    return np.exp(np.asarray(found.log_weights, float))


def mode_labels(run: "Run", modes: Modes) -> Int[np.ndarray, "chains draws"]:
    """The known mode of each draw at unit temperature in the rectangle ``run.draws``."""
    if "mode" in run.stats:
        return _cold(run, np.asarray(run.stats["mode"]).astype(int))
    vectors = _vectors(run)
    nearest = jax.jit(lambda x: jax.lax.map(modes.nearest, x, batch_size=256))
    return np.stack([np.asarray(nearest(jnp.asarray(chain))) for chain in vectors])


def by_mode(
    run: "Run",
    fold: Callable[[Any], Any] | None = None,
    *,
    evidence: bool = True,
    draws: int = MAX_EVIDENCE_DRAWS,
) -> ByMode:
    """See :meth:`tacthmc.Run.by_mode`; ``draws`` of each kind give the evidence of a mode."""
    vectors = _vectors(run) if run.num_draws else np.zeros((run.num_chains, 0, 0))
    if not vectors.shape[1]:
        raise ValueError("the run has no draws at unit temperature to sort by mode")
    like = run.one_draw(0, 0)
    modes = known_modes(run)
    if modes is None:
        labels, expected, masses = _labels_of_draws(vectors), None, None
    else:
        labels = mode_labels(run, modes)
        expected = expected_shares(run, modes)
        masses = None
        if evidence and run.facts.has_one_energy:
            masses = run.measured(
                f"evidence of modes by {draws} draws",
                lambda: _masses(run, modes, vectors, labels, draws),
            )
    if fold is not None:
        vectors = _folded(fold, vectors, like)
        if modes is not None and expected is not None:
            groups = _groups(fold, modes, like)
            labels, expected = groups[labels], np.bincount(groups, weights=expected)
            masses = _joined(masses, groups)
    count = int(labels.max()) + 1 if expected is None else len(expected)
    found = [
        _one(vectors, labels == k, like, _at(expected, k), _at(masses, k)) for k in range(count)
    ]
    order = sorted(range(count), key=lambda k: -found[k].share)
    rank = np.argsort(order)
    return ByMode([found[k] for k in order], rank[labels])


def _at(values: Any, k: int) -> Any:
    return None if values is None else values[k]


def _vectors(run: "Run") -> Float[np.ndarray, "chains draws d"]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(run.draws)]
    return _cold(run, np.concatenate([x.reshape(*x.shape[:2], -1) for x in leaves], axis=2))


def _cold(run: "Run", values: np.ndarray) -> np.ndarray:
    """The values of draws at unit temperature, as many of each chain."""
    if not run.keep.all_temperatures or "lambda" not in run.stats:
        return values
    cold = np.asarray(run.stats["lambda"]) == 1
    count = int(cold.sum(axis=1).min())
    return np.stack([chain[mine][:count] for chain, mine in zip(values, cold, strict=True)])


def _labels_of_draws(vectors: Float[np.ndarray, "chains draws d"]) -> np.ndarray:
    """Modes of the draws in their first scalars; all zero if they cannot be separated."""
    shape = vectors.shape[:2]
    flat = vectors.reshape(-1, vectors.shape[2])[:, :MAX_FOUND_SCALARS]
    found = find_modes(flat)
    return np.zeros(shape, int) if found is None else found.labels.reshape(shape)


def _one(
    vectors: np.ndarray, inside: np.ndarray, like: Any, expected: Any, mass: LogMass | None
) -> ModeSummary:
    share = float(inside.mean())
    mine = vectors[inside]
    nothing = np.full(vectors.shape[2], np.nan)
    mean, sd = (mine.mean(axis=0), mine.std(axis=0)) if len(mine) else (nothing, nothing)
    entries = int(np.sum(inside[:, 1:] & ~inside[:, :-1]))
    return ModeSummary(
        share,
        share_error(inside, expected),
        _as_position(mean, like),
        _as_position(sd, like),
        entries,
        None if expected is None else float(expected),
        mass,
    )


def _as_position(vector: np.ndarray, like: Any) -> Any:
    return jax.tree.map(np.asarray, unflatten(jnp.asarray(vector), like))


def share_error(inside: np.ndarray, expected: float | None = None) -> float:
    """The standard error of a share, from the autocorrelation and the differences of chains.

    Draws that are all in the mode, or none, say nothing about it. Then it is the difference to the
    share that the warm-up ``expected``.
    """
    share = float(inside.mean())
    if share in (0.0, 1.0):
        return 0.0 if expected is None else abs(share - float(expected))
    if inside.shape[1] >= MIN_DRAWS:
        effective = mean_ess(inside.astype(float))
    else:
        effective = float(len(inside))
    return float(np.sqrt(share * (1 - share) / max(effective, 1.0)))


def _masses(
    run: "Run", modes: Modes, vectors: np.ndarray, labels: np.ndarray, most: int
) -> list[LogMass]:
    """The evidence of each mode by bridge sampling, with draws of the run and of its Gaussian."""
    dtype = scalar_dtype(run.one_draw(0, 0))
    key = jax.random.fold_in(run.key, EVIDENCE_KEY)
    normal = jax.random.normal(key, (most, vectors.shape[2]), dtype)
    like, found = run.one_draw(0, 0), []
    flat, mine = vectors.reshape(-1, vectors.shape[2]), labels.ravel()
    for k in range(modes.count):
        draws = flat[mine == k]
        some = draws[np.linspace(0, len(draws) - 1, min(len(draws), most)).astype(int)]
        own = jnp.asarray(k)
        there = jax.vmap(lambda z, own=own: modes.mapped(z, own))(normal)
        of_q, nearest = _log_ratios(run.potential, modes, there, own, like)
        of_q = np.where(nearest == k, of_q, -np.inf)
        of_p = np.zeros(0)
        if len(some):
            # One shape for all modes, so that the program is compiled once.
            filled = np.resize(some, (most, some.shape[1]))
            filled = jnp.asarray(filled, dtype)
            of_p = _log_ratios(run.potential, modes, filled, own, like)[0][: len(some)]
        of_q = np.where(np.isnan(of_q), -np.inf, of_q)
        # Draws of a chain are correlated.
        finite = of_p[np.isfinite(of_p)]
        mass = log_mass(finite, of_q, DRAW_WORTH * len(finite))
        # A mode without draws, and without those of its own Gaussian, has no region.
        is_empty = not len(some) and not np.isfinite(mass.value)
        found.append(LogMass(-np.inf, 0.0) if is_empty else mass)
    return found


@eqx.filter_jit
def _values(
    potential: Potential, modes: Modes, vectors: Array, own: Array, like: Any
) -> tuple[Array, Array]:
    def one(vector: Array) -> tuple[Array, Array]:
        z = modes.standardized(vector)
        density = modes.log_parts(z)[own] - modes.log_weights[own].astype(vector.dtype)
        energy = potential.energy(unflatten(vector, like)).astype(vector.dtype)
        return -energy - density, jnp.argmax(modes.log_parts(z))

    return jax.lax.map(one, vectors)


def _log_ratios(
    potential: Potential, modes: Modes, vectors: Array, own: Array, like: Any
) -> tuple[np.ndarray, np.ndarray]:
    """log(exp(−U)/q_k) and the nearest mode, at a stack of vectors."""
    ratio, nearest = _values(potential, modes, vectors, own, like)
    return np.asarray(ratio, float), np.asarray(nearest)


def _folded(fold: Callable[[Any], Any], vectors: np.ndarray, like: Any) -> np.ndarray:
    dtype = scalar_dtype(like)
    one = jax.jit(jax.vmap(lambda v: flatten(fold(unflatten(v, like)), dtype)))
    return np.stack([np.asarray(one(jnp.asarray(chain, dtype))) for chain in vectors])


def _groups(fold: Callable[[Any], Any], modes: Modes, like: Any) -> np.ndarray:
    """The number of the folded mode of each mode."""
    dtype = modes.centers.dtype

    def folded(vector: Array) -> Array:
        return flatten(fold(unflatten(vector, like)), dtype)

    @jax.jit
    def gaussian(k: Array) -> tuple[Array, Array]:
        """The folded center, and the folded scale by the derivative of the fold."""
        zero = jnp.zeros(modes.centers.shape[1], dtype)
        place = folded(modes.mapped(zero, k))
        return place, jax.jacfwd(lambda z: folded(modes.mapped(z, k)))(zero)

    groups: list[int] = []
    firsts: list[tuple[np.ndarray, np.ndarray]] = []
    for k in range(modes.count):
        center, scale = (np.asarray(x, float) for x in gaussian(jnp.asarray(k)))
        same = [g for g, first in enumerate(firsts) if _is_near(center - first[0], first[1])]
        if not same:
            firsts.append((center, scale))
        groups.append(same[0] if same else len(firsts) - 1)
    return np.array(groups)


def _is_near(difference: np.ndarray, scale: np.ndarray) -> bool:
    """Whether a difference is a small number of standard deviations, by a scale of any rank."""
    z = np.linalg.lstsq(scale, difference, rcond=MIN_FOLDED_SCALE)[0]
    left = np.linalg.norm(difference - scale @ z)
    limit = MAX_FOLDED_DISTANCE * MIN_FOLDED_SCALE * np.linalg.norm(scale)
    return bool(np.linalg.norm(z) < MAX_FOLDED_DISTANCE and left <= limit)


def _joined(masses: list[LogMass] | None, groups: np.ndarray) -> list[LogMass] | None:
    if masses is None:
        return None
    return [
        _sum_of_masses([masses[k] for k in np.flatnonzero(groups == group)])
        for group in range(groups.max() + 1)
    ]
