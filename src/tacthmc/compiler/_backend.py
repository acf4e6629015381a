"""The kind of device that JAX computes on."""

import jax


def has_accelerator() -> bool:
    """Whether JAX computes on an accelerator rather than on a CPU.

    >>> import jax
    >>> has_accelerator() == (jax.default_backend() != "cpu")
    True
    """
    return jax.default_backend() != "cpu"
