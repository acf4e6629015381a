"""Corrupted test images, to test whether predictions become less certain."""

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Float, UInt8

from tacthmc.paper import checks

Kind: TypeAlias = Literal["gaussian_noise", "blur", "contrast", "pixelation"]

NOISE = (0.04, 0.08, 0.12, 0.18, 0.26)
"""Standard deviations of added noise, where 1 is the range of a pixel."""

BLUR = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Standard deviations of the blurring kernel, in pixels."""

CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
"""The remaining share of the distance of a pixel from the mean of its image."""

PIXELS = (0.8, 0.6, 0.5, 0.4, 0.3)
"""The remaining share of the number of pixels along an edge."""


def corrupted(
    images: UInt8[np.ndarray, "n h w ..."], kind: Kind, severity: int = 3, *, seed: int = 0
) -> UInt8[np.ndarray, "n h w ..."]:
    """Images with noise, blur, less contrast or coarser pixels.

    They follow D. Hendrycks and T. Dietterich. *Benchmarking neural network robustness to common
    corruptions and perturbations.* ICLR 2019, with other levels, for small images.

    Args:
        images: uint8 of 0 to 255.
        kind: "gaussian_noise", "blur", "contrast" or "pixelation".
        severity: 1 to 5.
        seed: the seed of the noise.

    >>> import numpy as np
    >>> image = np.zeros((1, 2, 2), np.uint8)
    >>> image[0, 0, 0] = 200
    >>> corrupted(image, "contrast", 5).tolist()
    [[[72, 42], [42, 42]]]
    >>> corrupted(image, "pixelation", 5).tolist()
    [[[50, 50], [50, 50]]]
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind must be one of {get_args(Kind)}; got {kind!r}")
    checks.whole("severity", severity, 1)
    if severity > len(NOISE):
        raise ValueError(f"severity must be 1 to {len(NOISE)}; got {severity}")
    if images.ndim not in (3, 4):
        raise ValueError(
            f"images must have shape (n, height, width) or (n, height, width, color); got"
            f" {images.shape}"
        )
    make: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "gaussian_noise": lambda x: _noisy(x, NOISE[severity - 1], seed),
        "blur": lambda x: _blurred(x, BLUR[severity - 1]),
        "contrast": lambda x: _faded(x, CONTRAST[severity - 1]),
        "pixelation": lambda x: _coarse(x, PIXELS[severity - 1]),
    }
    worse = make[kind](images.astype(np.float32))
    return np.clip(np.rint(worse), 0, 255).astype(np.uint8)


def _noisy(x: Float[np.ndarray, "..."], sd: float, seed: int) -> np.ndarray:
    checks.whole("seed", seed, 0)
    noise = np.random.default_rng(seed).standard_normal(x.shape, np.float32)
    return x + np.float32(255 * sd) * noise


def _blurred(x: Float[np.ndarray, "..."], sd: float) -> np.ndarray:
    reach = int(np.ceil(3 * sd))
    away = np.arange(-reach, reach + 1)
    kernel = np.exp(-0.5 * (away / sd) ** 2)
    kernel = (kernel / kernel.sum()).astype(np.float32)
    # Along one axis after the other. Beyond its edge an image continues with its last pixels.
    for axis in (1, 2):
        size = x.shape[axis]
        padded = np.pad(x, [(reach, reach) if i == axis else (0, 0) for i in range(x.ndim)], "edge")
        shifted = (np.take(padded, np.arange(i, i + size), axis) for i in range(2 * reach + 1))
        x = sum((w * s for w, s in zip(kernel, shifted, strict=True)), np.zeros_like(x))
    return x


def _faded(x: Float[np.ndarray, "..."], left: float) -> np.ndarray:
    mean = x.mean(axis=tuple(range(1, x.ndim)), keepdims=True)
    return mean + np.float32(left) * (x - mean)


def _coarse(x: Float[np.ndarray, "..."], left: float) -> np.ndarray:
    for axis in (1, 2):
        size = x.shape[axis]
        small = max(1, round(size * left))
        # A coarse pixel is the mean of the area that it covers. Each pixel shows the coarse pixel
        # at its center.
        edges = np.linspace(0, size, small + 1)
        low, high = np.arange(size), np.arange(1, size + 1)
        covered = np.minimum(high, edges[1:, None]) - np.maximum(low, edges[:-1, None])
        weights = np.maximum(covered, 0) * small / size
        shown = ((np.arange(size) + 0.5) * small / size).astype(int)
        spread = weights[shown].astype(np.float32)
        x = np.moveaxis(np.tensordot(x, spread, axes=([axis], [1])), -1, axis)
    return x
