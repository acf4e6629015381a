r"""A test on the energy: nothing is kept after a return to the plateau until θ has cooled.

Where ξ enters the plateau faster than θ cools, θ is hotter than the posterior for a while: its
energy is too high, and falls. Each visit to the plateau is divided into windows of a given number
of steps. A window has the mean Ū of its energies. The means of its eight blocks give an error s
that allows for autocorrelation shorter than a block. From the second window on, the visit counts as
relaxed once

.. math:: \bar U_n \ge \bar U_{n-1} - 2\sqrt{s_n^2 + s_{n-1}^2},

so that the energy no longer falls by more than chance explains. From then on every due draw is
kept, until ξ leaves the plateau. The next visit is tested again. Nothing from the first two windows
is ever kept.

**The effect of the test on the law of draws.** The test compares two means once per window, and
never uses a draw: kept draws come after the windows of the test, whose steps are not kept. In
equilibrium a test passes with probability 0.97 (a t law with about 14 degrees of freedom), and
passing raises the mean of the last window by 0.05 of its error. This affects draws for about one
autocorrelation time after the window, and is negligible over a visit of many.

**The power of the test.** An excess e of the mean energy that decays over τ steps falls by about
e·(1 − exp(−w/τ))²·τ/w from the first window of w steps to the second. The test detects it if that
is more than two errors, 2σ√(2t/w). Here σ is the standard deviation of the energy and t its
integrated autocorrelation time, both with mini-batch noise. For w ≈ τ this is an excess of
e ≈ 7σ√(t/w). In D dimensions the fluctuations of θ give σ ≈ √(D/2), and a temperature too high by a
relative ε gives e ≈ εD/2. The power therefore grows as √D, until mini-batch noise limits it. A
window much shorter than τ detects little of a slow fall. Choose a window of a few relaxation times,
if the visits are long enough for two.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Int

from tacthmc._typing import Scalar

WINDOW_BLOCKS = 8
"""The number of blocks in a window."""
MAX_FALL_ERRORS = 2.0
"""The largest apparent fall of the energy, in standard errors."""


class Window(NamedTuple):
    """The current window of a visit to the plateau, and the result of the previous one."""

    steps: Int[Array, ""]
    """The number of steps so far."""
    inside: Int[Array, ""]
    """The number of steps in the current block."""
    block: Scalar
    """The mean energy of the current block."""
    blocks: Scalar
    """The number of finished blocks."""
    mean: Scalar
    """The mean of the finished blocks."""
    squares: Scalar
    """The sum of their squared differences from the mean."""
    before: Scalar
    """The mean of the previous window, or infinity."""
    before_error: Scalar
    """The squared error of that mean."""
    relaxed: Bool[Array, ""]
    """Whether the visit has relaxed."""


def new_visit(dtype: DTypeLike) -> Window:
    """The window at the beginning of a visit."""
    zero, whole = jnp.zeros((), dtype), jnp.zeros((), int)
    none = jnp.full((), jnp.inf, dtype)
    return Window(whole, whole, zero, zero, zero, zero, none, zero, jnp.zeros((), bool))


def after_step(window: Window, energy: Scalar, here: Bool[Array, ""], length: int) -> Window:
    """The window after one more step with this energy; ``here`` says if it is on the plateau.

    >>> import jax.numpy as jnp
    >>> window, here = new_visit(jnp.float32), jnp.array(True)
    >>> for _ in range(32):
    ...     window = after_step(window, jnp.array(1.0), here, length=16)
    >>> bool(window.relaxed)                     # the energy of the second window is not lower
    True
    """
    old = window
    steps, inside = old.steps + 1, old.inside + 1
    # Running means instead of sums of squares, because energies are large and differ by little.
    block = old.block + (energy - old.block) / inside.astype(energy.dtype)
    ends = (WINDOW_BLOCKS * steps) // length > (WINDOW_BLOCKS * old.steps) // length
    away = block - old.mean
    blocks = old.blocks + ends.astype(energy.dtype)
    mean = jnp.where(ends, old.mean + away / jnp.maximum(blocks, 1), old.mean)
    squares = jnp.where(ends, old.squares + away * (block - mean), old.squares)
    error = squares / (WINDOW_BLOCKS * (WINDOW_BLOCKS - 1))
    full = steps >= length
    holds = mean >= old.before - MAX_FALL_ERRORS * jnp.sqrt(error + old.before_error)
    fresh = new_visit(energy.dtype)

    def begun(new: Array, start: Array) -> Array:
        return jnp.where(full, start, new)

    after = Window(
        steps=begun(steps, fresh.steps),
        inside=jnp.where(ends, 0, inside),
        block=jnp.where(ends, 0, block),
        blocks=begun(blocks, fresh.blocks),
        mean=begun(mean, fresh.mean),
        squares=begun(squares, fresh.squares),
        before=jnp.where(full, mean, old.before),
        before_error=jnp.where(full, error, old.before_error),
        relaxed=old.relaxed | (full & holds),
    )
    return Window(*(jnp.where(here, a, f) for a, f in zip(after, fresh, strict=True)))
