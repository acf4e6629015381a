"""Several CPU cores for one run.

JAX sees a CPU as one device, whose cores share the work of single operations: little of a sampler's
step gains from that, and of a network's gradient less than could be. As a device each, cores run
chains side by side; or, of a network's chains one after the other, each takes its share of the
batch.

JAX has to be told before it first computes, so this is asked for: by :func:`use_cores`, or by
``TACTHMC_CORES=2`` (or ``all``) in the environment where :func:`tacthmc.configure_cpu` is called.
"""

import math
import os
from collections.abc import Callable

import jax
from jax.sharding import Mesh

from tacthmc import _checks as checks
from tacthmc.compiler._mesh import BATCH, CHAINS

_in_use = 1
ENOUGH = 32
"""Examples for each core from which a network's batches are spread rather than its chains: with 64
examples and two cores four chains of the CNN take 4.05 ms a chain-step then instead of 4.54. (Four
of the LSTM 7.0 instead of 6.5: a recurrent network's batches are not, if its chains can be.)"""


def use_cpu_devices(count: int | None = None) -> int:
    """Spread runs that name no mesh over CPU cores; call it before JAX first computes.

    Chains are spread as far as their number can be divided. Where the gradient is a network's,
    batches are instead if chains cannot be divided, or, of one that is not recurrent, if 32
    examples or more are left for each core (so that a ``batched`` likelihood sees a part of a batch
    at a time: it has to treat examples each by itself). The numbers are those of a run on one core,
    up to rounding.

    Args:
        count: how many cores; by default all that this process may use.

    Returns:
        How many there will be. ``jax.devices()`` has as many, too.

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
        # Too late to change, but not if there are that many.
        if jax.default_backend() != "cpu" or len(jax.devices()) < count:
            raise RuntimeError(
                f"use_cpu_devices({count}) comes too late, as JAX has computed already: call it first"
                " thing"
            ) from None
    _in_use = count
    return count


def one_device() -> None:
    """Let runs that name no mesh use one device, whatever was asked for."""
    global _in_use
    _in_use = 1


def cores_in_use() -> int:
    """How many cores runs are spread over that name no mesh.

    >>> cores_in_use()
    1
    """
    return _in_use


def from_environment() -> None:
    """What ``TACTHMC_CORES`` asks for."""
    wanted = os.environ.get("TACTHMC_CORES", "").strip()
    if wanted in ("", "1"):
        return
    if wanted != "all" and not wanted.isdigit():
        raise ValueError(f"TACTHMC_CORES must be a whole number or 'all'; got {wanted!r}")
    use_cpu_devices(None if wanted == "all" else int(wanted))


def mesh_of_cores(
    num_chains: int,
    batch_size: int | None,
    batches: Callable[[int], bool],
    cores: int | None = None,
) -> Mesh | None:
    """The mesh of a run that names none.

    ``batches`` says if batches are worth spreading where chains could be so many ways.
    """
    cores = _in_use if cores is None else cores
    if cores == 1 or jax.default_backend() != "cpu" or jax.process_count() > 1:
        return None
    ways = max(n for n in range(1, cores + 1) if num_chains % n == 0)
    axis, shares = CHAINS, 1 if batch_size is None else math.gcd(batch_size, cores)
    enough = batch_size is not None and batch_size >= ENOUGH * shares
    if shares > 1 and (ways == 1 or (shares >= ways and enough)) and batches(ways):
        ways, axis = shares, BATCH
    return None if ways == 1 else jax.make_mesh((ways,), (axis,), devices=jax.devices()[:ways])
