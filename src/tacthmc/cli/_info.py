"""Versions and devices, for bug reports."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    *("tacthmc", "jax", "jaxlib", "numpy", "equinox", "optax", "arviz", "orbax-checkpoint"),
    *("tensorstore", "zarr", "plotly", "matplotlib", "grain", "blackjax", "numpyro"),
)


def facts() -> tuple[tuple[str, str], ...]:
    """What a bug report should say about this machine."""
    import jax

    return (
        ("python", platform.python_version()),
        ("system", platform.platform()),
        *((name, version_of(name)) for name in PACKAGES),
        ("cores", str(os.cpu_count())),
        ("backend", jax.default_backend()),
        ("devices", ", ".join(str(device) for device in jax.devices())),
        ("double precision", "on" if jax.config.read("jax_enable_x64") else "off"),
    )


def version_of(name: str) -> str:
    """The installed version of a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
