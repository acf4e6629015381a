"""Three compiler settings that make the loops of samplers fast on a CPU.

**Small loops.** XLA runs a compiled loop on a CPU as a list of small kernels, and starting a kernel
takes 20 to 60 ns, which in low dimension is more than the arithmetic. A loop that touches few bytes
is compiled as a whole instead. By default "few" is 1 kB, and eight chains in one dimension touch
more. (Loops with library calls, such as matrix products and sorting, are not affected.)

**Unrolling.** Within such a loop, the arithmetic of a few chains is a short loop, which the
compiler unrolls before it vectorizes. It then finds few vectors: eight chains take nearly twice as
long as with unrolling off. (With unrolling off, sixteen or more chains lose a quarter, and networks
some percent.)

**Vector width.** On processors with vectors of 512 bits, XLA uses half of each by default. With
full vectors, drawing normals takes two thirds of the time. This setting applies to the program of a
run (:func:`program_options`), for tested versions of JAX.

The first two settings apply to the whole process, by an environment variable that XLA reads when
JAX first computes. :func:`configure_cpu` sets it, unless JAX has computed already or ``XLA_FLAGS``
contains such a setting. ``TACTHMC_XLA_FLAGS=0`` in the environment turns all of them off.
"""

import importlib
import importlib.metadata
import os
import re

from tacthmc.compiler._cpu_devices import from_environment

LOOP_BYTES_OPTION = "xla_cpu_small_while_loop_byte_threshold"
LOOP_BYTES = 1 << 17
DEFAULT_LOOP_BYTES = 1 << 10
NO_UNROLLING_OPTION = "xla_cpu_disable_loop_unrolling"
VECTOR_WIDTH_OPTION = "xla_cpu_prefer_vector_width"
VECTOR_WIDTH_BITS = 512
LAST_TESTED_JAXLIB = (0, 11)
"""The last version of jaxlib that was tested with :data:`VECTOR_WIDTH_OPTION`."""


def configure_cpu() -> None:
    """Make loops of small steps fast on a CPU. Call it before JAX first computes.

    It sets ``XLA_FLAGS`` for the whole process, unless that contains such a setting or
    ``TACTHMC_XLA_FLAGS`` is 0. It also sets the number of CPU devices, if ``TACTHMC_CORES`` gives
    one. The command line and the benchmarks call it. Importing ``tacthmc`` changes nothing.

    >>> configure_cpu()
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if not (
        "xla_backend_extra_options" in flags
        or os.environ.get("TACTHMC_XLA_FLAGS") == "0"
        or _too_late()
    ):
        setting = (
            f"--xla_backend_extra_options={LOOP_BYTES_OPTION}={LOOP_BYTES},{NO_UNROLLING_OPTION}"
        )
        os.environ["XLA_FLAGS"] = f"{flags} {setting}".strip()
    from_environment()


def program_options() -> dict[str, int] | None:
    """The compiler options of the program of a run, which do not affect the rest of the process.

    >>> program_options() in (None, {"xla_cpu_prefer_vector_width": 512})
    True
    """
    chosen = VECTOR_WIDTH_OPTION in os.environ.get("XLA_FLAGS", "")
    if (
        chosen
        or os.environ.get("TACTHMC_XLA_FLAGS") == "0"
        or not has_vector_width(importlib.metadata.version("jaxlib"))
    ):
        return None
    return {VECTOR_WIDTH_OPTION: VECTOR_WIDTH_BITS}


def has_vector_width(version: str) -> bool:
    """Whether this version of jaxlib is known to have the setting for the vector width.

    >>> has_vector_width("0.10.2"), has_vector_width("1.0.0")
    (True, False)
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) <= LAST_TESTED_JAXLIB


def small_loop_bytes() -> int:
    """The number of bytes per iteration up to which XLA compiles a loop on a CPU as a whole.

    >>> small_loop_bytes() in (1024, 131072)
    True
    """
    named = re.search(rf"{LOOP_BYTES_OPTION}=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return int(named[1]) if named else DEFAULT_LOOP_BYTES


def _too_late() -> bool:
    """Whether JAX has computed before, or False if this version of JAX does not tell."""
    try:
        bridge = importlib.import_module("jax._src.xla_bridge")
        return bool(bridge.backends_are_initialized())
    except (ImportError, AttributeError):
        return False
