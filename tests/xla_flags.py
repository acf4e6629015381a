"""The compiler's settings in tests, which JAX reads when it first computes."""

import importlib.metadata

# Each worker computes on its own core; small programs gain nothing from more threads.
ONE_CORE = "--xla_cpu_multi_thread_eigen=false"
# Of the simulated devices all but the tests of meshes use one.
EIGHT_DEVICES = "--xla_force_host_platform_device_count=8"


def quick_kernels() -> str:
    """The older of jaxlib 0.10's two ways to write kernels, which compiles in half the time.

    Later versions have one way, and do not start with this flag.
    """
    has_both = importlib.metadata.version("jaxlib").startswith("0.10.")
    return "--xla_cpu_use_fusion_emitters=false" if has_both else ""


XLA_FLAGS = f"{ONE_CORE} {EIGHT_DEVICES} {quick_kernels()}".strip()
