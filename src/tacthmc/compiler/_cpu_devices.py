"""Several CPU cores for one run.

JAX treats a CPU as one device, whose cores share the work of single operations. The step of a
sampler gains little from that, and the gradient of a network gains less than possible. With one
device per core, cores run chains side by side. Or the chains of a network run one after the other,
and each core takes a share of the batch.

The number of devices has to be set before JAX first computes: by :func:`use_cpu_devices`, or by
``TACTHMC_CORES=2`` (or ``all``) in the environment and a call of :func:`tacthmc.configure_cpu`.
"""

import math
import os
from collections.abc import Callable

import jax
from jax.sharding import Mesh

from tacthmc import _checks as checks
from tacthmc.compiler._mesh import BATCH, CHAINS

_in_use = 1
MIN_EXAMPLES_PER_CORE = 32
"""The number of examples per core from which the batches of a network are spread rather than its
chains. With 64 examples and two cores, four chains of the CNN then take 4.05 ms per chain and step
instead of 4.54. (Four LSTMs take 7.0 ms instead of 6.5, so the chains of recurrent networks are
spread if possible.)"""


def use_cpu_devices(count: int | None = None) -> int:
    """Spread runs without a mesh over CPU cores. Call it before JAX first computes.

    Chains are spread over as many cores as divide their number. The batches of a network are spread
    instead if its chains cannot be divided, or if it is not recurrent and each core gets 32
    examples or more. A ``batched`` likelihood then gets a part of a batch at a time, so it has to
    treat each example independently. The numbers are those of a run on one core, up to rounding.

    Args:
        count: the number of cores; by default all that this process may use.

    Returns:
        The number of devices, as in ``jax.devices()``.

    Raises:
        RuntimeError: if JAX has computed already, with fewer devices.

    >>> import jax
    >>> use_cpu_devices(1) <= len(jax.devices())
    True
    """
    global _in_use
    if count is None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    count = count or 1
    checks.whole("count", count, 1)
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        # It is too late to change the number, which is fine if there are enough devices.
        if jax.default_backend() != "cpu" or len(jax.devices()) < count:
            raise RuntimeError(
                f"use_cpu_devices({count}) comes too late, as JAX has computed already: call it"
                " before anything else"
            ) from None
    _in_use = count
    return count


def one_device() -> None:
    """Let runs without a mesh use one device from now on."""
    global _in_use
    _in_use = 1


def cores_in_use() -> int:
    """The number of cores over which runs without a mesh are spread.

    >>> cores_in_use()
    1
    """
    return _in_use


def from_environment() -> None:
    """Use as many CPU devices as ``TACTHMC_CORES`` says."""
    value = os.environ.get("TACTHMC_CORES", "").strip()
    if value in ("", "1"):
        return
    if value != "all" and not value.isdigit():
        raise ValueError(f"TACTHMC_CORES must be a whole number or 'all'; got {value!r}")
    use_cpu_devices(None if value == "all" else int(value))


def mesh_of_cores(
    num_chains: int,
    batch_size: int | None,
    batches: Callable[[int], bool],
    cores: int | None = None,
) -> Mesh | None:
    """The mesh of a run without one.

    ``batches(ways)`` says whether spreading batches pays, if chains can be spread over ``ways``
    cores.
    """
    cores = _in_use if cores is None else cores
    if cores == 1 or jax.default_backend() != "cpu" or jax.process_count() > 1:
        return None
    ways = max(n for n in range(1, cores + 1) if num_chains % n == 0)
    shares = 1 if batch_size is None else math.gcd(batch_size, cores)
    if shares > 1 and _prefers_batches(ways, shares, batch_size) and batches(ways):
        return _cpu_mesh(shares, BATCH)
    return _cpu_mesh(ways, CHAINS)


def _prefers_batches(ways: int, shares: int, batch_size: int | None) -> bool:
    """Whether to spread batches rather than chains."""
    enough = batch_size is not None and batch_size >= MIN_EXAMPLES_PER_CORE * shares
    return ways == 1 or (shares >= ways and enough)


def _cpu_mesh(ways: int, axis: str) -> Mesh | None:
    return None if ways == 1 else jax.make_mesh((ways,), (axis,), devices=jax.devices()[:ways])
