"""What a sampler and a potential are made of, as short texts by name that can be compared.

Numbers are themselves, arrays are their shape and a digest, and functions are a digest of their
code, without comments, names of variables and docstrings. The values that a function closes over,
and the globals that it uses, have names of their own. What is installed, such as JAX, counts by
name: its version is compared elsewhere.
"""

import contextlib
import dataclasses
import dis
import functools
import hashlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from tacthmc.potentials._streamed import HostBatches, Source

MAX_ENTRIES = 5_000
"""The largest number of things that are looked at. It is more than any model has by itself."""
MAX_DEPTH = 40
"""The largest depth of things inside things."""
MAX_ARRAY_BYTES = 1 << 30
"""The size of an array from which only a part of it is looked at."""
MAX_TEXT = 80
"""The length of a text from which there is only its digest."""
CODE = "code "
"""How the text of a function begins."""

VALUES = (bool, int, float, complex, str, np.ndarray, np.generic, jax.Array)
PASSED_ON = (*VALUES, list, tuple, types.FunctionType)
"""What a function of a package may close over that is the user's."""
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), np.dtype)


def fingerprint(**parts: Any) -> dict[str, str]:
    """The texts of some parts, by their names.

    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> fingerprint(f=scaled(2)) == fingerprint(f=scaled(2)), fingerprint(f=scaled(3))["f.by"]
    (True, '3')
    >>> fingerprint(sizes=(0.5, 3))
    {'sizes.0': '0.5', 'sizes.1': '3'}
    """
    look = _Look()
    for name, value in parts.items():
        look.at(name, value)
    return look.found


class _Look:
    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._inside: list[int] = []

    def at(self, path: str, value: Any) -> None:
        """Add the texts of a value."""
        if len(self.found) >= MAX_ENTRIES or len(self._inside) >= MAX_DEPTH:
            return
        text = _text(value)
        if text is not None:
            self.found[path] = text
        elif id(value) in self._inside:
            self.found[path] = "itself"
        else:
            self._inside.append(id(value))
            self._inner(path, value)
            self._inside.pop()

    def _inner(self, path: str, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            name = f"{value.__module__}.{value.__qualname__}"
            own = CODE + _digest(_code(value.__code__))
            self.found[path] = name if is_installed(value.__module__) else own
        elif not isinstance(value, (dict, list, tuple, set, frozenset, Source)):
            self.found[path] = type(value).__qualname__
        for name, part in _parts(value):
            self.at(f"{path}.{name}", part)


def _text(value: Any) -> str | None:
    """The text of something without parts, or None."""
    if isinstance(value, PLAIN):
        text = repr(value)
        return text if len(text) <= MAX_TEXT else _digest(text.encode())
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        return _array(value)
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, type) and is_installed(value.__module__):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, types.BuiltinFunctionType):
        return f"{value.__module__}.{value.__qualname__}"
    # Reasons of tuning do not act on a chain.
    return "" if getattr(value, "is_stored_by_fields", False) else None


def _array(value: Any) -> str:
    if isinstance(value, jax.Array):
        if jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        if not (value.is_fully_addressable or value.is_fully_replicated):
            return f"{value.dtype}{list(value.shape)} on several hosts"
    array = np.asarray(value)
    if array.ndim == 0:
        return f"{array[()]!s} ({array.dtype})"
    if array.nbytes > MAX_ARRAY_BYTES:
        array = array[:: -(-array.nbytes // MAX_ARRAY_BYTES)]
    content = np.ascontiguousarray(array)
    digest = _digest(repr(content.tolist()) if content.dtype.hasobject else content.tobytes())
    return f"{value.dtype}{list(value.shape)} {digest}"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The named parts of a value."""
    if isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, types.MethodType):
        yield from (("function", value.__func__), ("self", value.__self__))
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, dict):
        yield from ((str(key), one) for key, one in value.items())
    elif isinstance(value, (set, frozenset, list, tuple)) and not hasattr(value, "_fields"):
        ordered = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value
        yield from ((str(i), one) for i, one in enumerate(ordered))
    elif isinstance(value, Source):
        yield from _of_loader(value.loader)
    elif hasattr(value, "__wrapped__"):
        # A function that JAX or functools has wrapped.
        yield ("function", getattr(value, "__wrapped__"))  # noqa: B009
    else:
        yield from _of_object(value)


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if is_installed(function.__module__):
        # A package may close over caches of its own, and over numbers of the user.
        yield from ((n, v) for n, v in _closed_over(function) if isinstance(v, PASSED_ON))
        return
    yield from _closed_over(function)
    yield from ((f"default {i}", one) for i, one in enumerate(function.__defaults__ or ()))
    yield from ((f"default {k}", one) for k, one in (function.__kwdefaults__ or {}).items())
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _closed_over(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        # A name may have no value yet.
        with contextlib.suppress(ValueError):
            yield name, cell.cell_contents


def _of_loader(loader: Any) -> Iterator[tuple[str, Any]]:
    """A loader by its class only, because it may count what it has given."""
    if isinstance(loader, (HostBatches, types.FunctionType)):
        yield "loader", loader
    else:
        yield "loader", type(loader).__qualname__


def _of_object(value: Any) -> Iterator[tuple[str, Any]]:
    kind = value if isinstance(value, type) else type(value)
    if not is_installed(kind.__module__):
        # The methods of a user's class, also of one that was unpickled.
        methods = ((n, getattr(m, "__wrapped__", m)) for n, m in vars(kind).items())
        yield from ((n, m) for n, m in methods if isinstance(m, types.FunctionType))
    if isinstance(value, type):
        return
    if dataclasses.is_dataclass(value):
        names: Any = [field.name for field in dataclasses.fields(value)]
    else:
        names = getattr(value, "_fields", None) or sorted(getattr(value, "__dict__", ()))
    yield from ((name, getattr(value, name, None)) for name in names)


def _code(code: types.CodeType) -> bytes:
    """What a function does, without the names of its variables and its docstring."""
    found = [repr((code.co_argcount, code.co_kwonlyargcount, code.co_freevars)).encode()]
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasconst:
            said = _constant(step.argval)
        elif step.opcode in dis.hasname or step.opcode in dis.hasjabs + dis.hasjrel:
            said = repr(step.argval).encode()
        else:
            said = repr(step.arg).encode()
        found.append(step.opname.encode() + b" " + said)
    return b"\n".join(found)


def _constant(value: Any) -> bytes:
    if isinstance(value, types.CodeType):
        return _code(value)
    if isinstance(value, frozenset):
        return repr(sorted(value, key=repr)).encode()
    return repr(value).encode()


def _names(code: types.CodeType) -> set[str]:
    """The names of globals that a function and those inside it use."""
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _digest(content: bytes | str) -> str:
    content = content.encode() if isinstance(content, str) else content
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def is_installed(module: str | None) -> bool:
    """Whether a module is this library, Python's own or an installed package.

    >>> is_installed("jax.numpy"), is_installed("__main__"), is_installed("of_another_day")
    (True, False, False)
    """
    first = (module or "").partition(".")[0]
    if first == "__main__" or not first:
        return False
    if first == "tacthmc" or first in sys.stdlib_module_names or first in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(first), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file
