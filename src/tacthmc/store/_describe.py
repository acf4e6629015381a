"""Samplers, states and trees of arrays as JSON, and back. Reading runs no code of the file.

==========================================  ======================================================
value                                       JSON
==========================================  ======================================================
None, bool, int, float, str                 itself
a list, tuple, set, dict or OrderedDict     ``{"list": […]}``, …, ``{"dict": [[key, value], …]}``
bytes                                       ``{"bytes": base64}``
an array, a scalar of NumPy                 ``{"array": base64, "dtype": …, "shape": …, "of": …}``
the shape of an array                       ``{"shape": […], "dtype": …}``
an object of a class of this library        ``{"part": "dynamics.PowerCoupling", "fields": {…}}``
a NamedTuple of the user                    ``{"named": "Params", "fields": [[name, value], …]}``
another container of arrays                 ``{"stand_in": "Net", "fields": […]}``
a function                                  ``{"function": "decay"}``
anything else                               ``{"object": "Lock"}``
==========================================  ======================================================

The classes of this library are those of :mod:`tacthmc.store._parts`; the others come back as
:mod:`tacthmc.store._stand_ins`.
"""

import base64
import dataclasses
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc.store._errors import StoreError
from tacthmc.store._parts import extends_a_part, known_parts, part_name
from tacthmc.store._stand_ins import MissingFunction, named_tuple, stand_in


