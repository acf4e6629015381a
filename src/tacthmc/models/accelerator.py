"""Whether kernels for NVIDIA's tensor cores can run where JAX computes."""

from typing import Any

import jax

AMPERE = 8
"""The first generation of them that multiplies TF32 and bfloat16."""


def has_tensor_cores() -> bool:
    """Whether the default device is an NVIDIA GPU of the Ampere generation or a later one.

    >>> import jax
    >>> has_tensor_cores() <= (jax.default_backend() == "gpu")
    True
    """
    device = getattr(jax.config, "jax_default_device", None) or jax.devices()[0]
    if isinstance(device, str):
        return False if device == "cpu" else _is_new(jax.devices(device)[0])
    return _is_new(device)


def _is_new(device: Any) -> bool:
    if device.platform not in ("gpu", "cuda") or "rocm" in device.client.platform_version.lower():
        return False
    # "9.0" on NVIDIA's; whoever does not say is not asked to run kernels made for them.
    generation = str(getattr(device, "compute_capability", "0")).split(".")[0]
    return generation.isdigit() and int(generation) >= AMPERE
