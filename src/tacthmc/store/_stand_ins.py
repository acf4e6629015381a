"""What stands for objects of classes that only the writer of a folder has.

Reading a folder imports no class that the folder names. A NamedTuple comes back as one with the
same fields. Any other container of arrays, such as an Equinox module, comes back as a
:class:`StandIn` with the same fields. A function comes back as a :class:`MissingFunction`.
"""

from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import jax

from tacthmc.store._errors import StoreError

TO_HAVE_IT = "pass the run's own (sampler=, potential=, like=), or trust=True to unpickle it"
"""What a message advises."""


class StandIn:
    """The fields of an object whose class the reader does not have: a pytree like the object.

    ``x.name`` and ``x["name"]`` give a field, and ``_fields`` lists the names.

    >>> import jax.numpy as jnp
    >>> net = stand_in("Net", ("weight", "bias"))(jnp.ones(3), jnp.zeros(()))
    >>> net.weight.shape, net["bias"].shape, type(net).__name__
    ((3,), (), 'Net')
    >>> jax.tree.map(lambda x: 2 * x, net).weight.tolist()
    [2.0, 2.0, 2.0]
    """

    _fields: tuple[str, ...] = ()

    def __init__(self, *values: Any):
        """Set the fields, in their order."""
        vars(self).update(zip(type(self)._fields, values, strict=True))

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __iter__(self) -> Iterator[Any]:
        return iter(vars(self).values())

    def __call__(self, *arguments: Any) -> NoReturn:
        """Raise an error that says how to get the class."""
        raise StoreError(
            f"the class {type(self).__name__!r} is not read from the folder: {TO_HAVE_IT}"
        )

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({fields})"


@cache
def stand_in(name: str, fields: tuple[str, ...]) -> type[StandIn]:
    """The class of stand-ins for a class of this name with these fields, registered with JAX."""
    kind = type(name, (StandIn,), {"_fields": fields})
    keys = [jax.tree_util.GetAttrKey(field) for field in fields]
    jax.tree_util.register_pytree_with_keys(
        kind,
        lambda one: (list(zip(keys, (vars(one)[f] for f in fields), strict=True)), None),
        lambda _, values: kind(*values),
        lambda one: ([vars(one)[f] for f in fields], None),
    )
    return kind


@cache
def named_tuple(name: str, fields: tuple[str, ...]) -> type[Any]:
    """A NamedTuple class. Names that are not plain identifiers raise a ValueError."""
    return namedtuple(name, fields)


class MissingFunction:
    """A function that only the writer of a folder has. It has a name, and cannot be called."""

    def __init__(self, name: str):
        """Remember the name."""
        self.__name__ = name

    def __call__(self, *arguments: Any) -> NoReturn:
        """Raise an error that says how to get the function."""
        raise StoreError(
            f"the function {self.__name__!r} of the run is not read from its folder: {TO_HAVE_IT}"
        )

    def __eq__(self, other: object) -> bool:
        """Whether ``other`` stands for a function of the same name."""
        return isinstance(other, MissingFunction) and other.__name__ == self.__name__

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __repr__(self) -> str:
        return f"<function {self.__name__}, not read>"
