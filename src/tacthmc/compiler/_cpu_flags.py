"""Three settings of JAX's compiler that a sampler's loops need on a CPU.

XLA runs a compiled loop on a CPU as a list of small kernels, and starting one takes 20 to 60 ns:
in low dimension more than the arithmetic. A loop that touches few bytes is compiled whole
instead, but "few" means 1 kB unless told otherwise, and eight chains of one dimension touch
more. Loops with library calls in them (matrix products, sorting) stay as they are.

Within such a loop, a few chains' numbers are themselves a short loop, which the compiler unrolls
before it looks for vectors, and then finds few: eight chains take nearly twice as long as they
do with unrolling off. (Sixteen or more lose a quarter by that, and networks some percent.)

And where a processor has vectors of 512 bits, XLA uses half of each unless told: normals, all
integer arithmetic, take two thirds of the time with whole ones. XLA ends the process over a
setting that it does not know, so this one is made for versions of JAX that were tried.

The settings are an environment variable that XLA reads once, when JAX first computes:
:func:`configure_cpu` sets it if it is not too late, and if ``XLA_FLAGS`` says nothing of the kind
already.
``TACTHMC_XLA_FLAGS=0`` in the environment leaves it alone.
"""

import importlib
import importlib.metadata
import os
import re

from tacthmc.compiler._cpu_devices import from_environment

OPTION = "xla_cpu_small_while_loop_byte_threshold"
WANTED = 1 << 17
DEFAULT = 1 << 10
NOT_UNROLLED = "xla_cpu_disable_loop_unrolling"
WIDTH = "xla_cpu_prefer_vector_width"
WIDE = 512
TRIED = (0, 11)
"""The last version of jaxlib that is known to know :data:`WIDTH`."""


def configure_cpu() -> None:
    """Make loops of small steps fast on a CPU; call it before JAX first computes.

    It sets ``XLA_FLAGS`` for the whole process, where that does not say anything of the kind yet
    and ``TACTHMC_XLA_FLAGS`` is not 0, and as many CPU devices as ``TACTHMC_CORES`` names. The
    command line and the benchmarks call it; importing ``tacthmc`` changes nothing.

    >>> configure_cpu()
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if not (
        "xla_backend_extra_options" in flags
        or os.environ.get("TACTHMC_XLA_FLAGS") == "0"
        or _too_late()
    ):
        settings = [f"--xla_backend_extra_options={OPTION}={WANTED},{NOT_UNROLLED}"]
        if WIDTH not in flags and knows_width(importlib.metadata.version("jaxlib")):
            settings.append(f"--{WIDTH}={WIDE}")
        os.environ["XLA_FLAGS"] = " ".join([flags, *settings]).strip()
    from_environment()


def knows_width(version: str) -> bool:
    """Whether XLA in this version of jaxlib is known to have the setting of vectors' width.

    >>> knows_width("0.10.2"), knows_width("1.0.0")
    (True, False)
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) <= TRIED


def small_loop_bytes() -> int:
    """Up to so many bytes an iteration, XLA compiles a loop on a CPU whole.

    >>> small_loop_bytes() in (1024, 131072)
    True
    """
    named = re.search(rf"{OPTION}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(named[1]) if named else DEFAULT


def _too_late() -> bool:
    """Whether JAX has computed before; not part of its public interface, so: as far as known."""
    try:
        bridge = importlib.import_module("jax._src.xla_bridge")
        return bool(bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False
