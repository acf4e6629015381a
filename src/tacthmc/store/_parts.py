"""The classes of this library that a description may name, and no others.

A file says "dynamics.PowerCoupling", and the class is looked up among those that the library has
loaded already. Nothing is imported, and no name is evaluated.
"""

import sys
from functools import lru_cache

import equinox as eqx

ROOMS = ("potentials", "targets", "dynamics", "samplers", "diagnostics", "run", "tuning")
"""The rooms whose classes can be parts of samplers, potentials and states."""


def is_part(kind: type) -> bool:
    """Whether objects of a class are determined by their fields."""
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named or issubclass(kind, eqx.Module) or getattr(kind, "is_stored_by_fields", False)


def known_parts() -> dict[str, type]:
    """All classes that descriptions may name, by room and name.

    >>> known_parts()["dynamics.PowerCoupling"].__name__
    'PowerCoupling'
    """
    # Some modules are imported when they are first needed.
    return _of_modules(len(sys.modules))[0]


@lru_cache(maxsize=1)
def _of_modules(count: int) -> tuple[dict[str, type], dict[type, str]]:
    """The classes by name, and the names by class, of the modules that are loaded now."""
    found: dict[str, type] = {}
    for module_name, module in sorted(sys.modules.items()):
        first, _, rest = module_name.partition(".")
        room = rest.partition(".")[0]
        if first != "tacthmc" or room not in ROOMS or module is None:
            continue
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module_name and is_part(value):
                found[f"{room}.{value.__qualname__}"] = value
    return found, {kind: name for name, kind in found.items()}


def part_name(kind: type) -> str | None:
    """The name of a class in descriptions, or None if it is not one of this library."""
    return _of_modules(len(sys.modules))[1].get(kind)


def extends_a_part(kind: type) -> bool:
    """Whether a user's class has one of this library among its bases."""
    return any(part_name(base) is not None for base in kind.__mro__[1:])
