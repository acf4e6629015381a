"""What JAX computes on, as far as it decides how a network is computed."""

from typing import Any

import jax

AMPERE = 8
"""The first generation whose tensor cores multiply TF32 and bfloat16."""
ROOMY = (9, 10)
"""Generations whose multiprocessors have 227 kB of shared memory (Hopper, Blackwell for data
centers); others have 164 kB at most."""


def has_tensor_cores() -> bool:
    """Whether the default device is an NVIDIA GPU of the Ampere generation or a later one.

    >>> import jax
    >>> has_tensor_cores() <= (jax.default_backend() == "gpu")
    True
    """
    return _generation() >= AMPERE


def has_room_for_a_network() -> bool:
    """Whether a multiprocessor of the default device holds 160 kB of weights beside its state.

    >>> has_room_for_a_network() <= has_tensor_cores()
    True
    """
    return _generation() in ROOMY


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
    """The first number of its compute capability; 0 of what is no NVIDIA GPU, or does not say."""
    device = _device()
    if device.platform not in ("gpu", "cuda") or "rocm" in device.client.platform_version.lower():
        return 0
    first = str(getattr(device, "compute_capability", "")).split(".")[0]
    return int(first) if first.isdigit() else 0
