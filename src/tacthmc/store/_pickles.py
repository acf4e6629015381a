"""Pickles of the sampler and potential of a run, so that it can be resumed without its script.

Functions and classes from a script are pickled by value. The data of a posterior are not in the
pickle but in ``observed_data`` of the store, once, where other tools find them too.

Unpickling can run any code. It is therefore done only for a caller who says that the folder is
trusted, or if this process wrote the same bytes. Nothing else in a folder is a pickle.
"""

import base64
import hashlib
import io
import os
import pickle
import platform
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacthmc._positions import leaf_names
from tacthmc.compiler._hosts import all_gather_json
from tacthmc.potentials._base import Potential, innermost
from tacthmc.potentials._posterior import Posterior
from tacthmc.store._arrays import ArraySpec, opened
from tacthmc.store._describe import describe, restored
from tacthmc.store._errors import StoreError, needs
from tacthmc.store._safe import unused_name

FILE = "program.pkl"

PRIVATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
"""How a file is opened that gets its own permissions."""

_written: set[str] = set()
"""The digests of the pickles that this process wrote."""


class NotPortableWarning(UserWarning):
    """A warning that the functions of a run cannot be pickled. Pass them to ``resume`` again."""


def observed(potential: Potential) -> dict[str, Any]:
    """The data of a posterior by name; empty for other potentials."""
    inner = innermost(potential)
    if not isinstance(inner, Posterior):
        return {}
    taken: set[str] = set()
    names = [f"data.{n}" if n != "theta" else "data" for n in leaf_names(inner.data)]
    names = [unused_name(name, taken) for name in names]
    return dict(zip(names, jax.tree.leaves(inner.data), strict=True))


def data_specs(data: dict[str, Any]) -> dict[str, ArraySpec]:
    """The arrays of the store for data."""
    return {
        name: ArraySpec("observed_data", name, tuple(value.shape), str(value.dtype))
        for name, value in data.items()
    }


def pickler() -> Any:
    """The pickler that also pickles functions of a script, imported when first needed."""
    try:
        import cloudpickle
    except ImportError as error:
        raise needs("cloudpickle") from error
    return cloudpickle.Pickler


def write_program(folder: Path, parts: dict[str, Any], data: dict[str, Any]) -> None:
    """Pickle the sampler and the potential, or warn if that is not possible."""
    base: Any = pickler()
    names = {id(value): name for name, value in data.items()}

    class Pickler(base):
        def persistent_id(self, obj: Any) -> Any:
            return names.get(id(obj))

    buffer = io.BytesIO()
    try:
        Pickler(buffer).dump(parts)
    except Exception as error:
        warnings.warn(
            f"the run in {folder} cannot be resumed from its folder alone ({error}): call"
            " tacthmc.resume(folder, sampler=…, potential=…)",
            NotPortableWarning,
            stacklevel=4,
        )
        return
    content = buffer.getvalue()
    _written.add(hashlib.sha256(content).hexdigest())
    # It may hold code and keys of the user, so no one else reads or replaces it.
    with os.fdopen(os.open(folder / FILE, PRIVATE, 0o600), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)


def share_written() -> None:
    """Let all processes of a run know what one of them wrote."""
    if jax.process_count() > 1:
        _written.update(*all_gather_json(sorted(_written)))


def plain_or_pickled(value: Any) -> dict[str, Any]:
    """The state of a user's object as JSON, pickled only if it has more than plain data."""
    described = describe(value)
    if restored(described).is_whole:
        return {"plain": described}
    content = pickle.dumps(value)
    _written.add(hashlib.sha256(content).hexdigest())
    python = platform.python_version()
    return {"pickle": base64.b64encode(content).decode(), "python": python}


def from_plain_or_pickled(stored: dict[str, Any], what: str, trust: bool) -> Any:
    """The inverse of :func:`plain_or_pickled`; ``what`` names the value in errors."""
    if "plain" in stored:
        return restored(stored["plain"]).value
    content = base64.b64decode(stored["pickle"])
    _check_allowed(content, stored["python"], trust, what)
    return pickle.loads(content)


def has_program(folder: Path) -> bool:
    """Whether the folder has a pickled program."""
    return (folder / FILE).exists()


def read_program(
    path: Path, root: Path, specs: dict[str, ArraySpec], python: str, trust: bool
) -> dict[str, Any]:
    """The parts from :func:`write_program`, with the data read from the store.

    ``python`` is the version that wrote them. Nothing is unpickled without ``trust``, unless this
    process wrote the pickle.
    """

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            spec = specs[pid]
            try:
                array = opened(root, spec.path, spec.metadata(0))
                return jnp.asarray(np.asarray(array.read().result()))
            except ValueError as error:
                raise StoreError(f"{root / spec.path}: the data cannot be read: {error}") from error

    content = _content(path, python, trust)
    try:
        parts = Unpickler(io.BytesIO(content)).load()
        if not isinstance(parts, dict):
            raise TypeError(f"it holds a {type(parts).__name__}")
        return parts
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"{path} cannot be read ({type(error).__name__}: {error}): make the modules of"
            " its functions importable, or pass the sampler= and potential= of the run"
        ) from error


def _content(path: Path, python: str, trust: bool) -> bytes:
    """The bytes of the pickle, if they may be unpickled here."""
    if not path.exists():
        raise StoreError(
            f"{path.parent} has no {FILE} (the functions of the run could not be pickled, or"
            " Store.with_program was False): pass the sampler= and potential= of the run"
        )
    content = path.read_bytes()
    _check_allowed(content, python, trust, f"{path}, which has the functions of the run,")
    return content


def _check_allowed(content: bytes, python: str, trust: bool, what: str) -> None:
    """Require that a pickle is trusted, and that this Python can read it."""
    here = _minor(platform.python_version())
    if _minor(python) != here:
        # The code of functions differs between versions, and another one's may crash.
        raise StoreError(
            f"{what} was pickled by Python {_minor(python)}, and this is Python {here}: pass the"
            " sampler= and potential= of the run, or resume it with Python"
            f" {_minor(python)}"
        )
    if not trust and hashlib.sha256(content).hexdigest() not in _written:
        raise StoreError(
            f"{what} is a pickle, and unpickling can run any code. If you made this run, or trust"
            " who did, say so: tacthmc.resume(…, trust=True), or tacthmc resume --trust. Otherwise"
            " pass the potential= (and sampler=) of the run"
        )


def _minor(version: str) -> str:
    return ".".join(str(version).split(".")[:2])