def describe(value: Any) -> Any:
    """A value as JSON.

    >>> describe({"w": (0.5, None)})
    {'dict': [['w', {'tuple': [0.5, None]}]]}
    """
    # Numbers of NumPy are instances of float and int, too.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, jax.ShapeDtypeStruct):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return _array(value)
    name = part_name(type(value))
    if name is not None:
        fields = {field: describe(getattr(value, field)) for field in _field_names(value)}
        return {"part": name, "fields": fields}
    if type(value) in (list, tuple, set, frozenset):
        ordered = value if isinstance(value, (list, tuple)) else sorted(value, key=repr)
        return {type(value).__name__: [describe(one) for one in ordered]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return _dict(value)
    return _of_a_user(value)


def _dict(value: dict[Any, Any]) -> dict[str, Any]:
    kind = "ordered" if isinstance(value, OrderedDict) else "dict"
    found: dict[str, Any] = {kind: [[describe(k), describe(v)] for k, v in value.items()]}
    return found if type(value) in (dict, OrderedDict) else {**found, "of": type(value).__name__}


def _array(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return {"object": "array of objects"}
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    found = {
        "array": base64.b64encode(native.tobytes()).decode(),
        "dtype": str(native.dtype),
        "shape": list(array.shape),
        "of": "jax" if isinstance(value, jax.Array) else "numpy",
    }
    # Weakly typed numbers take the precision of what they are multiplied with.
    return {**found, "weak": True} if getattr(value, "weak_type", False) else found


def _field_names(value: Any) -> list[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(getattr(value, "_fields", None) or vars(value))


def _of_a_user(value: Any) -> dict[str, Any]:
    """A function, container or object of a class that is not of this library."""
    name = type(value).__qualname__
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields: Any = zip(_field_names(value), value, strict=True)
        return {"named": type(value).__name__, "fields": [[n, describe(v)] for n, v in fields]}
    if extends_a_part(type(value)):
        # An own way for ξ, say: its fields alone do not say what it does.
        return {"stand_in": name, "fields": _children(value) or [], "is_part": True}
    children = _children(value)
    if children is not None:
        return {"stand_in": name, "fields": children}
    if callable(value):
        return {"function": getattr(value, "__qualname__", name)}
    return {"object": name}


def _children(value: Any) -> list[Any] | None:
    """The names and descriptions of what JAX sees in a container, or None if it sees a leaf."""
    pairs = jax.tree_util.tree_leaves_with_path(value, is_leaf=lambda one: one is not value)
    if len(pairs) == 1 and pairs[0][1] is value:
        return None
    names: list[str] = []
    for path, _ in pairs:
        name = jax.tree_util.keystr(path, simple=True)
        names.append(name if name not in names else f"{name}_{len(names)}")
    return [[name, describe(child)] for name, (_, child) in zip(names, pairs, strict=True)]


class Restored(NamedTuple):
    """A value that was read from JSON, and what only its writer has."""

    value: Any
    functions: list[str]
    """The functions, of which there is only the name."""
    containers: list[str]
    """The classes of containers that came back as stand-ins."""
    objects: list[str]
    """The classes of parts and objects whose meaning is not known."""

    @property
    def is_whole(self) -> bool:
        """Whether the value is the one that was written."""
        return not (self.functions or self.containers or self.objects)

    @property
    def missing(self) -> str:
        """What is missing, for a message."""
        unknown = [*self.functions, *self.containers, *self.objects]
        return ", ".join(dict.fromkeys(unknown))


def restored(description: Any) -> Restored:
    """The inverse of :func:`describe`. What is malformed raises a StoreError.

    >>> import tacthmc
    >>> sampler = tacthmc.tact(0.01)
    >>> restored(describe(sampler)).value == sampler
    True
    >>> restored(describe(tacthmc.sgld(lambda k: 0.1 / (k + 1)))).functions
    ['<lambda>']
    """
    reader = _Reader()
    try:
        value = reader.read(description)
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"a description is malformed: {type(error).__name__}: {error}") from error
    return Restored(value, reader.functions, reader.containers, reader.objects)


class _Reader:
    def __init__(self) -> None:
        self.functions: list[str] = []
        self.containers: list[str] = []
        self.objects: list[str] = []
        self._forms: dict[str, Callable[[dict[str, Any]], Any]] = {
            "shape": lambda d: jax.ShapeDtypeStruct(_shape(d["shape"]), _dtype(d["dtype"])),
            "array": _read_array,
            "part": self._part,
            "list": lambda d: [self.read(one) for one in d["list"]],
            "tuple": lambda d: tuple(self.read(one) for one in d["tuple"]),
            "set": lambda d: {self._key(one) for one in d["set"]},
            "frozenset": lambda d: frozenset(self._key(one) for one in d["frozenset"]),
            "bytes": lambda d: base64.b64decode(d["bytes"], validate=True),
            "dict": lambda d: self._dict(dict, d["dict"], d.get("of")),
            "ordered": lambda d: self._dict(OrderedDict, d["ordered"], d.get("of")),
            "named": lambda d: self._container(named_tuple, d["named"], d["fields"]),
            "stand_in": self._stand_in,
            "function": self._function,
            "object": self._object,
        }

    def read(self, description: Any) -> Any:
        if description is None or isinstance(description, (bool, int, float, str)):
            return description
        # An array has a shape, too.
        form = next((name for name in ("array", *self._forms) if name in description), None)
        if form is None:
            raise StoreError(f"a description has an unknown form: {list(description)[:5]}")
        return self._forms[form](description)

    def _dict(self, make: Any, pairs: list[Any], name: str | None) -> Any:
        self.containers += [] if name is None else [str(name)]
        return make((self._key(key), self.read(value)) for key, value in pairs)

    def _key(self, description: Any) -> Any:
        key = self.read(description)
        try:
            hash(key)
        except TypeError as error:
            raise StoreError(f"a key of a dict cannot be {type(key).__name__}") from error
        return key

    def _part(self, description: dict[str, Any]) -> Any:
        name, fields = description["part"], description["fields"]
        kind = known_parts().get(name)
        if kind is None:
            raise StoreError(f"this version of tacthmc has no {name!r}")
        values = {field: self.read(value) for field, value in fields.items()}
        if issubclass(kind, tuple):
            return kind(**values)
        return _made(kind, values)

    def _container(self, make: Any, name: str, fields: list[Any]) -> Any:
        self.containers.append(name)
        names = tuple(str(field) for field, _ in fields)
        return make(name, names)(*(self.read(value) for _, value in fields))

    def _stand_in(self, description: dict[str, Any]) -> Any:
        name = description["stand_in"]
        if description.get("is_part"):
            self.objects.append(name)
        return self._container(stand_in, name, description["fields"])

    def _function(self, description: dict[str, Any]) -> MissingFunction:
        self.functions.append(str(description["function"]))
        return MissingFunction(str(description["function"]))

    def _object(self, description: dict[str, Any]) -> MissingFunction:
        self.objects.append(str(description["object"]))
        return MissingFunction(str(description["object"]))


def _made(kind: type, values: dict[str, Any]) -> Any:
    """An object with these fields. Its ``__init__`` is not run: the values were checked before."""
    made = object.__new__(kind)
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            # A field that is newer than the folder has its default.
            if field.name in values:
                object.__setattr__(made, field.name, values[field.name])
            elif field.default is not dataclasses.MISSING:
                object.__setattr__(made, field.name, field.default)
            else:
                raise StoreError(f"the description of a {kind.__name__} has no {field.name!r}")
        return made
    vars(made).update(values)
    return made


FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64))
DTYPES = frozenset(("bool", "complex64", "complex128", *FLOATS, *INTEGERS))
"""The dtypes that a description may name."""


def _dtype(name: Any) -> np.dtype:
    if name not in DTYPES:
        raise StoreError(f"a description has the dtype {name!r}; expected one of numbers")
    return jnp.dtype(name)


def _shape(shape: Any) -> tuple[int, ...]:
    if not all(type(n) is int and n >= 0 for n in shape):
        raise StoreError(f"a description has the shape {shape!r}; expected whole numbers")
    return tuple(shape)


def _read_array(description: dict[str, Any]) -> Any:
    data = base64.b64decode(description["array"], validate=True)
    shape, dtype = _shape(description["shape"]), _dtype(description["dtype"])
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise StoreError(f"an array of shape {shape} has {len(data)} bytes")
    array = np.frombuffer(data, dtype).reshape(shape)
    if description["of"] == "jax":
        return _weak(array) if description.get("weak") else jnp.asarray(array)
    return array.copy() if shape else array[()]


def _weak(array: Any) -> jax.Array:
    """A weakly typed array, which only numbers of Python make."""
    if array.ndim:
        return jnp.stack([_weak(one) for one in array])
    return jnp.asarray(array.item())
