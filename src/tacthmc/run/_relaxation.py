r"""Keep nothing after a return to the plateau until θ has cooled, by a test on the energy.

Where ξ enters the plateau faster than θ cools, θ is hotter than the posterior for a while, and
its energy is higher and falls. Each visit to the plateau is cut into windows of so many steps. A
window has the mean Ū of its energies and, from the means of its eight blocks, an error s that
allows for autocorrelation shorter than a block. From the second window on, the visit has relaxed
once

.. math:: \bar U_n \ge \bar U_{n-1} - 2\sqrt{s_n^2 + s_{n-1}^2},

the energy no longer falls by more than chance explains. From there on all that is due is kept,
until ξ leaves the plateau; the next visit is tested anew. Nothing is kept of the first two
windows in any case.

**What the test itself does to the law of draws.** It looks at two means once a window and never
at a draw: what is kept comes after the windows that decided, whose steps are not kept. In
equilibrium a test passes with probability 0.97 (a t law of about 14 degrees of freedom), and
passing raises the last window's mean by 0.05 of its error. Of that, draws
remember no more than energies do, for an autocorrelation time after the window's end; over a
visit of many next to nothing is left of it.

**What it sees.** An excess e of the mean energy that decays over τ steps falls by about
e·(1 − exp(−w/τ))²·τ/w from the first window of w steps to the second. It is seen if that is more
than two errors, 2σ√(2t/w), with σ the energy's standard deviation and t its integrated
autocorrelation time, mini-batches' noise included: for w ≈ τ an excess of e ≈ 7σ√(t/w). In D
dimensions θ's own fluctuations are σ ≈ √(D/2), and a temperature too high by a relative ε has
e ≈ εD/2: the test is sharper in proportion to √D, until mini-batches' noise makes it blunter. A
window much shorter than τ sees little of a fall that goes on over many: take one of a few
relaxation times, if the visits are long enough for two.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, DTypeLike, Int

from tacthmc._typing import Scalar

BLOCKS = 8
"""Blocks of a window."""
ERRORS = 2.0
"""Standard errors by which the energy may seem to fall."""


class Window(NamedTuple):
    """The window under way of a visit to the plateau, and what is known of the one before."""

    steps: Int[Array, ""]
    """Steps of it so far."""
    inside: Int[Array, ""]
    """Steps of its present block, and their mean energy."""
    block: Scalar
    blocks: Scalar
    """Blocks completed, their mean, and the sum of their squared distances from it."""
    mean: Scalar
    squares: Scalar
    before: Scalar
    """The mean of the window before (infinite where there is none), and its squared error."""
    before_error: Scalar
    relaxed: Bool[Array, ""]


def new_visit(dtype: DTypeLike) -> Window:
    """A visit to the plateau that has just begun."""
    zero, whole = jnp.zeros((), dtype), jnp.zeros((), int)
    none = jnp.full((), jnp.inf, dtype)
    return Window(whole, whole, zero, zero, zero, zero, none, zero, jnp.zeros((), bool))


def after_step(window: Window, energy: Scalar, here: Bool[Array, ""], length: int) -> Window:
    """The window after one more step, whose energy was this, on the plateau or not (``here``).

    >>> import jax.numpy as jnp
    >>> window, here = new_visit(jnp.float32), jnp.array(True)
    >>> for _ in range(32):
    ...     window = after_step(window, jnp.array(1.0), here, length=16)
    >>> bool(window.relaxed)                     # the second window's energy is not lower
    True
    """
    old = window
    steps, inside = old.steps + 1, old.inside + 1
    # Means that move, not sums of squares: energies are large and differ by little.
    block = old.block + (energy - old.block) / inside.astype(energy.dtype)
    ends = (BLOCKS * steps) // length > (BLOCKS * old.steps) // length
    away = block - old.mean
    blocks = old.blocks + ends.astype(energy.dtype)
    mean = jnp.where(ends, old.mean + away / jnp.maximum(blocks, 1), old.mean)
    squares = jnp.where(ends, old.squares + away * (block - mean), old.squares)
    error = squares / (BLOCKS * (BLOCKS - 1))
    full = steps >= length
    holds = mean >= old.before - ERRORS * jnp.sqrt(error + old.before_error)
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
