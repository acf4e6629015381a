"""Properties of the default device that decide how a network is computed."""

from typing import Any

import jax

MIN_TENSOR_CORE_GENERATION = 8
"""The first generation (Ampere) whose tensor cores multiply TF32 and bfloat16."""
LARGE_MEMORY_GENERATIONS = (9, 10)
"""The generations with 227 kB of shared memory per multiprocessor (Hopper, Blackwell for data
centers). Others have at most 164 kB."""


def has_tensor_cores() -> bool:
    """Whether the default device is an NVIDIA GPU of the Ampere generation or later.

    >>> import jax
    >>> has_tensor_cores() <= (jax.default_backend() == "gpu")
    True
    """
    return _generation() >= MIN_TENSOR_CORE_GENERATION


def has_room_for_weights() -> bool:
    """Whether a multiprocessor of the default device can hold 160 kB of weights and a state.

    >>> has_room_for_weights() <= has_tensor_cores()
    True
    """
    return _generation() in LARGE_MEMORY_GENERATIONS


def on_cpu() -> bool:
    """Whether the default device is a CPU.

    >>> on_cpu() and has_tensor_cores()
    False
    """
    return _device().platform == "cpu"


def _device() -> Any:
    device: Any = getattr(jax.config, "jax_default_device", None) or jax.devices()[0]
    return jax.devices(device)[0] if isinstance(device, str) else device


def _generation() -> int:
    """The major compute capability of an NVIDIA GPU, or 0 for other devices and if unknown."""
    device = _device()
    if device.platform not in ("gpu", "cuda") or "rocm" in device.client.platform_version.lower():
        return 0
    first = str(getattr(device, "compute_capability", "")).split(".")[0]
    return int(first) if first.isdigit() else 0
