"""Compilation that takes little time, for programs that run once on small arrays."""

import jax

OPTIONS = {"xla_backend_optimization_level": "0", "xla_llvm_disable_expensive_passes": True}


def quick(function, **options):
    """``jax.jit`` without the passes that make programs fast."""
    return jax.jit(function, compiler_options=OPTIONS, **options)
